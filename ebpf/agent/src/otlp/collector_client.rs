//! Requests to a collector over HTTP. Invariant: a request ends within its deadline, and a
//! collector that asks for a pause gets it.

use super::target::{Signal, SignalTarget};
use crate::limits::{
    OTLP_ANSWER_BYTES_MAX, OTLP_DEADLINE, OTLP_PAUSE, OTLP_PAUSE_MAX, OTLP_WANTED_PAUSE_MAX,
};
use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message;
use std::io::Write;
use std::time::{Duration, Instant};

/// What came of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    /// The collector has it; the body of its answer.
    Taken(Vec<u8>),
    /// It may be sent again after the pause.
    Later,
    /// The collector does not want it.
    Refused,
}

/// One signal's way to a collector.
pub(super) struct CollectorClient {
    http: ureq::Agent,
    target: SignalTarget,
    /// Whether the last request was taken; nothing before the first one.
    is_well: Option<bool>,
    /// Not to be asked before.
    resumes: Option<Instant>,
    /// The next pause.
    pause: Duration,
    /// What the collector said last of things that it took in part.
    complaint: String,
}

/// How a collector says what is wrong.
#[derive(Clone, PartialEq, Message)]
struct RpcStatus {
    #[prost(string, tag = "2")]
    message: String,
}

impl CollectorClient {
    pub(super) fn new(target: SignalTarget) -> Self {
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(OTLP_DEADLINE))
            .tls_config(target.tls.clone())
            // A redirected POST would become a GET, whose answer says nothing.
            .max_redirects(0)
            .max_redirects_will_error(false)
            .http_status_as_error(false);
        let http = ureq::Agent::new_with_config(config.build());
        let complaint = String::new();
        Self { http, target, is_well: None, resumes: None, pause: OTLP_PAUSE, complaint }
    }

    /// When it may be asked again; nothing while it may be asked at once.
    pub(super) fn resumes(&self) -> Option<Instant> {
        self.resumes.filter(|resumes| *resumes > Instant::now())
    }

    /// Whether the last request was refused or had no answer.
    pub(super) fn is_away(&self) -> bool {
        self.is_well == Some(false)
    }

    /// Sends a request once.
    pub(super) fn send(&mut self, message: &impl Message) -> Sent {
        let (sent, reason, wanted) = self.exchange(message.encode_to_vec());
        match sent {
            Sent::Later => {
                let pause = wanted.map_or(self.pause, |wanted| wanted.min(OTLP_WANTED_PAUSE_MAX));
                self.resumes = Some(Instant::now() + pause);
                self.pause = (2 * self.pause).min(OTLP_PAUSE_MAX);
            }
            Sent::Taken(_) | Sent::Refused => (self.resumes, self.pause) = (None, OTLP_PAUSE),
        }
        self.log_change(matches!(sent, Sent::Taken(_)), &reason);
        sent
    }

    /// The collector took something, but not all of it, or has something to say.
    pub(super) fn complained(&mut self, signal: Signal, refused: i64, words: &str) {
        let words = shown(words);
        if self.complaint != words || (refused > 0 && words.is_empty()) {
            let url = self.target.url.as_str();
            tracing::warn!(?signal, url, refused, words, "The collector took not all of it");
            self.complaint = words;
        }
    }

    /// What came of a request, why, and how long the collector wants to be left alone.
    fn exchange(&self, body: Vec<u8>) -> (Sent, String, Option<Duration>) {
        let mut request =
            self.http.post(&self.target.url).header("content-type", "application/x-protobuf");
        for (name, value) in &self.target.headers {
            request = request.header(name, value);
        }
        let packed = self.target.is_compressed.then(|| packed(&body)).flatten();
        let sent = match packed {
            Some(packed) => request.header("content-encoding", "gzip").send(&packed[..]),
            None => request.send(&body[..]),
        };
        let mut answer = match sent {
            Ok(answer) => answer,
            Err(error) => return (Sent::Later, error.to_string(), None),
        };
        let status = answer.status();
        let wanted = answer.headers().get("retry-after").and_then(|value| value.to_str().ok());
        let wanted = wanted.and_then(|text| text.trim().parse().ok()).map(Duration::from_secs);
        let body = answer.body_mut().with_config().limit(OTLP_ANSWER_BYTES_MAX).read_to_vec();
        let body = body.unwrap_or_default();
        if status.is_success() {
            return (Sent::Taken(body), String::new(), None);
        }
        let words = RpcStatus::decode(&body[..]).map(|status| status.message);
        let words = words.unwrap_or_else(|_| String::from_utf8_lossy(&body).into_owned());
        let reason = format!("{status} {}", shown(&words)).trim_end().to_owned();
        match status.as_u16() {
            429 | 502..=504 => (Sent::Later, reason, wanted),
            _ => (Sent::Refused, reason, None),
        }
    }

    /// Whether requests work is logged when it changes, not each time.
    fn log_change(&mut self, is_well: bool, reason: &str) {
        if self.is_well.replace(is_well) == Some(is_well) {
            return;
        }
        let url = self.target.url.as_str();
        if is_well {
            tracing::info!(url, "The collector takes what is exported");
        } else {
            tracing::warn!(url, reason, "The collector does not take what is exported; retrying");
        }
    }
}

fn packed(body: &[u8]) -> Option<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(body).ok()?;
    encoder.finish().ok()
}

/// Foreign words as a line of a log has them.
fn shown(words: &str) -> String {
    words.chars().filter(|letter| !letter.is_control()).take(200).collect()
}
