//! Emptying segments before they stop: drain jobs over the master's HTTP port. Invariant: every
//! request and the whole wait end in time.

use crate::limits::{DRAIN_ANSWER_DEADLINE, DRAIN_POLL_PAUSE};
use perigee_schemas::Status;
use serde_json::{Value, json};
use std::time::Instant;

/// Tells the master that the name in `Host` is the operator's own, not one that a web page made up.
const TRUSTED_HOST: (&str, &str) = ("X-Perigee-Trusted-Host", "yes");

/// What a job has moved.
#[derive(Debug, PartialEq, Eq)]
pub struct Moved {
    /// How many objects.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Why segments are not empty now.
#[derive(Debug, thiserror::Error)]
pub enum DrainError {
    /// Nothing says which client is meant.
    #[error(
        "Several clients have segments at the addresses of this host: {0}; give --segment=NAME"
    )]
    Ambiguous(String),
    /// The master's HTTP port did not answer.
    #[error(
        "The master does not answer at {url}: {reason}; {MASTER_PORT_FLAGS} gives its HTTP port"
    )]
    NoAnswer {
        /// What was asked.
        url: String,
        /// What went wrong.
        reason: String,
    },
    /// The master refused the job.
    #[error("The master refused to drain: {0}")]
    Refused(String),
    /// The job ended without success.
    #[error(
        "Not every object could be moved: {0}; clients still read what is left until its owner stops"
    )]
    Left(String),
    /// The job goes on in the master.
    #[error("There was no time to move all: {0}; give it more time")]
    Late(String),
}

/// Of `perigee drain` and of the node.
const MASTER_PORT_FLAGS: &str = "--metrics_port, of a node --master_metrics_port,";

impl DrainError {
    /// The status whose exit code a program ends with.
    #[must_use]
    pub fn status(&self) -> Status {
        match self {
            Self::Ambiguous(_) | Self::Refused(_) => Status::InvalidParams,
            Self::NoAnswer { .. } => Status::RpcFail,
            Self::Left(_) | Self::Late(_) => Status::NoAvailableHandle,
        }
    }
}

/// The drain jobs of one master.
#[derive(Debug)]
pub struct DrainJobs {
    agent: ureq::Agent,
    /// `http://HOST:PORT/api/v1/drain_jobs`
    url: String,
}

impl DrainJobs {
    /// `master` is the `HOST:PORT` of its RPC port.
    #[must_use]
    pub fn of(master: &str, http_port: u16) -> Self {
        let host = master.rsplit_once(':').map_or(master, |(host, _)| host);
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(DRAIN_ANSWER_DEADLINE))
            .http_status_as_error(false)
            .proxy(None);
        Self {
            agent: ureq::Agent::new_with_config(config.build()),
            url: format!("http://{host}:{http_port}/api/v1/drain_jobs"),
        }
    }

    /// Starts a job for these segments and waits for its end, at most until then.
    ///
    /// # Errors
    /// The master does not answer or refuses, or objects are left.
    pub fn run(&self, segments: &[String], until: Instant) -> Result<Moved, DrainError> {
        let body = json!({ "segments": segments }).to_string();
        let request = self.agent.post(&self.url).header(TRUSTED_HOST.0, TRUSTED_HOST.1);
        let created = self.parsed(request.send(&body))?;
        let id = created["job_id"].as_str().unwrap_or_default();
        loop {
            let job = match self.query(id) {
                // One lost answer is no reason to leave objects behind.
                Err(DrainError::NoAnswer { .. }) if Instant::now() < until => {
                    std::thread::sleep(DRAIN_POLL_PAUSE);
                    continue;
                }
                answer => answer?,
            };
            let state = job["status_name"].as_str().unwrap_or_default();
            match state {
                "SUCCEEDED" => return Ok(moved(&job)),
                "FAILED" | "CANCELED" => return Err(DrainError::Left(progress(&job, state))),
                _ if Instant::now() >= until => {
                    let text = format!("{} and goes on as job {id}", progress(&job, state));
                    return Err(DrainError::Late(text));
                }
                _ => std::thread::sleep(DRAIN_POLL_PAUSE),
            }
        }
    }

    fn query(&self, id: &str) -> Result<Value, DrainError> {
        let request = self.agent.get(format!("{}/query?job_id={id}", self.url));
        self.parsed(request.call())
    }

    fn parsed(
        &self,
        answer: Result<ureq::http::Response<ureq::Body>, ureq::Error>,
    ) -> Result<Value, DrainError> {
        let no_answer = |reason: String| DrainError::NoAnswer { url: self.url.clone(), reason };
        let mut answer = answer.map_err(|error| no_answer(error.to_string()))?;
        let text = answer.body_mut().read_to_string();
        let text = text.map_err(|error| no_answer(error.to_string()))?;
        let body: Value =
            serde_json::from_str(&text).map_err(|error| no_answer(error.to_string()))?;
        if answer.status().is_success() {
            return Ok(body);
        }
        let reason = body["error_message"].as_str().map_or(text.as_str(), |reason| reason);
        Err(DrainError::Refused(reason.to_owned()))
    }
}

fn moved(job: &Value) -> Moved {
    let number = |field: &str| job[field].as_u64().unwrap_or(0);
    Moved { objects: number("succeeded_units"), bytes: number("migrated_bytes") }
}

/// How far a job is, for a message.
fn progress(job: &Value, state: &str) -> String {
    let number = |field: &str| job[field].as_u64().unwrap_or(0);
    let message = job["message"].as_str().unwrap_or_default();
    let separator = if message.is_empty() { "" } else { ": " };
    format!(
        "the job is {state}{separator}{message}, {} objects moved, {} not",
        number("succeeded_units"),
        number("failed_units") + number("blocked_units") + number("active_units")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_http_port_is_on_the_masters_host() {
        for (master, host) in [("m:50051", "m"), ("[fe80::1]:50051", "[fe80::1]"), ("m", "m")] {
            let url = format!("http://{host}:9003/api/v1/drain_jobs");
            assert_eq!(DrainJobs::of(master, 9003).url, url);
        }
    }

    #[test]
    fn a_message_says_how_far_the_job_is() {
        let job = json!({"message": "no room", "succeeded_units": 3, "failed_units": 1, "blocked_units": 1});
        let text = progress(&job, "FAILED");
        assert_eq!(text, "the job is FAILED: no room, 3 objects moved, 2 not");
        let bytes = json!({"succeeded_units": 3, "migrated_bytes": 9});
        assert_eq!(moved(&bytes), Moved { objects: 3, bytes: 9 });
    }
}
