//! The records of drain jobs.
//! Invariant: a job that has ended changes no more, and only so many ended jobs are remembered.

use std::sync::Arc;

use crate::draining::DrainReport;
use crate::limits::JOBS_ENDED_MAX;

use super::remembered::Remembered;

/// How far a drain job is, with Mooncake's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum JobState {
    /// Nothing was done yet.
    Created = 0,
    /// The shards begin to look for what lies in the segments.
    Planning = 1,
    /// Replicas are moved.
    Running = 2,
    /// The segments are empty.
    Succeeded = 3,
    /// Something is left in the segments, or was lost with them.
    Failed = 4,
    /// An operator ended it.
    Canceled = 5,
}

impl JobState {
    /// Mooncake's word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Created => "CREATED",
            Self::Planning => "PLANNING",
            Self::Running => "RUNNING",
            Self::Succeeded => "SUCCEEDED",
            Self::Failed => "FAILED",
            Self::Canceled => "CANCELED",
        }
    }

    /// Whether nothing follows.
    pub fn is_ended(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Canceled)
    }
}

/// A drain job.
#[derive(Debug, Clone)]
pub struct DrainJob {
    /// How far it is.
    pub state: JobState,
    /// Names of the segments to be emptied, as they were asked for.
    pub segments: Vec<String>,
    /// Milliseconds since 1970 when it was created.
    pub created_ms: u64,
    /// Milliseconds since 1970 of the last change.
    pub updated_ms: u64,
    /// What the shards said last.
    pub report: DrainReport,
    /// Why it failed; empty otherwise.
    pub message: String,
    /// Numbers of the segments to be emptied.
    pub(super) sources: Arc<[u32]>,
    /// Numbers of the segments that may take the objects; all if empty.
    pub(super) targets: Arc<[u32]>,
    pub(super) max_concurrency: u32,
    /// Clients that own the sources.
    pub(super) owners: Vec<u128>,
}

/// All jobs that are remembered.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    jobs: Remembered<DrainJob>,
    active: Vec<u128>,
}

impl Jobs {
    pub(super) fn insert(&mut self, id: u128, job: DrainJob) {
        self.jobs.insert(id, job);
        self.active.push(id);
    }

    pub(super) fn get(&self, id: u128) -> Option<&DrainJob> {
        self.jobs.get(id)
    }

    pub(super) fn get_mut(&mut self, id: u128) -> Option<&mut DrainJob> {
        self.jobs.get_mut(id)
    }

    /// Jobs that have not ended, the oldest first.
    pub(super) fn active(&self) -> &[u128] {
        &self.active
    }

    /// Panics unless exactly the jobs that have not ended are active.
    pub(super) fn check(&self) {
        self.jobs.check(JOBS_ENDED_MAX, |job| job.state.is_ended());
        let mut active = self.active.clone();
        active.sort_unstable();
        let live = self.jobs.live(|job| job.state.is_ended());
        assert!(live.map(|(id, _)| id).eq(active));
    }

    /// Ends a job, and forgets the one that ended first if there are too many.
    pub(super) fn end(&mut self, id: u128, state: JobState, message: String, wall_ms: u64) {
        let Some(job) = self.jobs.get_mut(id) else {
            return;
        };
        debug_assert!(state.is_ended() && !job.state.is_ended(), "a job ends once");
        job.state = state;
        job.message = message;
        job.updated_ms = wall_ms;
        self.active.retain(|active| *active != id);
        self.jobs.end(id, JOBS_ENDED_MAX);
    }
}
