//! Routes about segments. Invariant: an empty cluster answers with an empty body, which waiting
//! clients take as "not yet".

use crate::answer;
use crate::master_view::{SegmentInfo, id_text, state_name};
use crate::query::filled_parameter;
use crate::shared::RouteContext;
use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use perigee_schemas::Status;
use serde::Serialize;
use std::fmt::Write as _;

#[derive(Serialize)]
struct Detail {
    total_segments: usize,
    segments: Vec<SegmentRow>,
}

#[derive(Serialize)]
struct SegmentRow {
    segment_name: String,
    segment_id: String,
    client_id: String,
    base_address: String,
    size_bytes: u64,
    size_human: String,
    te_endpoint: String,
    protocol: String,
    status: &'static str,
    allocator_used_bytes: u64,
    allocator_capacity_bytes: u64,
    allocator_usage_percent: f64,
}

#[derive(Serialize)]
struct StatusBody {
    success: bool,
    segment: String,
    status: u8,
    status_name: &'static str,
    error_code: i32,
    error_message: &'static str,
}

impl From<SegmentInfo> for SegmentRow {
    fn from(segment: SegmentInfo) -> Self {
        Self {
            segment_id: id_text(segment.id),
            client_id: id_text(segment.client),
            base_address: format!("{:#x}", segment.base_address),
            size_bytes: segment.capacity_bytes,
            size_human: format!("{:.4} GiB", in_units(segment.capacity_bytes, 1 << 30)),
            te_endpoint: segment.endpoint,
            protocol: segment.protocol,
            status: state_name(segment.state),
            allocator_used_bytes: segment.used_bytes,
            allocator_capacity_bytes: segment.capacity_bytes,
            allocator_usage_percent: 100.0 * in_units(segment.used_bytes, segment.capacity_bytes),
            segment_name: segment.name,
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a shown ratio needs no more than 53 bits")]
fn in_units(bytes: u64, unit: u64) -> f64 {
    if unit == 0 { 0.0 } else { bytes as f64 / unit as f64 }
}

async fn list(shared: &RouteContext) -> Result<Vec<SegmentInfo>, Response> {
    shared.ask(|plane| plane.segments()).await?.map_err(answer::error)
}

pub(crate) async fn names(State(shared): State<RouteContext>) -> Result<Response, Response> {
    let mut lines = String::new();
    let mut seen = std::collections::HashSet::new();
    for segment in list(&shared).await? {
        if seen.insert(segment.name.clone()) {
            let _ = writeln!(lines, "{}", segment.name);
        }
    }
    Ok(answer::text(lines))
}

pub(crate) async fn detail(State(shared): State<RouteContext>) -> Result<Response, Response> {
    let segments: Vec<SegmentRow> =
        list(&shared).await?.into_iter().map(SegmentRow::from).collect();
    Ok(answer::json(StatusCode::OK, &Detail { total_segments: segments.len(), segments }))
}

pub(crate) async fn query(
    State(shared): State<RouteContext>,
    RawQuery(query): RawQuery,
) -> Result<Response, Response> {
    let name = filled_parameter(query.as_deref(), "segment").unwrap_or_default();
    let mut segments = list(&shared).await?;
    segments.retain(|segment| segment.name == name);
    if segments.is_empty() {
        let failed = answer::text("Failed to query segment".to_owned());
        return Ok((StatusCode::INTERNAL_SERVER_ERROR, failed).into_response());
    }
    let used: u64 = segments.iter().map(|segment| segment.used_bytes).sum();
    let capacity: u64 = segments.iter().map(|segment| segment.capacity_bytes).sum();
    Ok(answer::text(format!("{name}\nUsed(bytes): {used}\nCapacity(bytes) : {capacity}\n")))
}

pub(crate) async fn status(
    State(shared): State<RouteContext>,
    RawQuery(query): RawQuery,
) -> Result<Response, Response> {
    let Some(name) = filled_parameter(query.as_deref(), "segment") else {
        let message = "Missing segment query parameter";
        return Err(answer::error_text(StatusCode::BAD_REQUEST, Status::InvalidParams, message));
    };
    let segments = list(&shared).await?;
    let found = segments.into_iter().find(|segment| segment.name == name);
    let state = found.ok_or_else(|| answer::error(Status::SegmentNotFound))?.state;
    let body = StatusBody {
        success: true,
        segment: name,
        status: state,
        status_name: state_name(state),
        error_code: 0,
        error_message: "",
    };
    Ok(answer::json(StatusCode::OK, &body))
}
