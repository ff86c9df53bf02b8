//! Routes of tenant quotas, which are not built. Invariant: wrong requests get the error Mooncake
//! gives, right ones get "unavailable in the current mode".

use crate::answer;
use axum::body::Bytes;
use axum::http::StatusCode;
use axum::response::Response;
use perigee_schemas::Status;

pub(crate) async fn quota_off() -> Response {
    answer::switched_off()
}

pub(crate) async fn set_quota(body: Bytes) -> Response {
    let body: Option<serde_json::Value> = serde_json::from_slice(&body).ok();
    let quota = body.as_ref().and_then(|body| body.get("requested_quota_bytes"));
    match quota.and_then(serde_json::Value::as_i64) {
        Some(1..) => answer::switched_off(),
        _ => answer::error_text(
            StatusCode::BAD_REQUEST,
            Status::InvalidParams,
            "Tenant quota must be in [1, 2^63 - 1] bytes",
        ),
    }
}
