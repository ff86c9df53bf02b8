//! Where spans and metrics go, by the flag and by OpenTelemetry's standard variables.
//! Invariant: only the flag is refused; a variable that cannot be used is a warning, because it may
//! be meant for other programs.

mod address;
mod tls_files;
mod variables;

pub(crate) use address::Signal;
use address::{base, with_path};
use perigee_flags::{FlagError, ProcessEnvironment};
use std::fmt;
use variables::OtelVariables;

/// A collector of OpenTelemetry, and what is sent to it.
#[derive(Clone, Debug)]
pub struct OtlpTarget {
    pub(crate) traces: Option<SignalTarget>,
    pub(crate) metrics: Option<SignalTarget>,
    /// Attributes of all that is sent, from `OTEL_RESOURCE_ATTRIBUTES`.
    pub(crate) attributes: Vec<(String, String)>,
    /// What the agent calls itself.
    pub(crate) service: Option<String>,
}

/// Where one kind of things goes.
#[derive(Clone)]
pub(crate) struct SignalTarget {
    pub(crate) url: String,
    /// May hold secrets, so they are not shown.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) is_compressed: bool,
    pub(crate) tls: ureq::tls::TlsConfig,
}

impl fmt::Debug for SignalTarget {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        let mut shown = formatter.debug_struct("SignalTarget");
        shown.field("url", &self.url).field("headers", &names).finish_non_exhaustive()
    }
}

impl OtlpTarget {
    /// The target that the flag names, else the one of the standard variables; none if neither
    /// does. What of the variables cannot be used is added to the warnings.
    ///
    /// # Errors
    /// The flag names no collector.
    pub(crate) fn of(
        flag: Option<&str>,
        environment: &ProcessEnvironment,
        warnings: &mut Vec<String>,
    ) -> Result<Option<Self>, FlagError> {
        let flag = flag.map(|text| base(text).map_err(|reason| refused(text, reason)));
        let flag = flag.transpose()?;
        let mut variables = OtelVariables::new(environment, warnings);
        let [traces, metrics] =
            Signal::ALL.map(|signal| signal_target(signal, flag.as_deref(), &mut variables));
        if traces.is_none() && metrics.is_none() {
            return Ok(None);
        }
        let attributes = variables.attributes();
        Ok(Some(Self { traces, metrics, attributes, service: variables.service() }))
    }
}

fn refused(text: &str, reason: &str) -> FlagError {
    let shown = if text.contains('@') { "" } else { text };
    FlagError::Conflict(format!(
        "The otlp_endpoint `{shown}` cannot be used: {reason}; write one such as http://127.0.0.1:4318"
    ))
}

fn signal_target(
    signal: Signal,
    flag: Option<&str>,
    variables: &mut OtelVariables<'_>,
) -> Option<SignalTarget> {
    if !variables.is_exported(signal) {
        return None;
    }
    let url = match flag {
        Some(base) => with_path(base, signal),
        None => variables.url(signal)?,
    };
    let headers = variables.headers(signal);
    let is_compressed = variables.is_compressed(signal);
    Some(SignalTarget { url, headers, is_compressed, tls: variables.tls(signal) })
}

#[cfg(test)]
mod tests;
