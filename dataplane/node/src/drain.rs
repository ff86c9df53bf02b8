//! Emptying segments before they stop: drain jobs over the master's HTTP port. Invariant: every
//! request and the whole wait end in time, and no single lost answer leaves objects behind.

use crate::limits::{
    DRAIN_ANSWER_DEADLINE, DRAIN_CANCEL_DEADLINE, DRAIN_POLL_PAUSE, MASTER_SETTLES,
};
use perigee_schemas::Status;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

mod error;
#[cfg(test)]
mod tests;
mod unlisted;

pub use error::DrainError;
pub use unlisted::Unlisted;

/// Tells the master that the name in `Host` is the operator's own, not one that a web page made up.
const TRUSTED_HOST: (&str, &str) = ("X-Perigee-Trusted-Host", "yes");
/// State of a segment whose data port the master has not seen yet.
const UNVERIFIED: &str = "UNDEFINED";

/// What a job has moved.
#[derive(Debug, PartialEq, Eq)]
pub struct Moved {
    /// How many objects.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// The drain jobs of one master.
#[derive(Debug)]
pub struct DrainJobs {
    agent: ureq::Agent,
    /// `http://HOST:PORT/api/v1`
    url: String,
    /// How long the master may be silent, if not until the end.
    silence: Duration,
    /// Whether a job whose time is over is canceled.
    cancels: bool,
    /// Hears once that the master does not know the segments and is asked again.
    hears: Option<fn(&DrainError)>,
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
            url: format!("http://{host}:{http_port}/api/v1"),
            silence: Duration::MAX,
            cancels: false,
            hears: None,
        }
    }

    /// Cancels a job that it gives up, so that its segments take objects again. Not for an owner
    /// that leaves.
    #[must_use]
    pub fn canceling(self) -> Self {
        Self { cancels: true, ..self }
    }

    /// Tells why it goes on waiting for segments that the master does not know.
    #[must_use]
    pub fn telling(self, hears: fn(&DrainError)) -> Self {
        Self { hears: Some(hears), ..self }
    }

    /// Who is to hear of segments that the master does not know.
    pub(crate) fn hearer(&self) -> Option<fn(&DrainError)> {
        self.hears
    }

    /// Gives up when the master has not answered for `silence`.
    pub(crate) fn giving_up_after(self, silence: Duration) -> Self {
        Self { silence, ..self }
    }

    /// Starts a job for these segments and waits for its end, at most until then. What it has
    /// moved; none if the answer with the job's number was lost, but the segments are empty.
    ///
    /// # Errors
    /// The master does not answer or refuses, or objects are left.
    pub fn run(&self, segments: &[String], until: Instant) -> Result<Option<Moved>, DrainError> {
        self.run_while(segments, until, || Ok(()))
    }

    /// The same, as long as `goes_on` finds no reason to stop while no move is under way.
    pub(crate) fn run_while(
        &self,
        segments: &[String],
        until: Instant,
        mut goes_on: impl FnMut() -> Result<(), DrainError>,
    ) -> Result<Option<Moved>, DrainError> {
        let mut hears = self.hears;
        loop {
            let begun = match self.retried(until, || self.create(segments)) {
                Ok(id) => self.wait_for_job(&id, segments, until, &mut goes_on).map(Some),
                // They may be empty already, or another job is at it: also one of a request whose
                // answer was lost.
                Err(DrainError::Refused(reason)) => {
                    self.wait_for_segments(segments, reason, until).map(|()| None)
                }
                Err(error) => Err(error),
            };
            match begun {
                // The owner mounts them again with its next heartbeats.
                Err(error @ (DrainError::NotMounted(_) | DrainError::Forgotten))
                    if Instant::now() < until =>
                {
                    if matches!(error, DrainError::NotMounted(_))
                        && let Some(hears) = hears.take()
                    {
                        hears(&self.not_mounted(segments));
                    }
                    std::thread::sleep(DRAIN_POLL_PAUSE);
                }
                Err(DrainError::NotMounted(_)) => return Err(self.not_mounted(segments)),
                ended => return ended,
            }
        }
    }

    /// When this master has heard of all owners; `None` if it does not say how old it is.
    #[must_use]
    pub fn settles_at(&self) -> Option<Instant> {
        let age = self.age()?;
        Some(Instant::now() + MASTER_SETTLES.saturating_sub(age))
    }

    fn age(&self) -> Option<Duration> {
        let metrics = format!("{}/metrics", self.root());
        let mut answer = self.agent.get(&metrics).call().ok()?;
        let text = answer.body_mut().read_to_string().ok()?;
        let seconds = text.lines().find_map(|line| line.strip_prefix("perigee_uptime_seconds "))?;
        Duration::try_from_secs_f64(seconds.trim().parse().ok()?).ok()
    }

    fn root(&self) -> &str {
        self.url.trim_end_matches("/api/v1")
    }

    /// Refuses another master than the one that knows these segments by these clients: it may be at
    /// the HTTP port, and know segments of the same names.
    ///
    /// # Errors
    /// It is another one, or does not answer.
    pub(crate) fn check_owners(
        &self,
        owned: &[(String, String)],
        until: Instant,
    ) -> Result<(), DrainError> {
        let found = self.retried(until, || self.table())?;
        let is_there = |(name, client): &(String, String)| {
            rows(&found)
                .iter()
                .any(|row| row["segment_name"] == **name && row["client_id"] == **client)
        };
        let missing = owned.iter().find(|one| !is_there(one));
        missing.map_or(Ok(()), |(name, _)| {
            let reason = format!("it does not know the segment {name} of this process");
            Err(DrainError::NoMaster { url: self.url.clone(), reason })
        })
    }

    /// The master's table of segments.
    fn table(&self) -> Result<Value, DrainError> {
        self.parsed(self.agent.get(format!("{}/get_segments_detail", self.root())).call())
    }

    /// Says of segments that the master does not know what it knows instead.
    fn not_mounted(&self, segments: &[String]) -> DrainError {
        let text = |row: &Value, field: &str| row[field].as_str().unwrap_or_default().to_owned();
        let Ok(found) = self.table() else {
            return DrainError::NotMounted(Unlisted::of(segments));
        };
        let listed = rows(&found).iter();
        let listed = listed.map(|row| (text(row, "segment_name"), text(row, "segment_id")));
        DrainError::NotMounted(Unlisted::beside(segments, &listed.collect::<Vec<_>>()))
    }

    /// Asks until there is an answer or the time is over.
    fn retried<T>(
        &self,
        until: Instant,
        mut ask: impl FnMut() -> Result<T, DrainError>,
    ) -> Result<T, DrainError> {
        let silent = Instant::now().checked_add(self.silence);
        let until = silent.map_or(until, |silent| silent.min(until));
        loop {
            match ask() {
                Err(DrainError::NoAnswer { .. }) if Instant::now() < until => {
                    std::thread::sleep(DRAIN_POLL_PAUSE);
                }
                answer => return answer,
            }
        }
    }

    fn create(&self, segments: &[String]) -> Result<String, DrainError> {
        let body = json!({ "segments": segments }).to_string();
        let request = self.agent.post(format!("{}/drain_jobs", self.url));
        let request = request.header(TRUSTED_HOST.0, TRUSTED_HOST.1);
        let created = self.parsed(request.send(&body))?;
        Ok(created["job_id"].as_str().unwrap_or_default().to_owned())
    }

    fn wait_for_job(
        &self,
        id: &str,
        segments: &[String],
        until: Instant,
        goes_on: &mut impl FnMut() -> Result<(), DrainError>,
    ) -> Result<Moved, DrainError> {
        loop {
            let job = self.retried(until, || self.job(id))?;
            if let Some(ended) = ended(&job) {
                return ended;
            }
            if Instant::now() >= until {
                return self.give_up(id, segments, &job);
            }
            if job["active_units"].as_u64() == Some(0)
                && let Err(error) = goes_on()
            {
                self.cancel(id);
                return Err(error);
            }
            std::thread::sleep(DRAIN_POLL_PAUSE);
        }
    }

    fn job(&self, id: &str) -> Result<Value, DrainError> {
        self.get("drain_jobs/query", ("job_id", id))
    }

    /// The time of a job is over: what came of it after all, or why not.
    fn give_up(&self, id: &str, segments: &[String], job: &Value) -> Result<Moved, DrainError> {
        let is_canceled = self.cancel(id);
        // It may have come to its end in that moment.
        if self.cancels
            && !is_canceled
            && let Ok(job) = self.job(id)
            && let Some(ended) = ended(&job)
        {
            return ended;
        }
        let fate = match is_canceled {
            true => format!("the job is canceled, and {} takes objects again", segments.join(", ")),
            false => format!(
                "the job goes on: curl -X POST '{}/drain_jobs/cancel?job_id={id}' ends it",
                self.url
            ),
        };
        // A job that has not ended says only what its objects wait for. What its walk has not come
        // to is in none of its counts.
        let waits_for_room = job["message"].as_str().is_some_and(|message| !message.is_empty());
        Err(match waits_for_room {
            true => DrainError::NoRoom(format!("{}; {fate}", counts(job))),
            false => DrainError::Late(format!("{} objects moved; {fate}", moved(job).objects)),
        })
    }

    /// Cancels a job, if that is wanted; whether its segments take objects again.
    fn cancel(&self, id: &str) -> bool {
        if !self.cancels {
            return false;
        }
        let request = self.agent.post(format!("{}/drain_jobs/cancel", self.url));
        let request = request.query("job_id", id).header(TRUSTED_HOST.0, TRUSTED_HOST.1);
        let request = request.config().timeout_global(Some(DRAIN_CANCEL_DEADLINE)).build();
        self.parsed(request.send_empty()).is_ok()
    }

    /// Waits until segments are empty that a job of unknown number may be emptying. `reason` is why
    /// the master takes no second job.
    pub(crate) fn wait_for_segments(
        &self,
        segments: &[String],
        reason: String,
        until: Instant,
    ) -> Result<(), DrainError> {
        let mut was_draining = false;
        loop {
            let states: Result<Vec<String>, DrainError> =
                segments.iter().map(|name| self.retried(until, || self.state(name))).collect();
            let states = match states {
                Err(DrainError::NotMounted(_)) => return Err(DrainError::Refused(reason)),
                states => states?,
            };
            if states.iter().all(|state| state == "DRAINED") {
                return Ok(());
            }
            let is_draining = states.iter().any(|state| state == "DRAINING");
            was_draining |= is_draining;
            match is_draining {
                true if Instant::now() < until => std::thread::sleep(DRAIN_POLL_PAUSE),
                true => {
                    return Err(DrainError::Late("another job is at it and goes on".to_owned()));
                }
                false if was_draining => {
                    return Err(DrainError::Left(format!(
                        "the segments are {}",
                        states.join(", ")
                    )));
                }
                false if states.iter().any(|state| state == UNVERIFIED) => {
                    return Err(DrainError::NotMounted(Unlisted::of(segments)));
                }
                false => return Err(DrainError::Refused(reason)),
            }
        }
    }

    fn state(&self, segment: &str) -> Result<String, DrainError> {
        let found = self.get("segments/status", ("segment", segment))?;
        Ok(found["status_name"].as_str().unwrap_or_default().to_owned())
    }

    fn get(&self, route: &str, question: (&str, &str)) -> Result<Value, DrainError> {
        let request = self.agent.get(format!("{}/{route}", self.url));
        self.parsed(request.query(question.0, question.1).call())
    }

    fn parsed(
        &self,
        answer: Result<ureq::http::Response<ureq::Body>, ureq::Error>,
    ) -> Result<Value, DrainError> {
        let url = || self.url.clone();
        let no_answer = |reason: String| DrainError::NoAnswer { url: url(), reason };
        let mut answer = answer.map_err(|error| no_answer(error.to_string()))?;
        let text = answer.body_mut().read_to_string();
        let text = text.map_err(|error| no_answer(error.to_string()))?;
        // A shard of the master that is busy for too long, for one.
        if answer.status().is_server_error() {
            return Err(no_answer(format!("{} {text}", answer.status())));
        }
        let no_master = |reason: String| DrainError::NoMaster { url: url(), reason };
        let body: Value =
            serde_json::from_str(&text).map_err(|error| no_master(error.to_string()))?;
        if answer.status().is_success() {
            return Ok(body);
        }
        let code = body["error_code"].as_i64();
        let is = |status: Status| code == Some(status.code().into());
        if is(Status::SegmentNotFound) {
            // `run_while` says which.
            return Err(DrainError::NotMounted(Unlisted::of(&[])));
        }
        if is(Status::JobNotFound) {
            return Err(DrainError::Forgotten);
        }
        let reason = body["error_message"].as_str().map_or(text.as_str(), |reason| reason);
        Err(DrainError::Refused(reason.to_owned()))
    }
}

/// The rows of the master's table of segments.
fn rows(table: &Value) -> &[Value] {
    table["segments"].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// What a job came to, if it has ended.
fn ended(job: &Value) -> Option<Result<Moved, DrainError>> {
    match state_of(job) {
        "SUCCEEDED" => Some(Ok(moved(job))),
        state @ ("FAILED" | "CANCELED") => Some(Err(DrainError::Left(progress(job, state)))),
        _ => None,
    }
}

fn state_of(job: &Value) -> &str {
    job["status_name"].as_str().unwrap_or_default()
}

fn moved(job: &Value) -> Moved {
    let number = |field: &str| job[field].as_u64().unwrap_or(0);
    Moved { objects: number("succeeded_units"), bytes: number("migrated_bytes") }
}

/// How a job ended, for a message.
fn progress(job: &Value, state: &str) -> String {
    let message = job["message"].as_str().unwrap_or_default();
    let separator = if message.is_empty() { "" } else { ": " };
    format!("the job is {state}{separator}{message}, {}", counts(job))
}

/// How far a job is.
fn counts(job: &Value) -> String {
    let number = |field: &str| job[field].as_u64().unwrap_or(0);
    let left = number("failed_units") + number("blocked_units") + number("active_units");
    format!("{} objects moved, {left} not", number("succeeded_units"))
}
