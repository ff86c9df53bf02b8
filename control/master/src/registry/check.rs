//! The records of the registry against each other. Tests call it after each step; a running master
//! never does, because it looks at everything.
//! Invariant: clients, segments, jobs and tasks name only each other, and each other's true state.

use std::collections::BTreeSet;

use crate::limits::{CLIENTS_MAX, SEGMENTS_MAX};

use super::Registry;
use super::segment_state::Occupancy;

impl Registry {
    /// Panics if any two records disagree.
    pub fn check(&self) {
        assert!(self.missed_ms <= self.now_ms, "time missed is time past");
        self.check_segments();
        self.check_clients();
        self.check_occupancy();
        self.jobs.check();
        self.tasks.check(self.settings.tasks.finished_max);
    }

    fn check_segments(&self) {
        assert!(self.segments.len() <= SEGMENTS_MAX);
        assert_eq!(self.segments.len(), self.index_by_id.len());
        for (index, mounted) in &self.segments {
            assert!(*index < self.next_index, "{index} was given");
            let named = self.index_by_id.get(&mounted.spec.id);
            assert_eq!(named, Some(index), "its identity leads to it");
            assert!(mounted.usable_bytes <= mounted.spec.bytes, "{index}");
            let owner = self.clients.get(&mounted.spec.client);
            let is_listed = owner.is_some_and(|owner| owner.segments.contains(index));
            assert!(is_listed, "the owner of {index} is known and has it");
        }
    }

    fn check_clients(&self) {
        assert!(self.clients.len() <= CLIENTS_MAX);
        let heard_ms = self.heard_ms();
        for (id, client) in &self.clients {
            assert!(client.heard_ms <= heard_ms, "{id} was heard before now");
            let own: BTreeSet<&u32> = client.segments.iter().collect();
            assert_eq!(own.len(), client.segments.len(), "each once");
            let is_own = |index: &&u32| {
                let mounted = self.segments.get(index);
                mounted.is_some_and(|mounted| mounted.spec.client == *id)
            };
            assert!(own.iter().all(is_own), "{id} owns what it lists");
        }
    }

    /// A segment is draining exactly while a job that has not ended empties it.
    fn check_occupancy(&self) {
        let active = self.jobs.active().iter();
        let jobs = active.filter_map(|id| self.jobs.get(*id));
        let emptied: Vec<u32> = jobs.flat_map(|job| job.sources.iter().copied()).collect();
        for (index, mounted) in &self.segments {
            let jobs = emptied.iter().filter(|source| *source == index).count();
            let is_draining = mounted.occupancy == Occupancy::Draining;
            assert_eq!(jobs, usize::from(is_draining), "jobs of segment {index}");
        }
    }
}
