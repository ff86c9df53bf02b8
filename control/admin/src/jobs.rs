//! Routes of features that are not built: drain jobs and tenant quotas. Invariant: wrong requests
//! get the error Mooncake gives, right ones get "unavailable in the current mode".

use crate::answer;
use crate::query::filled_parameter;
use axum::body::Bytes;
use axum::extract::RawQuery;
use axum::http::StatusCode;
use axum::response::Response;
use perigee_schemas::Status;

fn invalid(message: &str) -> Response {
    answer::error_text(StatusCode::BAD_REQUEST, Status::InvalidParams, message)
}

pub(crate) async fn create_drain(body: Bytes) -> Response {
    match serde_json::from_slice::<serde_json::Map<String, serde_json::Value>>(&body) {
        Ok(_) => answer::switched_off(),
        Err(error) => invalid(&format!("Invalid JSON body: {error}")),
    }
}

/// Query and cancel: no job can exist, so a well-formed id is an unknown one.
pub(crate) async fn unknown_drain(RawQuery(query): RawQuery) -> Response {
    let id = filled_parameter(query.as_deref(), "job_id").unwrap_or_default();
    let halves = id
        .split_once('-')
        .map(|(high, low)| (high.parse::<u64>(), low.parse::<u64>()));
    match halves {
        Some((Ok(_), Ok(_))) => answer::error_text(
            StatusCode::NOT_FOUND,
            Status::JobNotFound,
            Status::JobNotFound.name(),
        ),
        _ => invalid("Missing or invalid job_id"),
    }
}

pub(crate) async fn quota_off() -> Response {
    answer::switched_off()
}

pub(crate) async fn set_quota(body: Bytes) -> Response {
    let body: Option<serde_json::Value> = serde_json::from_slice(&body).ok();
    let quota = body
        .as_ref()
        .and_then(|body| body.get("requested_quota_bytes"));
    match quota.and_then(serde_json::Value::as_i64) {
        Some(1..) => answer::switched_off(),
        _ => invalid("Tenant quota must be in [1, 2^63 - 1] bytes"),
    }
}
