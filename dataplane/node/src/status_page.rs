//! The HTTP routes of a process that holds a store. Invariant: the routes answer from the first
//! moment on, also while the store is still being opened.

use crate::summary::summary_text;
use axum::Router;
use axum::extract::State;
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use perigee_http::{HttpHandle, HttpServer, HttpStartError};
use perigee_metrics::{BuildInfo, ClientCells, Samples, exposition};
use perigee_store::Store;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

/// Health code of a store that is not open.
const NOT_OPEN: i32 = 1;
/// Health code of a store whose master does not answer.
const MASTER_SILENT: i32 = 2;
/// What is served with `MC_STORE_CLIENT_METRIC=0`.
const NO_METRICS: &str = "metrics not available";

fn build_info() -> BuildInfo {
    BuildInfo {
        version: env!("CARGO_PKG_VERSION"),
        commit: option_env!("PERIGEE_COMMIT").unwrap_or("unknown"),
        reactor: perigee_shard::reactor_name(),
    }
}

/// Where the store of this process will be once it is open.
#[derive(Debug, Clone, Default)]
pub struct StoreSlot {
    store: Arc<OnceLock<Arc<Store>>>,
}

impl StoreSlot {
    /// A slot that is filled from the start.
    #[must_use]
    pub fn of(store: Arc<Store>) -> Self {
        Self { store: Arc::new(OnceLock::from(store)) }
    }

    /// Puts the store in; the first one stays.
    pub(crate) fn fill(&self, store: Store) -> Arc<Store> {
        Arc::clone(self.store.get_or_init(|| Arc::new(store)))
    }

    /// 0 healthy, 1 not open, 2 the master does not answer. Asks the master, so it may block.
    fn health(&self) -> i32 {
        self.store.get().map_or(NOT_OPEN, |store| store.health())
    }

    /// The metrics, unless the store is not to show any.
    fn metrics(&self) -> Option<Samples> {
        let nothing = ClientCells::default();
        let store = self.store.get();
        if store.is_some_and(|store| !store.shows_metrics()) {
            return None;
        }
        let cells = store.map_or(&nothing, |store| store.cells());
        let mut samples = Samples::of_client([cells], "real", build_info());
        samples.add_disks(&store.map(|store| store.disk_numbers()).unwrap_or_default());
        Some(samples)
    }
}

/// Serves `/health`, `/metrics`, `/metrics/summary`, `/livez` and `/readyz`.
#[derive(Debug)]
pub struct StatusPage;

impl StatusPage {
    /// Serves the routes at `address` on a thread of its own.
    ///
    /// # Errors
    /// The address cannot be bound.
    pub fn start(address: SocketAddr, slot: StoreSlot) -> Result<HttpHandle, HttpStartError> {
        HttpServer::start("node", address, router(slot))
    }

    /// As [`StatusPage::start`], and without waiting for a port that is taken.
    ///
    /// # Errors
    /// The address cannot be bound.
    pub fn start_if_free(
        address: SocketAddr,
        slot: StoreSlot,
    ) -> Result<HttpHandle, HttpStartError> {
        HttpServer::start_if_free("node", address, router(slot))
    }
}

fn router(slot: StoreSlot) -> Router {
    Router::new()
        .route("/livez", get(|| async { "ok" }))
        .route("/readyz", get(ready))
        .route("/health", get(health))
        .route("/metrics", get(metrics))
        .route("/metrics/summary", get(summary))
        .fallback(|| async { (StatusCode::NOT_FOUND, "404 Not Found") })
        .with_state(slot)
}

/// Runs a question that may block on a helper thread.
async fn health_code(slot: StoreSlot) -> i32 {
    match tokio::task::spawn_blocking(move || slot.health()).await {
        Ok(code) => code,
        Err(error) => {
            tracing::error!(%error, "The health of the store could not be read");
            NOT_OPEN
        }
    }
}

async fn health(State(slot): State<StoreSlot>) -> Response {
    let code = health_code(slot).await;
    let (status, word) = match code {
        0 => (StatusCode::OK, "healthy"),
        _ => (StatusCode::SERVICE_UNAVAILABLE, "unhealthy"),
    };
    let body = format!("{{\"status\":\"{word}\",\"code\":{code}}}");
    (status, [(CONTENT_TYPE, "application/json")], body).into_response()
}

async fn ready(State(slot): State<StoreSlot>) -> Response {
    let reason = match health_code(slot).await {
        0 => return "ready".into_response(),
        MASTER_SILENT => "The master does not answer",
        _ => "The store is not open: starting or stopping",
    };
    (StatusCode::SERVICE_UNAVAILABLE, reason).into_response()
}

async fn metrics(State(slot): State<StoreSlot>, headers: HeaderMap) -> Response {
    let accepts = headers.get(ACCEPT).and_then(|value| value.to_str().ok());
    if accepts.is_some_and(exposition::wants_openmetrics) {
        let text = slot.metrics().map(Samples::render_openmetrics);
        return shown(exposition::OPENMETRICS_CONTENT_TYPE, text);
    }
    shown(exposition::CONTENT_TYPE, slot.metrics().map(Samples::render))
}

async fn summary(State(slot): State<StoreSlot>) -> Response {
    shown("text/plain", slot.metrics().map(|metrics| summary_text(&metrics.render())))
}

fn shown(content_type: &'static str, text: Option<String>) -> Response {
    match text {
        Some(text) => ([(CONTENT_TYPE, content_type)], text).into_response(),
        None => (StatusCode::SERVICE_UNAVAILABLE, NO_METRICS).into_response(),
    }
}

#[cfg(test)]
mod tests;
