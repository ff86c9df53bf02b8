//! Routes of drain jobs: create, query, cancel. Invariant: a body is judged whole before the master
//! hears of it, and each refusal says what to write instead.

use crate::answer;
use crate::limits::{DRAIN_CONCURRENCY, DRAIN_CONCURRENCY_MAX, DRAIN_SEGMENTS_MAX};
use crate::master_view::{DrainRequest, id_text};
use crate::query::{check_change, filled_parameter};
use crate::shared::RouteContext;
use axum::body::Bytes;
use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;
use serde_json::{Map, Value};

/// Mooncake's number and word for a drain job, the only type of job there is.
const TYPE: (u8, &str) = (0, "DRAIN");

#[derive(Serialize)]
struct ChangeBody {
    success: bool,
    job_id: String,
    status: &'static str,
    error_code: i32,
    error_message: &'static str,
}

#[derive(Serialize)]
struct QueryBody {
    success: bool,
    job_id: String,
    #[serde(rename = "type")]
    kind: u8,
    type_name: &'static str,
    status: u8,
    status_name: &'static str,
    created_at_ms_epoch: u64,
    last_updated_at_ms_epoch: u64,
    segments: Vec<String>,
    succeeded_units: u64,
    failed_units: u64,
    blocked_units: u64,
    active_units: u64,
    migrated_bytes: u64,
    message: String,
    error_code: i32,
    error_message: &'static str,
}

pub(crate) async fn create(
    State(shared): State<RouteContext>,
    RawQuery(query): RawQuery,
    body: Bytes,
) -> Result<Response, Response> {
    check_change("/api/v1/drain_jobs", query.as_deref())?;
    let request = read(&body).map_err(|message| answer::invalid(&message))?;
    let created = shared.ask(|plane| plane.create_drain(request)).await?;
    let id = created.map_err(answer::refusal)?;
    Ok(changed(id, "CREATED"))
}

pub(crate) async fn query(
    State(shared): State<RouteContext>,
    RawQuery(query): RawQuery,
) -> Result<Response, Response> {
    let id = job_id(query.as_deref()).ok_or_else(no_job_id)?;
    let found = shared.ask(move |plane| plane.drain_job(id)).await?;
    let job = found.map_err(answer::error)?;
    let body = QueryBody {
        success: true,
        job_id: id_text(id),
        kind: TYPE.0,
        type_name: TYPE.1,
        status: job.state,
        status_name: job.state_name,
        created_at_ms_epoch: job.created_ms,
        last_updated_at_ms_epoch: job.updated_ms,
        segments: job.segments,
        succeeded_units: job.succeeded_units,
        failed_units: job.failed_units,
        blocked_units: job.blocked_units,
        active_units: job.active_units,
        migrated_bytes: job.migrated_bytes,
        message: job.message,
        error_code: 0,
        error_message: "",
    };
    Ok(answer::json(StatusCode::OK, &body))
}

pub(crate) async fn cancel(
    State(shared): State<RouteContext>,
    RawQuery(query): RawQuery,
) -> Result<Response, Response> {
    let id = job_id(query.as_deref()).ok_or_else(no_job_id)?;
    check_change("/api/v1/drain_jobs/cancel", query.as_deref())?;
    let canceled = shared.ask(move |plane| plane.cancel_drain(id)).await?;
    canceled.map_err(answer::error)?;
    Ok(changed(id, "CANCELED"))
}

fn changed(id: u128, status: &'static str) -> Response {
    let body =
        ChangeBody { success: true, job_id: id_text(id), status, error_code: 0, error_message: "" };
    answer::json(StatusCode::OK, &body)
}

/// The identity in a query: two decimal halves.
fn job_id(query: Option<&str>) -> Option<u128> {
    let text = filled_parameter(query, "job_id").unwrap_or_default();
    let (high, low) = text.split_once('-')?;
    let (high, low): (u64, u64) = (high.parse().ok()?, low.parse().ok()?);
    Some(u128::from(high) << 64 | u128::from(low))
}

fn no_job_id() -> Response {
    answer::invalid("Missing or invalid job_id")
}

/// Parses a body; the error says what to change.
fn read(body: &[u8]) -> Result<DrainRequest, String> {
    let body: Map<String, Value> =
        serde_json::from_slice(body).map_err(|error| format!("Invalid JSON body: {error}"))?;
    let segments = names(&body, "segments")?;
    let target_segments = names(&body, "target_segments")?;
    if segments.is_empty() {
        return Err("segments must name at least one segment".to_owned());
    }
    if let Some(both) = segments.iter().find(|name| target_segments.contains(name)) {
        return Err(format!(
            "Segment {both} cannot be drained into itself: take it out of target_segments"
        ));
    }
    Ok(DrainRequest { max_concurrency: concurrency(&body)?, segments, target_segments })
}

fn names(body: &Map<String, Value>, field: &str) -> Result<Vec<String>, String> {
    let wrong = || format!("{field} must be a list of at most {DRAIN_SEGMENTS_MAX} segment names");
    let list = match body.get(field) {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(list)) if list.len() <= DRAIN_SEGMENTS_MAX => list,
        Some(_) => return Err(wrong()),
    };
    let name = |value: &Value| match value {
        Value::String(name) if !name.is_empty() => Ok(name.clone()),
        _ => Err(wrong()),
    };
    list.iter().map(name).collect()
}

fn concurrency(body: &Map<String, Value>) -> Result<u32, String> {
    let Some(value) = body.get("max_concurrency") else {
        return Ok(DRAIN_CONCURRENCY);
    };
    let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
    number.filter(|number| (1..=DRAIN_CONCURRENCY_MAX).contains(number)).ok_or_else(|| {
        format!("max_concurrency must be a number from 1 to {DRAIN_CONCURRENCY_MAX}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_names_segments_and_may_name_targets_and_a_concurrency() {
        let full = br#"{"segments":["a","b"],"target_segments":["c"],"max_concurrency":9}"#;
        let wanted = DrainRequest {
            segments: vec!["a".to_owned(), "b".to_owned()],
            target_segments: vec!["c".to_owned()],
            max_concurrency: 9,
        };
        assert_eq!(read(full), Ok(wanted));
        let short = read(br#"{"segments":["a"],"unknown":1}"#);
        assert_eq!(short.map(|it| it.max_concurrency), Ok(DRAIN_CONCURRENCY));
    }

    #[test]
    fn wrong_bodies_are_refused_with_the_field_that_is_wrong() {
        for (body, word) in [
            ("", "Invalid JSON body"),
            ("nonsense", "Invalid JSON body"),
            ("[]", "Invalid JSON body"),
            ("{}", "segments"),
            (r#"{"segments":[]}"#, "segments"),
            (r#"{"segments":"a"}"#, "segments"),
            (r#"{"segments":[1]}"#, "segments"),
            (r#"{"segments":[""]}"#, "segments"),
            (r#"{"segments":["a"],"target_segments":["b","a"]}"#, "itself"),
            (r#"{"segments":["a"],"target_segments":{}}"#, "target_segments"),
            (r#"{"segments":["a"],"max_concurrency":0}"#, "max_concurrency"),
            (r#"{"segments":["a"],"max_concurrency":-4}"#, "max_concurrency"),
            (r#"{"segments":["a"],"max_concurrency":1.5}"#, "max_concurrency"),
            (r#"{"segments":["a"],"max_concurrency":"4"}"#, "max_concurrency"),
            (r#"{"segments":["a"],"max_concurrency":null}"#, "max_concurrency"),
            (r#"{"segments":["a"],"max_concurrency":4294967297}"#, "max_concurrency"),
        ] {
            let message = read(body.as_bytes()).expect_err(body);
            assert!(message.contains(word), "{body}: {message}");
        }
    }
}
