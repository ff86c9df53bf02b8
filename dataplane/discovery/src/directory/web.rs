//! One HTTP call with a deadline, for the metadata service and for etcd's gateway.
//! Invariant: no redirects and no proxy, so that entries go where the operator said and nowhere
//! else.

use super::tls_files;
use crate::error::DiscoveryError;
use crate::limits::FRAME_BYTES_MAX;
use crate::settings::DiscoverySettings;
use std::time::{Duration, Instant};
use ureq::http::HeaderMap;
use ureq::{Agent, Body, http};

/// What a server answered.
#[derive(Debug)]
pub(super) struct HttpAnswer {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
}

impl HttpAnswer {
    /// The body for an error message: its first line.
    pub(super) fn words(&self) -> String {
        let text = String::from_utf8_lossy(&self.body);
        let line = text.lines().next().unwrap_or_default();
        line.chars().take(200).collect()
    }
}

/// Connections to HTTP servers, kept for reuse.
#[derive(Debug)]
pub(super) struct Web {
    agent: Agent,
}

impl Web {
    pub(super) fn new(settings: &DiscoverySettings) -> Result<Self, DiscoveryError> {
        let config = Agent::config_builder()
            .tls_config(tls_files::tls(settings)?)
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            .build();
        Ok(Self { agent: config.new_agent() })
    }

    /// Sends a request that ends at `until`.
    pub(super) fn call(
        &self,
        request: http::request::Builder,
        body: Vec<u8>,
        until: Instant,
    ) -> Result<HttpAnswer, String> {
        let limit = until.saturating_duration_since(Instant::now());
        if limit.is_zero() {
            return Err("it did not answer in time".to_owned());
        }
        let request = request.body(body).map_err(|error| error.to_string())?;
        let request = self.agent.configure_request(request).timeout_global(Some(limit)).build();
        let sent: Result<http::Response<Body>, _> = self.agent.run(request);
        let mut response = sent.map_err(|error| reason(&error, limit))?;
        let body = response
            .body_mut()
            .with_config()
            .limit(FRAME_BYTES_MAX as u64)
            .read_to_vec()
            .map_err(|error| reason(&error, limit))?;
        Ok(HttpAnswer {
            status: response.status().as_u16(),
            headers: std::mem::take(response.headers_mut()),
            body,
        })
    }
}

fn reason(error: &ureq::Error, limit: Duration) -> String {
    match error {
        ureq::Error::Timeout(_) => format!("it did not answer within {limit:.1?}"),
        other => other.to_string(),
    }
}
