//! What the parts of a group on several shards have in common: leases, pins, and the decision that
//! the group goes.
//! Invariant: leases are granted and the group is given up under one lock, so that no part goes
//! while a lease of any runs.
//!
//! This is the only state that shards share. A lock is held for a few assignments, and no other is
//! taken under it but a group's under the directory's.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The groups of all shards of one master.
#[derive(Debug, Clone)]
pub struct GroupLedger(Arc<GroupDirectory>);

#[derive(Debug)]
struct GroupDirectory {
    bonds: Mutex<BTreeMap<Box<str>, GroupHandle>>,
    /// One per shard.
    post: Vec<DropNotices>,
}

/// Names of groups whose parts a shard has to drop.
#[derive(Debug, Default)]
struct DropNotices {
    waiting: AtomicBool,
    names: Mutex<Vec<Box<str>>>,
}

/// What holds for all members of a group.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct GroupState {
    pub(crate) read_end_ms: u64,
    pub(crate) probe_end_ms: u64,
    pub(crate) counts: MemberCounts,
    /// A member was read.
    pub(crate) hit: bool,
    /// Readers of members that have not given the lease back, and perhaps some whose lease has run
    /// out.
    pub(crate) readers: u32,
}

/// How many members keep their group.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct MemberCounts {
    /// Unfinished or hard-pinned ones: the group stays while there is one.
    pub(crate) blockers: u32,
    /// Soft-pinned ones: the group goes last while there is one.
    pub(crate) soft_pinned: u32,
}

/// One group's record.
#[derive(Debug, Clone, Default)]
pub(crate) struct GroupHandle(Arc<Mutex<GroupRecord>>);

#[derive(Debug, Default)]
struct GroupRecord {
    standing: GroupState,
    /// Shards with members.
    shards: Vec<usize>,
    /// The group was evicted: parts that are left are about to be dropped.
    retired: bool,
}

impl GroupState {
    pub(super) fn may_go(&self, now_ms: u64) -> bool {
        self.counts.blockers == 0 && self.read_end_ms <= now_ms
    }

    /// Grants the lease to one more reader of a member.
    pub(crate) fn grant(&mut self, now_ms: u64, end_ms: u64) {
        if self.read_end_ms <= now_ms {
            self.readers = 0;
        }
        self.read_end_ms = self.read_end_ms.max(end_ms);
        self.readers = self.readers.saturating_add(1);
        self.hit = true;
    }

    /// Takes the lease back from readers of a member; after the last one of any member it is over.
    pub(crate) fn give_back(&mut self, readers: u32) {
        self.readers = self.readers.saturating_sub(readers);
        if self.readers == 0 {
            self.read_end_ms = 0;
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl GroupLedger {
    /// No groups; for a master with so many shards.
    pub fn new(shards: usize) -> Self {
        Self(Arc::new(GroupDirectory {
            bonds: Mutex::default(),
            post: (0..shards).map(|_| DropNotices::default()).collect(),
        }))
    }

    /// Number of the master's shards.
    pub(super) fn shards(&self) -> usize {
        self.0.post.len()
    }

    pub(super) fn join(&self, name: &str, shard: usize) -> GroupHandle {
        let mut bonds = locked(&self.0.bonds);
        if let Some(known) = bonds.get(name).filter(|bond| bond.admits(shard)) {
            return known.clone();
        }
        let bond = GroupHandle::default();
        bond.admits(shard);
        bonds.insert(name.into(), bond.clone());
        bond
    }

    pub(super) fn leave(&self, name: &str, bond: &GroupHandle, shard: usize) {
        let mut bonds = locked(&self.0.bonds);
        let mut record = locked(&bond.0);
        record.shards.retain(|other| *other != shard);
        let is_over = record.shards.is_empty();
        drop(record);
        if is_over {
            bond.forget(name, &mut bonds);
        }
    }

    pub(super) fn retire(&self, name: &str, bond: &GroupHandle, shard: usize, now_ms: u64) -> bool {
        let mut record = locked(&bond.0);
        if record.retired || !record.standing.may_go(now_ms) {
            return false;
        }
        record.retired = true;
        let others = std::mem::take(&mut record.shards);
        drop(record);
        bond.forget(name, &mut locked(&self.0.bonds));
        for other in others.into_iter().filter(|other| *other != shard) {
            if let Some(post) = self.0.post.get(other) {
                locked(&post.names).push(name.into());
                post.waiting.store(true, Ordering::Release);
            }
        }
        true
    }

    pub(super) fn take_post(&self, shard: usize) -> Vec<Box<str>> {
        match self.0.post.get(shard) {
            Some(post) if post.waiting.load(Ordering::Acquire) => {
                post.waiting.store(false, Ordering::Release);
                std::mem::take(&mut *locked(&post.names))
            }
            _ => Vec::new(),
        }
    }
}

impl GroupHandle {
    pub(super) fn standing(&self) -> GroupState {
        locked(&self.0).standing
    }

    pub(super) fn update(&self, change: impl FnOnce(&mut GroupState)) -> GroupState {
        let mut record = locked(&self.0);
        change(&mut record.standing);
        record.standing
    }

    /// Enters a shard, unless the group was evicted. Every entered shard is notified of the
    /// eviction, so none may enter after it.
    fn admits(&self, shard: usize) -> bool {
        let mut record = locked(&self.0);
        if !record.retired {
            debug_assert!(!record.shards.contains(&shard), "a shard joins once");
            record.shards.push(shard);
        }
        !record.retired
    }

    pub(super) fn is_retired(&self) -> bool {
        locked(&self.0).retired
    }

    fn forget(&self, name: &str, bonds: &mut BTreeMap<Box<str>, Self>) {
        let is_this = |known: &Self| Arc::ptr_eq(&known.0, &self.0);
        if bonds.get(name).is_some_and(is_this) {
            bonds.remove(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shard_that_joins_an_evicted_group_joins_another_one() {
        let ledger = GroupLedger::new(2);
        let first = ledger.join("g", 0);
        assert!(ledger.retire("g", &first, 0, 0));
        assert!(!first.admits(1), "no notice would make it drop its part");
        let second = ledger.join("g", 1);
        assert!(!Arc::ptr_eq(&first.0, &second.0) && !second.is_retired());
        assert!(ledger.retire("g", &second, 0, 0));
        assert_eq!(ledger.take_post(1), ["g".into()]);
    }
}
