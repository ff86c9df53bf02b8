//! The records of drain jobs.
//! Invariant: a job that has ended changes no more, and only so many ended jobs are remembered.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::draining::DrainReport;
use crate::limits::JOBS_ENDED_MAX;

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
    by_id: BTreeMap<u128, DrainJob>,
    active: Vec<u128>,
    ended: VecDeque<u128>,
}

impl Jobs {
    pub(super) fn insert(&mut self, id: u128, job: DrainJob) {
        let before = self.by_id.insert(id, job);
        debug_assert!(before.is_none(), "an identity names one job");
        self.active.push(id);
    }

    pub(super) fn get(&self, id: u128) -> Option<&DrainJob> {
        self.by_id.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: u128) -> Option<&mut DrainJob> {
        self.by_id.get_mut(&id)
    }

    /// Jobs that have not ended, the oldest first.
    pub(super) fn active(&self) -> &[u128] {
        &self.active
    }

    /// Panics unless each job is either active or among those that ended, as its state says.
    pub(super) fn check(&self) {
        assert!(self.ended.len() <= JOBS_ENDED_MAX);
        assert_eq!(self.active.len() + self.ended.len(), self.by_id.len());
        for (ids, is_ended) in
            [(self.active.iter().collect::<Vec<_>>(), false), (self.ended.iter().collect(), true)]
        {
            for id in ids {
                let state = self.by_id.get(id).map(|job| job.state.is_ended());
                assert_eq!(state, Some(is_ended), "job {id}");
            }
        }
    }

    /// Ends a job, and forgets the one that ended first if there are too many.
    pub(super) fn end(&mut self, id: u128, state: JobState, message: String, wall_ms: u64) {
        let Some(job) = self.by_id.get_mut(&id) else {
            return;
        };
        debug_assert!(state.is_ended() && !job.state.is_ended(), "a job ends once");
        job.state = state;
        job.message = message;
        job.updated_ms = wall_ms;
        self.active.retain(|active| *active != id);
        self.ended.push_back(id);
        if self.ended.len() > JOBS_ENDED_MAX
            && let Some(oldest) = self.ended.pop_front()
        {
            self.by_id.remove(&oldest);
        }
    }
}
