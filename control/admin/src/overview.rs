//! Routes about the master as a whole. Invariant: all of them answer while the master is not
//! ready, because that is when people look.

use crate::master_view::SegmentInfo;
use crate::shared::RouteContext;
use crate::{answer, cluster};
use axum::extract::State;
use axum::http::header::ACCEPT;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{Html, IntoResponse, Response};
use perigee_metrics::{Samples, SegmentNumbers, exposition};
use serde::Serialize;
use std::sync::PoisonError;
use std::time::Instant;

const INDEX: &str = include_str!("overview/index.html");

#[derive(Serialize)]
struct HealthBody {
    status: &'static str,
    role: &'static str,
    ha_state: &'static str,
    service_ready: bool,
    leader_address: Option<String>,
    view_version: Option<u64>,
}

#[derive(Serialize)]
struct Leader {
    present: bool,
    leader_address: Option<String>,
    view_version: Option<u64>,
}

fn state_word(ready: bool) -> &'static str {
    if ready { "serving" } else { "starting" }
}

pub(crate) async fn index(State(shared): State<RouteContext>) -> Html<String> {
    Html(INDEX.replace("{version}", shared.build.version))
}

pub(crate) async fn ready(State(shared): State<RouteContext>) -> Response {
    match shared.plane.readiness() {
        Ok(()) => "ready".into_response(),
        Err(reason) => (StatusCode::SERVICE_UNAVAILABLE, reason).into_response(),
    }
}

pub(crate) async fn metrics(
    State(shared): State<RouteContext>,
    headers: HeaderMap,
) -> Result<Response, Response> {
    let tenants = shared.ask(|plane| plane.tenants(None)).await?;
    let asked = shared.ask(|plane| Ok((plane.numbers()?, plane.segments(None)?, plane.cells())));
    // No scrape at all is better than counters that fall to 0 and come back.
    let (numbers, segments, cells) = asked.await?.map_err(answer::error)?;
    let cells = cells.iter().map(AsRef::as_ref);
    let mut samples = Samples::of_master(cells, &numbers, shared.build);
    samples.add_segments(segments.iter().map(numbers_of).collect());
    if let Some(tenants) = tenants {
        samples.add_tenants(&tenants, &numbers);
    }
    samples.value("perigee_uptime_seconds", &[], shared.started.elapsed().as_secs_f64());
    samples.value("perigee_ready", &[], u8::from(shared.plane.readiness().is_ok()));
    let events = shared.plane.key_events().unwrap_or_default();
    samples.value("perigee_kv_events_published_total", &[], events.published_events);
    samples.value("perigee_kv_events_dropped_total", &[], events.dropped_events);
    samples.value("perigee_kv_events_subscribers", &[], events.subscribers);
    cluster::add_samples(&shared, &mut samples);
    let accepts = headers.get(ACCEPT).and_then(|value| value.to_str().ok());
    Ok(if accepts.is_some_and(exposition::wants_openmetrics) {
        answer::openmetrics_pieces(samples.openmetrics_pieces())
    } else {
        answer::text_pieces(samples.pieces())
    })
}

fn numbers_of(segment: &SegmentInfo) -> SegmentNumbers {
    SegmentNumbers {
        name: segment.text.name().to_owned(),
        allocated_bytes: segment.used_bytes,
        capacity_bytes: segment.usable_bytes,
        largest_free_bytes: segment.largest_free_bytes,
    }
}

pub(crate) async fn summary(State(shared): State<RouteContext>) -> Result<Response, Response> {
    let (numbers, cells) = shared.ask(|plane| (plane.numbers(), plane.cells())).await?;
    let numbers = numbers.map_err(answer::error)?;
    let ready = shared.plane.readiness().is_ok();
    let mut rates = shared.rates.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(answer::text(rates.admin_text(Instant::now(), &cells, &numbers, ready)))
}

pub(crate) async fn health(State(shared): State<RouteContext>) -> Response {
    let service_ready = shared.plane.readiness().is_ok();
    let health = HealthBody {
        status: "ok",
        role: "leader",
        ha_state: state_word(service_ready),
        service_ready,
        leader_address: None,
        view_version: None,
    };
    answer::json(StatusCode::OK, &health)
}

pub(crate) async fn ha_status(State(shared): State<RouteContext>) -> Response {
    answer::word(state_word(shared.plane.readiness().is_ok()))
}

pub(crate) async fn leader() -> Response {
    let leader = Leader { present: false, leader_address: None, view_version: None };
    answer::json(StatusCode::OK, &leader)
}
