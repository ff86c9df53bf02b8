//! Addresses of collectors, and what is sent to which path of them.

use axum::http::Uri;
use axum::http::uri::Authority;

/// Port of collectors for gRPC, which the agent does not speak.
const GRPC_PORT: u16 = 4317;

/// What is sent, each to a path of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    Traces,
    Metrics,
}

impl Signal {
    pub(crate) const ALL: [Self; 2] = [Self::Traces, Self::Metrics];

    /// As paths have it.
    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::Traces => "/v1/traces",
            Self::Metrics => "/v1/metrics",
        }
    }

    /// As variables have it.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Traces => "TRACES",
            Self::Metrics => "METRICS",
        }
    }
}

/// A collector's address without what the paths of signals add.
pub(super) fn base(text: &str) -> Result<String, &'static str> {
    let text = text.trim().trim_end_matches('/');
    let paths = Signal::ALL.map(Signal::path);
    let base = paths.into_iter().find_map(|path| text.strip_suffix(path)).unwrap_or(text);
    let base = base.trim_end_matches('/');
    let uri = checked(base)?;
    if uri.query().is_some() { Err("it has a query") } else { Ok(base.to_owned()) }
}

pub(super) fn with_path(base: &str, signal: Signal) -> String {
    format!("{base}{}", signal.path())
}

/// An address to which something can be sent.
pub(super) fn checked(text: &str) -> Result<Uri, &'static str> {
    const NO_URL: &str = "it is no URL that begins with http:// or https://";
    let uri: Uri = text.parse().map_err(|_| NO_URL)?;
    match (uri.scheme_str(), uri.authority()) {
        (Some("http" | "https"), Some(host)) if host.as_str().contains('@') => {
            Err("credentials belong into OTEL_EXPORTER_OTLP_HEADERS")
        }
        (Some("http" | "https"), Some(host)) if !host.host().is_empty() => Ok(uri),
        _ => Err(NO_URL),
    }
}

/// Whether an address is the usual one of gRPC.
pub(super) fn is_grpc(uri: &Uri) -> bool {
    uri.authority().and_then(Authority::port_u16) == Some(GRPC_PORT)
}
