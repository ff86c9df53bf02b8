//! What the handlers of all routes share: the way to the master, and what was counted at the last
//! summary.
//! Invariant: a question to the master blocks a helper thread, never a worker of the HTTP server.

use crate::answer;
use crate::master_view::ControlPlane;
use crate::summary::Rates;
use axum::response::Response;
use perigee_metrics::BuildInfo;
use perigee_schemas::Status;
use perigee_verdict::ClusterBoard;
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// What every route can reach.
#[derive(Clone)]
pub(crate) struct RouteContext {
    pub(crate) plane: Arc<dyn ControlPlane>,
    pub(crate) build: BuildInfo,
    pub(crate) started: Instant,
    /// Calls at the last summary over HTTP; the log line keeps its own.
    pub(crate) rates: Arc<Mutex<Rates>>,
    /// What agents have reported lately.
    pub(crate) cluster: Arc<Mutex<ClusterBoard>>,
}

impl RouteContext {
    /// Runs a blocking question to the master on a helper thread.
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&dyn ControlPlane) -> T + Send + 'static,
    ) -> Result<T, Response> {
        let plane = Arc::clone(&self.plane);
        let answered = tokio::task::spawn_blocking(move || question(plane.as_ref())).await;
        answered.map_err(|error| {
            tracing::error!(%error, "A question to the master was not answered");
            answer::error(Status::InternalError)
        })
    }
}
