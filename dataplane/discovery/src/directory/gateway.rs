//! etcd's JSON gateway: each call of its API is a POST, on whichever endpoint answers.
//!
//! The gateway is part of every etcd since 3.4 and on by default. Using it needs no protobuf
//! compiler, no gRPC stack and no second runtime inside the processes of others; the six calls
//! needed here are plain requests and answers.
//! Invariant: an endpoint that does not answer or has no leader costs its share of the deadline,
//! then the next one is asked; an answer of the cluster is final.

use super::web::{HttpAnswer, Web};
use crate::address::{share, split};
use crate::error::DiscoveryError;
use crate::limits::ENDPOINTS_MAX;
use crate::settings::{DiscoverySettings, Secret};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use ureq::http::{Method, Request};

/// Port of an endpoint without one.
const PORT: u16 = 2379;
/// gRPC's number for a thing that does not exist.
const CODE_NOT_FOUND: u64 = 5;
/// gRPC's number for a token that is not known.
const CODE_UNAUTHENTICATED: u64 = 16;
/// etcd's answer to a request without a token; its number stands for other errors, too.
const NO_USER: &str = "user name is empty";

/// Why the cluster did not do as asked.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum GatewayError {
    /// The lease (or what else was named) does not exist.
    Missing,
    /// The cluster wants to know who asks, or does not know the token any more.
    Stranger(String),
    /// Anything else, in words.
    Other(String),
}

impl GatewayError {
    pub(super) fn words(self) -> String {
        match self {
            Self::Missing => "the lease has expired".to_owned(),
            Self::Stranger(words) => {
                format!("{words}; set PERIGEE_ETCD_USERNAME and PERIGEE_ETCD_PASSWORD")
            }
            Self::Other(words) => words,
        }
    }
}

#[derive(Debug)]
pub(super) struct Gateway {
    /// `http://host:port` or `https://host:port` of each endpoint.
    endpoints: Vec<String>,
    /// The one that answered last.
    preferred: AtomicUsize,
    web: Web,
    /// User and password, if the cluster wants to know who asks.
    login: Option<(String, Secret)>,
    /// What the cluster gave for them.
    token: Mutex<Option<Secret>>,
}

impl Gateway {
    /// Endpoints of a list with commas or semicolons. `None` = it is no such list.
    pub(super) fn new(
        list: &str,
        settings: &DiscoverySettings,
    ) -> Result<Option<Self>, DiscoveryError> {
        let endpoints: Option<Vec<String>> = list.split([',', ';']).map(endpoint).collect();
        let fits = |endpoints: &Vec<String>| endpoints.len() <= ENDPOINTS_MAX;
        let Some(endpoints) = endpoints.filter(fits) else {
            return Ok(None);
        };
        let user = settings.etcd_username.clone();
        let login = (!user.is_empty()).then(|| (user, settings.etcd_password.clone()));
        Ok(Some(Self {
            endpoints,
            preferred: AtomicUsize::new(0),
            web: Web::new(settings)?,
            login,
            token: Mutex::default(),
        }))
    }

    /// Calls `path` of the API with a body; the answer is JSON.
    pub(super) fn call(
        &self,
        path: &str,
        body: &Value,
        deadline: Instant,
    ) -> Result<Value, GatewayError> {
        self.log_in(deadline)?;
        match self.ask(path, body, deadline) {
            // Tokens end by themselves after a while, and with the member that gave them.
            Err(GatewayError::Stranger(_)) if self.login.is_some() => {
                *self.token_slot() = None;
                self.log_in(deadline)?;
                self.ask(path, body, deadline)
            }
            other => other,
        }
    }

    /// Asks for a token if there is a user and no token yet.
    fn log_in(&self, deadline: Instant) -> Result<(), GatewayError> {
        let Some((user, password)) = &self.login else {
            return Ok(());
        };
        if self.token_slot().is_some() {
            return Ok(());
        }
        let body = json!({"name": user, "password": password.reveal()});
        match self.ask("auth/authenticate", &body, deadline) {
            Ok(answer) => {
                *self.token_slot() = answer["token"].as_str().map(Secret::new);
                Ok(())
            }
            // A cluster without authentication issues no tokens.
            Err(GatewayError::Other(words)) if words.contains("authentication is not enabled") => {
                Ok(())
            }
            Err(refusal) => Err(GatewayError::Other(format!(
                "{}; check PERIGEE_ETCD_USERNAME and PERIGEE_ETCD_PASSWORD",
                refusal.words()
            ))),
        }
    }

    fn token_slot(&self) -> MutexGuard<'_, Option<Secret>> {
        self.token.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks one endpoint after the other.
    fn ask(&self, path: &str, body: &Value, deadline: Instant) -> Result<Value, GatewayError> {
        let count = self.endpoints.len();
        let first = self.preferred.load(Relaxed);
        let mut failures = Vec::new();
        let turn = |deadline, left| Instant::now() + share(deadline, left);
        for step in 0..count {
            let index = (first + step) % count;
            let endpoint = &self.endpoints[index];
            match self.attempt(endpoint, path, body, turn(deadline, count - step)) {
                GatewayReply::Answered(verdict) => {
                    self.preferred.store(index, Relaxed);
                    return verdict;
                }
                GatewayReply::Failed(reason) => failures.push(format!("{endpoint}: {reason}")),
            }
        }
        Err(GatewayError::Other(failures.join("; ")))
    }

    fn attempt(&self, endpoint: &str, path: &str, body: &Value, until: Instant) -> GatewayReply {
        let mut request = Request::builder()
            .method(Method::POST)
            .uri(format!("{endpoint}/v3/{path}"))
            .header("content-type", "application/json");
        if let Some(token) = &*self.token_slot() {
            request = request.header("authorization", token.reveal());
        }
        match self.web.call(request, body.to_string().into_bytes(), until) {
            Ok(answer) if answer.status >= 500 => GatewayReply::Failed(refusal_words(&answer)),
            Ok(answer) => GatewayReply::Answered(judge(&answer)),
            Err(reason) => GatewayReply::Failed(reason),
        }
    }
}

enum GatewayReply {
    Answered(Result<Value, GatewayError>),
    Failed(String),
}

fn judge(answer: &HttpAnswer) -> Result<Value, GatewayError> {
    let json: Option<Value> = serde_json::from_slice(&answer.body).ok();
    match json {
        Some(json) if answer.status == 200 && json.get("error").is_none() => Ok(json),
        Some(json)
            if json["code"] == CODE_NOT_FOUND || json["error"]["grpc_code"] == CODE_NOT_FOUND =>
        {
            Err(GatewayError::Missing)
        }
        Some(json)
            if json["code"] == CODE_UNAUTHENTICATED || refusal_words(answer).contains(NO_USER) =>
        {
            Err(GatewayError::Stranger(refusal_words(answer)))
        }
        None if answer.status == 404 => Err(GatewayError::Other(
            "it has no JSON gateway under /v3; etcd 3.4 or newer is needed".to_owned(),
        )),
        _ => Err(GatewayError::Other(refusal_words(answer))),
    }
}

fn refusal_words(answer: &HttpAnswer) -> String {
    format!("it answered {} ({})", answer.status, answer.words())
}

fn endpoint(text: &str) -> Option<String> {
    let text = text.trim().trim_end_matches('/');
    let (scheme, text) = text.split_once("://").unwrap_or(("http", text));
    if !matches!(scheme, "http" | "https") {
        return None;
    }
    let (host, port) = split(text)?;
    let port = port.unwrap_or(PORT);
    Some(if host.contains(':') {
        format!("{scheme}://[{host}]:{port}")
    } else {
        format!("{scheme}://{host}:{port}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ureq::http::HeaderMap;

    fn answer(status: u16, body: &str) -> HttpAnswer {
        HttpAnswer { status, headers: HeaderMap::new(), body: body.as_bytes().to_vec() }
    }

    #[test]
    fn endpoints_get_scheme_and_port() {
        for (text, expected) in [
            ("a:1", Some("http://a:1")),
            (" http://a:1/ ", Some("http://a:1")),
            ("a", Some("http://a:2379")),
            ("[::1]:5", Some("http://[::1]:5")),
            ("https://a:1", Some("https://a:1")),
            ("ftp://a:1", None),
            ("", None),
            ("a:b", None),
        ] {
            assert_eq!(endpoint(text).as_deref(), expected, "{text:?}");
        }
    }

    #[test]
    fn a_missing_lease_is_distinguished_from_other_refusals() {
        let gone = r#"{"error":"etcdserver: requested lease not found","code":5}"#;
        assert_eq!(judge(&answer(404, gone)), Err(GatewayError::Missing));
        assert!(matches!(judge(&answer(400, r#"{"code":3}"#)), Err(GatewayError::Other(_))));
        assert!(matches!(judge(&answer(404, "404 page not found")), Err(GatewayError::Other(_))));
        let anonymous = r#"{"error":"etcdserver: user name is empty","code":3}"#;
        for text in [anonymous, r#"{"code":16}"#] {
            assert!(matches!(judge(&answer(400, text)), Err(GatewayError::Stranger(_))));
        }
        assert!(judge(&answer(200, "{}")).is_ok());
    }
}
