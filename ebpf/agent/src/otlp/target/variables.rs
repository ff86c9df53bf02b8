//! The standard variables of OpenTelemetry's exporters, as far as the agent knows them.
//! Invariant: each that is set and cannot be used is one warning, without its value where that may
//! be a secret.

use super::address::{Signal, base, checked, is_grpc, with_path};
use super::tls_files;
use axum::http::{HeaderName, HeaderValue};
use percent_encoding::percent_decode_str;
use perigee_flags::ProcessEnvironment;
use ureq::tls::TlsConfig;

const PREFIX: &str = "OTEL_EXPORTER_OTLP_";

/// Reads the variables, and gathers what is wrong with them.
pub(super) struct OtelVariables<'a> {
    environment: &'a ProcessEnvironment,
    warnings: &'a mut Vec<String>,
}

impl<'a> OtelVariables<'a> {
    pub(super) fn new(environment: &'a ProcessEnvironment, warnings: &'a mut Vec<String>) -> Self {
        Self { environment, warnings }
    }

    /// Whether `OTEL_TRACES_EXPORTER` and its like leave a signal to OTLP.
    pub(super) fn is_exported(&self, signal: Signal) -> bool {
        let chosen = self.environment.get(&format!("OTEL_{}_EXPORTER", signal.word()));
        chosen.is_none_or(|chosen| chosen.split(',').any(|one| one.trim() == "otlp"))
    }

    /// Where variables alone send a signal.
    pub(super) fn url(&mut self, signal: Signal) -> Option<String> {
        if self.is_switched_off() {
            return None;
        }
        let (name, text) = self.of_signal(signal, "ENDPOINT")?;
        let is_own = name.contains(signal.word());
        let url = if is_own { Ok(text.to_owned()) } else { base(text) };
        let url = url.map(|url| if is_own { url } else { with_path(&url, signal) });
        let reason = match url.and_then(|url| Ok((checked(&url)?, url))) {
            Err(reason) => reason,
            Ok((uri, url)) => match self.of_signal(signal, "PROTOCOL") {
                Some((_, "grpc")) => {
                    "OTEL_EXPORTER_OTLP_PROTOCOL wants gRPC, which the agent does not speak"
                }
                None if is_grpc(&uri) => {
                    "4317 is the port of gRPC; name that of HTTP (4318), or set OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf"
                }
                _ => return Some(url),
            },
        };
        let shown = if text.contains('@') { "" } else { text };
        self.warn(format!("{name}=`{shown}` is not used: {reason}"));
        None
    }

    /// What requests of a signal carry beside the usual.
    pub(super) fn headers(&mut self, signal: Signal) -> Vec<(String, String)> {
        let Some((name, text)) = self.of_signal(signal, "HEADERS") else {
            return Vec::new();
        };
        let (headers, broken) = pairs(text);
        let is_header = |(key, value): &(String, String)| {
            key.parse::<HeaderName>().is_ok() && value.parse::<HeaderValue>().is_ok()
        };
        let (good, bad): (Vec<_>, Vec<_>) = headers.into_iter().partition(is_header);
        if broken || !bad.is_empty() {
            let text = "has what is no header, which is not sent; write NAME=VALUE,NAME=VALUE with %XX for what is not plain";
            self.warn(format!("{name} {text}"));
        }
        good
    }

    /// Whether bodies are packed; every collector has to understand that.
    pub(super) fn is_compressed(&mut self, signal: Signal) -> bool {
        match self.of_signal(signal, "COMPRESSION") {
            Some((_, "none")) => false,
            None | Some((_, "gzip")) => true,
            Some((name, other)) => {
                self.warn(format!("{name}=`{other}` is not used: there are gzip and none"));
                true
            }
        }
    }

    /// Certificates of a signal's connections: those that are trusted, and our own.
    pub(super) fn tls(&mut self, signal: Signal) -> TlsConfig {
        let roots = self.of_signal(signal, "CERTIFICATE").and_then(|(name, path)| {
            tls_files::roots(path).map_err(|reason| self.warn_file(&name, path, &reason)).ok()
        });
        let chain = self.of_signal(signal, "CLIENT_CERTIFICATE");
        let key = self.of_signal(signal, "CLIENT_KEY");
        let own = match (chain, key) {
            (Some((name, chain)), Some((_, key))) => tls_files::own(chain, key)
                .map_err(|reason| self.warn_file(&name, chain, &reason))
                .ok(),
            (None, None) => None,
            (Some((name, path)), None) | (None, Some((name, path))) => {
                self.warn_file(&name, path, "a certificate and its key go together");
                None
            }
        };
        tls_files::tls(roots, own)
    }

    /// Attributes of all that is sent.
    pub(super) fn attributes(&mut self) -> Vec<(String, String)> {
        let name = "OTEL_RESOURCE_ATTRIBUTES";
        let Some(text) = self.environment.get(name) else {
            return Vec::new();
        };
        let (attributes, is_broken) = pairs(text);
        if is_broken {
            self.warn(format!("{name} has what is no KEY=VALUE, which is left out"));
        }
        attributes
    }

    /// What the agent is called.
    pub(super) fn service(&self) -> Option<String> {
        self.environment.get("OTEL_SERVICE_NAME").map(str::to_owned)
    }

    fn is_switched_off(&self) -> bool {
        let switch = self.environment.get("OTEL_SDK_DISABLED");
        switch.is_some_and(|value| value.trim().eq_ignore_ascii_case("true"))
    }

    /// The variable of a signal, else the one of all, with its value.
    fn of_signal(&self, signal: Signal, what: &str) -> Option<(String, &'a str)> {
        let names = [format!("{PREFIX}{}_{what}", signal.word()), format!("{PREFIX}{what}")];
        names.into_iter().find_map(|name| {
            let value = self.environment.get(&name).map(str::trim);
            value.filter(|value| !value.is_empty()).map(|value| (name, value))
        })
    }

    fn warn_file(&mut self, name: &str, path: &str, reason: &str) {
        self.warn(format!("{name}=`{path}` is not used: {reason}"));
    }

    /// A variable that both signals read is one warning.
    fn warn(&mut self, text: String) {
        if !self.warnings.contains(&text) {
            self.warnings.push(text);
        }
    }
}

/// `a=1,b=2` with `%XX` in values, and whether anything in it is no pair.
fn pairs(text: &str) -> (Vec<(String, String)>, bool) {
    let mut pairs = Vec::new();
    let mut is_broken = false;
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let pair = part.split_once('=').and_then(|(key, value)| {
            let value = percent_decode_str(value.trim()).decode_utf8().ok()?;
            let key = key.trim();
            (!key.is_empty()).then(|| (key.to_owned(), value.into_owned()))
        });
        is_broken |= pair.is_none();
        pairs.extend(pair);
    }
    (pairs, is_broken)
}
