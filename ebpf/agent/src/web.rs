//! The routes: metrics, JSON, health and the page. Everything the page needs is in this program.

use crate::board::SnapshotBoard;
use crate::explain::explain_text;
use crate::limits::STALLED;
use crate::metrics::samples;
use crate::snapshot::Snapshot;
use crate::traces::TraceQuestion;
use axum::Router;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::header::{ACCEPT, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use perigee_metrics::exposition;
use std::sync::Arc;
use std::time::Duration;

const PAGE: &str = include_str!("web/page.html");
const STYLE: &str = include_str!("web/page.css");
/// The page's script and the modules it imports.
const SCRIPTS: [(&str, &str); 3] = [
    ("/page.js", include_str!("web/page.js")),
    ("/charts.js", include_str!("web/charts.js")),
    ("/numbers.js", include_str!("web/numbers.js")),
];
/// The page loads nothing from elsewhere, and a browser is asked to enforce that.
const POLICY: &str =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:";

pub(crate) fn router(board: Arc<SnapshotBoard>) -> Router {
    let mut router = Router::new();
    for (path, script) in SCRIPTS {
        let kind = "text/javascript; charset=utf-8";
        router = router.route(path, get(move || file(kind, script)));
    }
    router
        .route("/", get(|| file("text/html; charset=utf-8", PAGE)))
        .route("/page.css", get(|| file("text/css; charset=utf-8", STYLE)))
        .route("/metrics", get(metrics))
        .route("/snapshot.json", get(snapshot))
        .route("/history.json", get(history))
        .route("/traces.json", get(traces))
        .route("/explain", get(explain))
        .route("/livez", get(live))
        .route("/readyz", get(ready))
        .fallback(|| async { (StatusCode::NOT_FOUND, "404 Not Found") })
        .with_state(board)
}

async fn file(content_type: &'static str, body: &'static str) -> Response {
    let headers = [
        (CONTENT_TYPE, content_type),
        (CONTENT_SECURITY_POLICY, POLICY),
        (CACHE_CONTROL, "no-cache"),
    ];
    (headers, body).into_response()
}

/// The last snapshot, without holding up the server while the first one is made.
async fn last(board: Arc<SnapshotBoard>) -> Result<Arc<Snapshot>, Response> {
    let asked = tokio::task::spawn_blocking(move || board.last()).await;
    asked.ok().flatten().ok_or_else(|| {
        let text = "The host has not been read yet";
        (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
    })
}

async fn metrics(State(board): State<Arc<SnapshotBoard>>, headers: HeaderMap) -> Response {
    let snapshot = match last(Arc::clone(&board)).await {
        Ok(snapshot) => snapshot,
        Err(response) => return response,
    };
    let samples = samples(&snapshot, &board.exemplars());
    let accepts = headers.get(ACCEPT).and_then(|value| value.to_str().ok());
    if accepts.is_some_and(exposition::wants_openmetrics) {
        let headers = [(CONTENT_TYPE, exposition::OPENMETRICS_CONTENT_TYPE)];
        return (headers, samples.render_openmetrics()).into_response();
    }
    ([(CONTENT_TYPE, exposition::CONTENT_TYPE)], samples.render()).into_response()
}

async fn snapshot(State(board): State<Arc<SnapshotBoard>>) -> Response {
    match last(board).await {
        Ok(snapshot) => axum::Json(&*snapshot).into_response(),
        Err(response) => response,
    }
}

/// A stretch of the past, in milliseconds since 1970.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Stretch {
    #[serde(default)]
    from: u64,
    to: Option<u64>,
}

async fn history(
    State(board): State<Arc<SnapshotBoard>>,
    stretch: Result<Query<Stretch>, QueryRejection>,
) -> Response {
    let Ok(Query(stretch)) = stretch else {
        let text =
            "Write /history.json?from=MS&to=MS, in milliseconds since 1970; both may be left out\n";
        return (StatusCode::BAD_REQUEST, text).into_response();
    };
    let (from, to) = (stretch.from, stretch.to.unwrap_or(u64::MAX));
    // Unpacking takes milliseconds, and a record may just be written to a slow disk.
    match tokio::task::spawn_blocking(move || board.history(from, to).json()).await {
        Ok(Ok(text)) => ([(CONTENT_TYPE, "application/json")], text).into_response(),
        _ => {
            let text = "The history cannot be read; see the agent's log";
            (StatusCode::INTERNAL_SERVER_ERROR, text).into_response()
        }
    }
}

/// Which requests are asked for.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct AskedTraces {
    id: Option<String>,
    key: Option<String>,
}

impl AskedTraces {
    fn question(self) -> Option<TraceQuestion> {
        match (self.id, self.key) {
            (None, None) => Some(TraceQuestion::Latest),
            (Some(id), None) => Some(TraceQuestion::Id(id.to_lowercase())),
            (None, Some(key)) => Some(TraceQuestion::Key(key)),
            (Some(_), Some(_)) => None,
        }
    }
}

async fn traces(
    State(board): State<Arc<SnapshotBoard>>,
    asked: Result<Query<AskedTraces>, QueryRejection>,
) -> Response {
    match asked.ok().and_then(|Query(asked)| asked.question()) {
        Some(question) => axum::Json(board.traces(&question)).into_response(),
        None => {
            let text =
                "Write /traces.json?id=ID or /traces.json?key=KEY, or neither for the latest\n";
            (StatusCode::BAD_REQUEST, text).into_response()
        }
    }
}

async fn explain(State(board): State<Arc<SnapshotBoard>>) -> Response {
    match last(board).await {
        Ok(snapshot) => explain_text(&snapshot.sources).into_response(),
        Err(response) => response,
    }
}

/// Served by another thread than the one that reads, so it can tell when that one is gone.
async fn live(State(board): State<Arc<SnapshotBoard>>) -> Response {
    match stalled(board.age()) {
        None => "ok".into_response(),
        Some(text) => (StatusCode::SERVICE_UNAVAILABLE, text).into_response(),
    }
}

fn stalled(age: Duration) -> Option<String> {
    let seconds = age.as_secs();
    (age > STALLED).then(|| format!("The host was read {seconds} s ago; restart the agent"))
}

/// Ready as soon as the host was read and while it is; the table says what is missing.
async fn ready(State(board): State<Arc<SnapshotBoard>>) -> Response {
    if let Some(text) = stalled(board.age()) {
        return (StatusCode::SERVICE_UNAVAILABLE, text).into_response();
    }
    match last(board).await {
        Ok(snapshot) => axum::Json(&snapshot.sources).into_response(),
        Err(response) => response,
    }
}

#[cfg(test)]
mod tests;
