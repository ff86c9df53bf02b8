//! The running admin server. Invariant: stopping it never waits for the master.

use crate::master_view::ControlPlane;
use crate::reporter::Reporter;
use crate::routes::router;
use crate::shared::RouteContext;
use crate::summary::Rates;
use perigee_http::{HttpHandle, HttpServer, HttpStartError};
use perigee_metrics::BuildInfo;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// Starts the server.
#[derive(Debug)]
pub struct AdminServer;

/// What the server shows and does besides its routes.
#[derive(Debug, Clone, Copy)]
pub struct AdminOptions {
    /// What runs.
    pub build: BuildInfo,
    /// Write the summary lines to the log.
    pub report: bool,
}

/// A running server; dropping it stops it.
#[derive(Debug)]
pub struct AdminHandle {
    http: HttpHandle,
    reporter: Option<Reporter>,
}

impl AdminServer {
    /// Serves the routes of `plane` at `address` on a thread of its own.
    ///
    /// # Errors
    /// The address cannot be bound or a thread cannot be made.
    pub fn start(
        address: SocketAddr,
        plane: Arc<dyn ControlPlane>,
        options: AdminOptions,
    ) -> Result<AdminHandle, HttpStartError> {
        let started = Instant::now();
        let shared = RouteContext {
            plane: Arc::clone(&plane),
            build: options.build,
            started,
            rates: Arc::new(Mutex::new(Rates::new(started))),
            cluster: Arc::default(),
        };
        let http = HttpServer::start("admin", address, router(shared))?;
        tracing::info!("Master admin server started on port {}", http.local_addr().port());
        let failed = |cause| HttpStartError { name: "admin", address, cause };
        let reporter =
            options.report.then(|| Reporter::start(plane)).transpose().map_err(failed)?;
        Ok(AdminHandle { http, reporter })
    }
}

impl AdminHandle {
    /// The address in use; holds the real port when port 0 was asked for.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.http.local_addr()
    }

    /// Stops the listener and the log lines and joins their threads; bounded time.
    pub fn stop(self) {
        drop(self.reporter);
        self.http.stop();
    }
}

#[cfg(test)]
mod tests;
