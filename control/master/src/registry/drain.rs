//! Drain jobs: which segments are to become empty, and what becomes of them.
//! Invariant: a segment is DRAINING exactly while a job that has not ended empties it.

use std::collections::BTreeSet;
use std::sync::Arc;

use perigee_schemas::Status;

use crate::draining::{DrainOrder, DrainReport};
use crate::limits::{JOB_CONCURRENCY_MAX, JOBS_ACTIVE_MAX};
use crate::refusal::JobRefusal;
use crate::segment::SegmentEvent;

use super::Registry;
use super::drain_request::DrainJobRequest;
use super::jobs::{DrainJob, JobState};
use super::segment_state::{Occupancy, SegmentState, SegmentView};

impl Registry {
    /// Creates a drain job under a random identity. Its segments take no new objects from now on.
    /// `wall_ms` is only shown.
    ///
    /// # Errors
    /// `InvalidParams`: no segment, one that is also a target, or a concurrency out of bounds;
    /// `SegmentNotFound`: a name that no mounted segment has; `UnavailableInCurrentStatus`: a
    /// source or target is being emptied or unmounted, or is empty on purpose, or is a disk, or
    /// several clients have segments of a source's name; `TaskPendingLimitExceeded`: too many jobs.
    pub fn create_drain(
        &mut self,
        wall_ms: u64,
        id: u128,
        request: DrainJobRequest,
    ) -> Result<(), JobRefusal> {
        if request.segments.is_empty()
            || !(1..=JOB_CONCURRENCY_MAX).contains(&request.max_concurrency)
        {
            return Err(Status::InvalidParams.into());
        }
        self.check_owners(&request.segments)?;
        let sources = self.usable(&request.segments)?;
        let targets = self.usable(&request.target_segments)?;
        if sources.iter().any(|source| targets.contains(source)) {
            return Err(Status::InvalidParams.into());
        }
        if self.jobs.active().len() >= JOBS_ACTIVE_MAX || self.jobs.get(id).is_some() {
            return Err(Status::TaskPendingLimitExceeded.into());
        }
        let owner = |index: &u32| self.segments.get(index).map(|it| it.spec.client);
        let job = DrainJob {
            state: JobState::Created,
            segments: request.segments,
            created_ms: wall_ms,
            updated_ms: wall_ms,
            report: DrainReport::default(),
            message: String::new(),
            owners: sources.iter().filter_map(owner).collect(),
            sources: sources.into(),
            targets: targets.into(),
            max_concurrency: request.max_concurrency,
        };
        for index in job.sources.iter() {
            self.set_occupancy(*index, Occupancy::Draining);
        }
        self.jobs.insert(id, job);
        Ok(())
    }

    /// A drain job, also one that ended not too long ago.
    pub fn drain_job(&self, id: u128) -> Option<&DrainJob> {
        self.jobs.get(id)
    }

    /// Jobs that have not ended, the oldest first.
    pub fn active_drains(&self) -> &[u128] {
        self.jobs.active()
    }

    /// Whether objects in segments of a client are being moved or copied, so that it has to ask for
    /// moves.
    pub fn has_moves(&self, client: u128) -> bool {
        if self.tasks.concern(client) || self.repairers.contains(&client) {
            return true;
        }
        let active = self.jobs.active().iter();
        let mut jobs = active.filter_map(|id| self.jobs.get(*id));
        jobs.any(|job| job.owners.contains(&client))
    }

    /// The clients that all shards together want copies for repairs from.
    pub fn note_repairers(&mut self, clients: BTreeSet<u128>) {
        self.repairers = clients;
    }

    /// What all shards together are to do next for a job; its `allowance` is to be shared between
    /// them.
    pub fn drain_order(&mut self, id: u128) -> Option<DrainOrder> {
        let job = self.jobs.get_mut(id).filter(|job| !job.state.is_ended())?;
        if job.state == JobState::Created {
            job.state = JobState::Planning;
        }
        Some(DrainOrder {
            job: id,
            sources: Arc::clone(&job.sources),
            targets: Arc::clone(&job.targets),
            allowance: job.max_concurrency,
        })
    }

    /// Takes in what all shards together say of a job after a turn, and ends the job if nothing is
    /// left to do. Returns whether it has ended.
    pub fn note_drain(&mut self, wall_ms: u64, id: u128, report: DrainReport) -> bool {
        let Some(job) = self.jobs.get_mut(id).filter(|job| !job.state.is_ended()) else {
            return true;
        };
        job.state = JobState::Running;
        if job.report != report {
            job.updated_ms = wall_ms;
            job.report = report;
        }
        if !job.report.is_done {
            return false;
        }
        let job = job.clone();
        let message = self.why_failed(&job);
        let (state, occupancy) = match message.is_empty() {
            true => (JobState::Succeeded, Occupancy::Drained),
            false => (JobState::Failed, Occupancy::Open),
        };
        self.end_drain(wall_ms, id, &job, state, occupancy, message);
        true
    }

    /// Ends a job of which no move is under way on any shard, which the caller has made sure of by
    /// a last turn without allowance. Its segments take objects again.
    ///
    /// # Errors
    /// `JobNotFound`, or `UnavailableInCurrentStatus` if it has ended or moves are under way.
    pub fn cancel_drain(&mut self, wall_ms: u64, id: u128) -> Result<(), Status> {
        let job = self.jobs.get(id).ok_or(Status::JobNotFound)?.clone();
        if job.state.is_ended() || job.report.active > 0 {
            return Err(Status::UnavailableInCurrentStatus);
        }
        let message = String::new();
        self.end_drain(wall_ms, id, &job, JobState::Canceled, Occupancy::Open, message);
        Ok(())
    }

    fn end_drain(
        &mut self,
        wall_ms: u64,
        id: u128,
        job: &DrainJob,
        state: JobState,
        occupancy: Occupancy,
        message: String,
    ) {
        for index in job.sources.iter() {
            self.set_occupancy(*index, occupancy);
        }
        self.jobs.end(id, state, message, wall_ms);
    }

    /// What to tell the operator of a job that is done but has not reached its aim; empty if it
    /// has.
    fn why_failed(&self, job: &DrainJob) -> String {
        let gone = |index: &&u32| !self.segments.contains_key(index);
        let gone = job.sources.iter().filter(gone).count();
        let DrainReport { failed, last_failure, .. } = &job.report;
        if *failed > 0 {
            let reason = last_failure.unwrap_or(Status::InternalError);
            return format!(
                "{failed} replicas could not be moved, the last one for {reason}; \
                 add room or repair the targets and drain again"
            );
        }
        if gone > 0 {
            return format!("{gone} segments were unmounted before they were drained");
        }
        String::new()
    }

    /// Whether each name means segments of one client.
    fn check_owners(&self, names: &[String]) -> Result<(), JobRefusal> {
        for name in names {
            let owners: BTreeSet<u128> = self.meant(name).map(|view| view.spec.client).collect();
            if owners.len() > 1 {
                return Err(JobRefusal::shared_name(name, owners.len()));
            }
        }
        Ok(())
    }

    /// The segment whose identity this is, as two decimal halves, else those of this name.
    fn meant<'a>(&'a self, name: &'a str) -> impl Iterator<Item = SegmentView<'a>> {
        let by_id = id_of(name).and_then(|id| self.segment_by_id(id));
        let by_name = by_id.is_none().then(|| self.segments_by_name(name));
        by_id.into_iter().chain(by_name.into_iter().flatten())
    }

    /// The numbers of the segments with these names, each of which must take objects.
    fn usable(&self, names: &[String]) -> Result<Vec<u32>, JobRefusal> {
        let mut found = Vec::new();
        for name in names {
            let (before, mut has_disk) = (found.len(), false);
            for view in self.meant(name) {
                // A node gives its memory and its disks one name.
                if self.is_disk(view.index) {
                    has_disk = true;
                    continue;
                }
                if let Some((state, advice)) = why_closed(view.state) {
                    return Err(JobRefusal::closed_segment(name, state, advice));
                }
                found.push(view.index);
            }
            if found.len() == before && has_disk {
                let advice = "drain jobs move what lies in memory";
                return Err(JobRefusal::closed_segment(name, "a disk", advice));
            }
            if found.len() == before {
                return Err(JobRefusal::no_segment(name));
            }
        }
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }

    fn set_occupancy(&mut self, index: u32, occupancy: Occupancy) {
        let Some(mounted) = self.segments.get_mut(&index) else {
            return;
        };
        mounted.occupancy = occupancy;
        match occupancy {
            Occupancy::Draining => self.events.push(SegmentEvent::Draining { index }),
            Occupancy::Open if mounted.drain_end_ms.is_none() && mounted.is_confirmed => {
                self.events.push(SegmentEvent::Resumed { index });
            }
            Occupancy::Open | Occupancy::Drained => {}
        }
    }
}

/// Why a segment takes no objects, and what to do.
fn why_closed(state: SegmentState) -> Option<(&'static str, &'static str)> {
    match state {
        SegmentState::Ok => None,
        SegmentState::Unconfirmed => {
            Some(("not verified yet", "its data port must be reachable from the master"))
        }
        SegmentState::Draining => {
            Some(("being drained", "wait for the end of that job, or cancel it"))
        }
        SegmentState::Drained => {
            Some(("drained", "its node takes objects again when it is started again"))
        }
        SegmentState::GracefullyUnmounting => Some(("being unmounted", "its node is leaving")),
    }
}

fn id_of(text: &str) -> Option<u128> {
    let (high, low) = text.split_once('-')?;
    let (high, low): (u64, u64) = (high.parse().ok()?, low.parse().ok()?);
    Some(u128::from(high) << 64 | u128::from(low))
}
