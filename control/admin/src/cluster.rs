//! What agents report of their hosts, the verdict on all of them together, and a page of that.
//! Invariant: nothing of it reaches the master's shards; what is kept is bounded by the board.

use crate::answer;
use crate::shared::RouteContext;
use axum::Extension;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use perigee_http::RequestOrigin;
use perigee_metrics::Samples;
use perigee_schemas::Status;
use perigee_verdict::{AgentReport, ClusterBoard};
use std::sync::{MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// The page, its style and its script, by path.
pub(crate) const FILES: [(&str, &str, &str); 3] = [
    ("/cluster", "text/html; charset=utf-8", include_str!("cluster/page.html")),
    ("/cluster.css", "text/css; charset=utf-8", include_str!("cluster/page.css")),
    ("/cluster.js", "text/javascript; charset=utf-8", include_str!("cluster/page.js")),
];
/// The page loads nothing from elsewhere, and a browser is asked to enforce that.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
                      connect-src 'self'; img-src data:";

pub(crate) async fn file(kind: &'static str, body: &'static str) -> Response {
    let headers =
        [(CONTENT_TYPE, kind), (CONTENT_SECURITY_POLICY, POLICY), (CACHE_CONTROL, "no-cache")];
    (headers, body).into_response()
}

/// Takes what an agent tells of its host.
pub(crate) async fn report(
    State(shared): State<RouteContext>,
    Extension(RequestOrigin(from)): Extension<RequestOrigin>,
    body: Bytes,
) -> Response {
    let report: AgentReport = match serde_json::from_slice(&body) {
        Ok(report) => report,
        Err(error) => return refused(&format!("this is no report of an agent: {error}")),
    };
    match board(&shared).take(report, from.ip().to_canonical(), now_ms()) {
        Ok(()) => StatusCode::NO_CONTENT.into_response(),
        Err(refusal) => refused(refusal.text()),
    }
}

fn refused(reason: &str) -> Response {
    answer::error_text(StatusCode::BAD_REQUEST, Status::InvalidParams, reason)
}

/// The verdict on the cluster.
pub(crate) async fn verdict(State(shared): State<RouteContext>) -> Response {
    let verdict = board(&shared).verdict(now_ms()).clone();
    answer::json(StatusCode::OK, &verdict)
}

/// The same as metrics.
pub(crate) fn add_samples(shared: &RouteContext, samples: &mut Samples) {
    let mut board = board(shared);
    let verdict = board.verdict(now_ms());
    samples.value("perigee_cluster_agents", &[], verdict.hosts.len() as u64);
    for host in &verdict.silent {
        let seconds = host.age_ms / 1000;
        samples.value("perigee_cluster_silent_agent_seconds", &[host.host.as_str()], seconds);
    }
    for culprit in &verdict.culprits {
        let labels = [culprit.kind.word(), culprit.name.as_str()];
        samples.value("perigee_cluster_culprit", &labels, 1_u64);
    }
}

fn board(shared: &RouteContext) -> MutexGuard<'_, ClusterBoard> {
    shared.cluster.lock().unwrap_or_else(PoisonError::into_inner)
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
