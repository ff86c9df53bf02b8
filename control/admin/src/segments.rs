//! Routes about segments. Invariant: an empty cluster answers with an empty body, which waiting
//! clients take as "not yet".

use crate::answer;
use crate::limits::SEGMENTS_PER_PIECE;
use crate::master_view::{SegmentInfo, id_text, state_name};
use crate::query::filled_parameter;
use crate::shared::RouteContext;
use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use perigee_schemas::Status;
use serde::Serialize;
use std::collections::HashSet;
use std::fmt::Write as _;

#[derive(Serialize)]
struct SegmentRow<'a> {
    segment_name: &'a str,
    segment_id: String,
    client_id: String,
    base_address: String,
    size_bytes: u64,
    size_human: String,
    te_endpoint: &'a str,
    protocol: &'a str,
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

impl<'a> From<&'a SegmentInfo> for SegmentRow<'a> {
    fn from(segment: &'a SegmentInfo) -> Self {
        Self {
            segment_id: id_text(segment.id),
            client_id: id_text(segment.client),
            base_address: format!("{:#x}", segment.base_address),
            size_bytes: segment.capacity_bytes,
            size_human: format!("{:.4} GiB", in_units(segment.capacity_bytes, 1 << 30)),
            te_endpoint: segment.text.endpoint(),
            protocol: segment.text.protocol(),
            status: state_name(segment.state),
            allocator_used_bytes: segment.used_bytes,
            allocator_capacity_bytes: segment.capacity_bytes,
            allocator_usage_percent: 100.0 * in_units(segment.used_bytes, segment.capacity_bytes),
            segment_name: segment.text.name(),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a shown ratio needs no more than 53 bits")]
fn in_units(bytes: u64, unit: u64) -> f64 {
    if unit == 0 { 0.0 } else { bytes as f64 / unit as f64 }
}

async fn list(shared: &RouteContext, name: Option<String>) -> Result<Vec<SegmentInfo>, Response> {
    shared.ask(move |plane| plane.segments(name.as_deref())).await?.map_err(answer::error)
}

pub(crate) async fn names(State(shared): State<RouteContext>) -> Result<Response, Response> {
    let mut segments = list(&shared, None).await?;
    let mut seen = HashSet::new();
    let is_new: Vec<bool> = segments.iter().map(|it| seen.insert(it.text.name())).collect();
    drop(seen);
    let mut is_new = is_new.into_iter();
    segments.retain(|_| is_new.next().unwrap_or_default());
    Ok(answer::text_pieces(Lines(segments.into_iter())))
}

pub(crate) async fn detail(State(shared): State<RouteContext>) -> Result<Response, Response> {
    let segments = list(&shared, None).await?;
    let head = Some(format!("{{\"total_segments\":{},\"segments\":[", segments.len()));
    Ok(answer::json_pieces(DetailRows { head, left: segments.into_iter() }))
}

/// Names, one a line.
struct Lines(std::vec::IntoIter<SegmentInfo>);

impl Iterator for Lines {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        let mut lines = String::new();
        for segment in self.0.by_ref().take(SEGMENTS_PER_PIECE) {
            let _ = writeln!(lines, "{}", segment.text.name());
        }
        (!lines.is_empty()).then_some(lines)
    }
}

/// The table of segments; the head goes before the first row.
struct DetailRows {
    head: Option<String>,
    left: std::vec::IntoIter<SegmentInfo>,
}

impl Iterator for DetailRows {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        let mut is_first = self.head.is_some();
        if !is_first && self.left.len() == 0 {
            return None;
        }
        let mut text = self.head.take().unwrap_or_default();
        for segment in self.left.by_ref().take(SEGMENTS_PER_PIECE) {
            if !std::mem::take(&mut is_first) {
                text.push(',');
            }
            text.push_str(&answer::row(&SegmentRow::from(&segment)));
        }
        if self.left.len() == 0 {
            text.push_str("]}");
        }
        Some(text)
    }
}

pub(crate) async fn query(
    State(shared): State<RouteContext>,
    RawQuery(query): RawQuery,
) -> Result<Response, Response> {
    let name = filled_parameter(query.as_deref(), "segment").unwrap_or_default();
    let segments = list(&shared, Some(name.clone())).await?;
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
    let found = list(&shared, Some(name.clone())).await?.into_iter().next();
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
