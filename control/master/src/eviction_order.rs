//! The order of eviction: what goes next in the lists of a segment.
//! Invariant: a victim's read lease has ended, and it is neither pinned hard nor unfinished; for
//! the watermark alone nothing goes that is newer than what readers hold, because that would have
//! gone first.

mod least;
mod touch;
mod way;

#[cfg(test)]
mod tests;

use crate::list_name::{Class, ListName};
use crate::policy::{EvictionPolicy, KeyAccess, ObjectKind};
use crate::settings::ShardSettings;
use crate::slab::NONE;
use crate::stored::StoredObjects;
use crate::tenant::TenantLane;
use crate::victim::{EvictionReason, Victim};
use crate::victim_run::VictimRun;

use way::{due_stamp, is_fresh, read_classes, sort_out_groups, sort_out_readers};

#[derive(Debug)]
pub(crate) struct EvictionOrder {
    pub(crate) policy: Box<dyn EvictionPolicy>,
    run: Option<VictimRun>,
    evict_soft_pinned: bool,
    /// No other shard has members of groups.
    is_alone: bool,
}

impl EvictionOrder {
    pub(crate) fn new(settings: &ShardSettings) -> Self {
        Self {
            policy: settings.policy.build(),
            run: None,
            evict_soft_pinned: settings.evict_soft_pinned,
            is_alone: settings.count == 1,
        }
    }

    pub(crate) fn next(
        &mut self,
        stored: &mut StoredObjects,
        lane: TenantLane,
        need: EvictionReason,
    ) -> Option<Victim> {
        if let Some(victim) = self.next_of_run(stored, lane, need) {
            return Some(victim);
        }
        if !self.is_alone {
            sort_out_groups(stored, lane);
        }
        for class in read_classes(stored, lane) {
            sort_out_readers(stored, lane, class);
        }
        let due = due_stamp(stored, lane, need);
        let kept = self.two_least(stored, lane, due, false);
        let break_probes =
            need.is_put() && kept.is_none_or(|(victim, _)| is_fresh(stored, victim.replica));
        let least = if break_probes { self.two_least(stored, lane, due, true) } else { kept };
        if need.is_put() {
            let begin =
                |(_, lists)| VictimRun { call: stored.clock.call(), lane, lists, break_probes };
            self.run = least.map(begin);
        }
        least.map(|(victim, _)| victim).or_else(|| self.pinned(stored, lane, due, need))
    }

    /// The oldest that is ready to go.
    pub(crate) fn ready(
        &self,
        stored: &mut StoredObjects,
        lane: TenantLane,
        need: EvictionReason,
    ) -> Option<Victim> {
        if stored.replicas.oldest(lane, ListName::Ready) == NONE {
            return None;
        }
        if !self.is_alone {
            sort_out_groups(stored, lane);
        }
        let due = due_stamp(stored, lane, need);
        let lists = stored.replicas.lists(lane)?;
        self.oldest_in(stored, lists, ListName::Ready, due, need.is_put())
    }

    /// The replica made for heat that goes next in a lane. The space of one that is read comes free
    /// only with its lease, so that is of no use to a put.
    pub(crate) fn extra(
        &self,
        stored: &StoredObjects,
        lane: TenantLane,
        need: EvictionReason,
    ) -> Option<Victim> {
        if stored.extras == 0 {
            return None;
        }
        let replica = stored.replicas.oldest(lane, ListName::Extra);
        let object = stored.keys.get(stored.replicas.get(replica)?.object)?;
        let is_read = stored.groups.touched(object).read_end_ms > stored.clock.now_ms();
        (!is_read || !need.is_put())
            .then_some(Victim::first(Class::Plain(ObjectKind::at(0)), replica))
    }

    fn pinned(
        &self,
        stored: &mut StoredObjects,
        lane: TenantLane,
        due: u64,
        need: EvictionReason,
    ) -> Option<Victim> {
        if !self.evict_soft_pinned {
            return None;
        }
        sort_out_readers(stored, lane, Class::Pinned);
        let lists = stored.replicas.lists(lane)?;
        self.oldest_of(stored, lists, Class::Pinned, due, false).or_else(|| {
            need.is_put().then(|| self.oldest_of(stored, lists, Class::Pinned, due, true)).flatten()
        })
    }

    /// The next victim of a lane for a put, if it is known without a look at all lists: the least
    /// of the two that were least when this call looked at all.
    fn next_of_run(
        &self,
        stored: &StoredObjects,
        lane: TenantLane,
        need: EvictionReason,
    ) -> Option<Victim> {
        let run = self
            .run
            .filter(|run| need.is_put() && (run.call, run.lane) == (stored.clock.call(), lane))?;
        let lists = stored.replicas.lists(lane)?;
        let oldest = |list| self.oldest_in(stored, lists, list, u64::MAX, run.break_probes);
        let victim = oldest(run.lists.list)?;
        let goes_first = match run.lists.second {
            None => true,
            Some(second) => victim.goes_before(&oldest(second)?),
        };
        let is_known = run.break_probes || !is_fresh(stored, victim.replica);
        (goes_first && is_known).then_some(victim)
    }

    /// Tells the policy of an access to an object that is of this kind from now on, and whether the
    /// shard had it.
    pub(crate) fn note_access(
        &mut self,
        stored: &StoredObjects,
        object: u32,
        kind: ObjectKind,
        hit: bool,
    ) {
        self.note_access_of(stored, stored.keys[object].hash(), kind, hit);
    }

    /// As `note_access`, of what a key with this hash has.
    pub(crate) fn note_access_of(
        &mut self,
        stored: &StoredObjects,
        hash: u64,
        kind: ObjectKind,
        hit: bool,
    ) {
        let stamp = stored.clock.last();
        let access = KeyAccess { hash, kind, hit, stamp, call: stored.clock.call() };
        self.policy.accessed(access, stored.keys.len());
    }
}
