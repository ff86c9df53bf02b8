//! Who is evicted next in a segment.
//! Invariant: a victim's read lease has ended, and it is neither pinned hard nor unfinished; for
//! the watermark alone nothing goes that is newer than what readers hold, because that would have
//! gone first.

use crate::limits::{COLD_AGE_FACTOR, FRESH_MS, GROUP_STEPS_MAX, VICTIM_STEPS_MAX};
use crate::list_name::{Class, LeasePhase, ListName, PLAIN, PLAIN_READ};
use crate::policy::ObjectKind;
use crate::recency::Recency;
use crate::slab::NONE;
use crate::tenant::{SHARED, TenantLane, TenantNumber};
use crate::victim_run::{LeastLists, VictimRun};

use super::KeyShard;

/// The class of what is ready to go, whatever it was.
const READY_CLASS: Class = Class::Plain(ObjectKind::at(0));

/// A replica that may be evicted. Smaller is evicted sooner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Victim {
    /// What evicting it breaks: 0 nothing, 1 a probe lease, 2 a soft pin, 3 both.
    rank: u8,
    /// What it is worth keeping.
    worth: u64,
    class: Class,
    pub(super) replica: u32,
}

/// How badly space is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EvictionReason {
    /// The watermark is exceeded: no lease is broken and nothing fresh goes.
    Watermark,
    /// A put of this tenant fails otherwise: probe leases may be broken.
    Put(TenantNumber),
    /// Nothing goes yet: what would go next is to have a copy on a disk by then.
    LookAhead,
}

impl Victim {
    /// Whether this one of the two goes, if nothing but its worth counts.
    fn goes_before(&self, other: &Self) -> bool {
        (self.worth, self.class, self.replica) < (other.worth, other.class, other.replica)
    }

    /// One that goes before all others.
    pub(super) fn first(class: Class, replica: u32) -> Self {
        Self { rank: 0, worth: 0, class, replica }
    }
}

impl EvictionReason {
    /// Whether a put fails otherwise.
    pub(super) fn is_put(self) -> bool {
        matches!(self, Self::Put(_))
    }

    /// The tenant whose own objects may go whatever is guaranteed to it.
    pub(super) fn writer(self) -> TenantNumber {
        match self {
            Self::Put(writer) => writer,
            Self::Watermark | Self::LookAhead => SHARED,
        }
    }
}

impl KeyShard {
    /// The replica of a segment to evict next, if any may be evicted: one that is ready to go, or
    /// the next in order unless a disk is to have a copy of it first.
    pub(super) fn victim(&mut self, segment: u32, need: EvictionReason) -> Option<Victim> {
        if self.quotas.is_none() {
            return self.victim_in(TenantLane::shared(segment), need);
        }
        if self.stored.extras > 0
            && let Some(extra) = self.least_of(segment, need, Self::extra_victim)
        {
            return Some(extra);
        }
        if let Some(ready) = self.least_of(segment, need, Self::ready_victim) {
            return Some(ready);
        }
        let next = self.least_of(segment, need, Self::next_victim_in)?;
        self.may_lose(next.replica, need).then_some(next)
    }

    /// As `victim`, of one tenant.
    pub(super) fn victim_in(&mut self, lane: TenantLane, need: EvictionReason) -> Option<Victim> {
        if let Some(extra) = self.extra_victim(lane, need) {
            return Some(extra);
        }
        if let Some(ready) = self.ready_victim(lane, need) {
            return Some(ready);
        }
        let next = self.next_victim_in(lane, need)?;
        self.may_lose(next.replica, need).then_some(next)
    }

    /// The oldest that is ready to go.
    pub(super) fn ready_victim(
        &mut self,
        lane: TenantLane,
        need: EvictionReason,
    ) -> Option<Victim> {
        if self.stored.replicas.oldest(lane, ListName::Ready) == NONE {
            return None;
        }
        self.sort_out_groups(lane);
        let due = self.due(lane, need);
        let lists = self.stored.replicas.lists(lane)?;
        self.oldest_in(lists, ListName::Ready, due, need.is_put())
    }

    /// The replica of a segment that is next in the order of eviction, wherever its bytes lie
    /// otherwise.
    pub(super) fn next_victim(&mut self, segment: u32, need: EvictionReason) -> Option<Victim> {
        match self.quotas {
            None => self.next_victim_in(TenantLane::shared(segment), need),
            Some(_) => self.least_of(segment, need, Self::next_victim_in),
        }
    }

    pub(super) fn next_victim_in(
        &mut self,
        lane: TenantLane,
        need: EvictionReason,
    ) -> Option<Victim> {
        if let Some(victim) = self.next_of_run(lane, need) {
            return Some(victim);
        }
        self.sort_out_groups(lane);
        for class in self.read_classes(lane) {
            self.sort_out_readers(lane, class);
        }
        let due = self.due(lane, need);
        let kept = self.two_least(lane, due, false);
        let break_probes =
            need.is_put() && kept.is_none_or(|(victim, _)| self.is_fresh(victim.replica));
        let least = if break_probes { self.two_least(lane, due, true) } else { kept };
        if need.is_put() {
            let begin = |(_, lists)| VictimRun {
                call: self.stored.clock.call(),
                lane,
                lists,
                break_probes,
            };
            self.victims = least.map(begin);
        }
        least.map(|(victim, _)| victim).or_else(|| self.pinned_victim(lane, due, need))
    }

    /// Whether a replica was touched a moment ago.
    fn is_fresh(&self, replica: u32) -> bool {
        let object = &self.stored.keys[self.stored.replicas[replica].object];
        self.stored.groups.touched(object).stamp >= self.settled()
    }

    /// The next victim of a lane for a put, if it is known without a look at all lists: the least
    /// of the two that were least when this call looked at all.
    fn next_of_run(&self, lane: TenantLane, need: EvictionReason) -> Option<Victim> {
        let run = self.victims.filter(|run| {
            need.is_put() && (run.call, run.lane) == (self.stored.clock.call(), lane)
        })?;
        let lists = self.stored.replicas.lists(lane)?;
        let oldest = |list| self.oldest_in(lists, list, u64::MAX, run.break_probes);
        let victim = oldest(run.lists.list)?;
        let goes_first = match run.lists.second {
            None => true,
            Some(second) => victim.goes_before(&oldest(second)?),
        };
        let is_known = run.break_probes || !self.is_fresh(victim.replica);
        (goes_first && is_known).then_some(victim)
    }

    /// Classes with replicas whose last lease was a reader's.
    fn read_classes(&self, lane: TenantLane) -> impl Iterator<Item = Class> + use<> {
        let lists = self.stored.replicas.lists(lane).map(|lists| lists.filled(PLAIN_READ));
        lists.into_iter().flatten().filter_map(|list| match list {
            ListName::Evictable(class, _) => Some(class),
            _ => None,
        })
    }

    /// Stamp that a victim's must be below.
    fn due(&self, lane: TenantLane, need: EvictionReason) -> u64 {
        match need {
            EvictionReason::Put(_) | EvictionReason::LookAhead => u64::MAX,
            EvictionReason::Watermark => {
                let settled = self.settled();
                self.oldest_read(lane).map_or(settled, |held| settled.min(held))
            }
        }
    }

    /// Stamp that everything has that was touched a moment ago, or a later one.
    fn settled(&self) -> u64 {
        self.stored.clock.stamp_before(self.stored.clock.now_ms().saturating_sub(FRESH_MS))
    }

    /// Stamp of the oldest object that a reader holds, as far as the ends of the lists tell.
    fn oldest_read(&self, lane: TenantLane) -> Option<u64> {
        let lists = self.stored.replicas.lists(lane)?;
        let held = lists.filled(PLAIN_READ).filter_map(|list| {
            let replica = lists.oldest(list);
            let object = self.stored.keys.get(self.stored.replicas.get(replica)?.object)?;
            let touched = self.stored.groups.touched(object);
            (touched.read_end_ms > self.stored.clock.now_ms()).then_some(touched.stamp)
        });
        held.min()
    }

    /// The next of what is not pinned, and the lists that have it and the one after it. What was
    /// probed is left out, or goes like the rest.
    fn two_least(
        &self,
        lane: TenantLane,
        due: u64,
        break_probes: bool,
    ) -> Option<(Victim, LeastLists)> {
        let lists = self.stored.replicas.lists(lane)?;
        let (mut least, mut second) = (None, None);
        for list in lists.filled(PLAIN) {
            let Some(found) = self.oldest_in(lists, list, due, break_probes) else {
                continue;
            };
            if least.is_none_or(|(victim, _)| found.goes_before(&victim)) {
                second = least.replace((found, list));
            } else if second.is_none_or(|(victim, _)| found.goes_before(&victim)) {
                second = Some((found, list));
            }
        }
        let (victim, list) = least?;
        Some((victim, LeastLists { list, second: second.map(|(_, list)| list) }))
    }

    fn pinned_victim(
        &mut self,
        lane: TenantLane,
        due: u64,
        need: EvictionReason,
    ) -> Option<Victim> {
        if !self.settings.evict_soft_pinned {
            return None;
        }
        self.sort_out_readers(lane, Class::Pinned);
        let lists = self.stored.replicas.lists(lane)?;
        self.oldest_of(lists, Class::Pinned, due, false).or_else(|| {
            need.is_put().then(|| self.oldest_of(lists, Class::Pinned, due, true)).flatten()
        })
    }

    /// How long the next victim of a segment has been idle, weighted by its class as all shards
    /// weight it; 0 if nothing may be evicted.
    pub(super) fn victim_idle_ms(&mut self, segment: u32, need: EvictionReason) -> u64 {
        let Some(victim) = self.victim(segment, need) else {
            return 0;
        };
        let object = &self.stored.keys[self.stored.replicas[victim.replica].object];
        let stamp = self.stored.groups.touched(object).stamp;
        let idle_ms = self.stored.clock.idle_ms(stamp);
        idle_ms.saturating_mul(weight(victim.class))
    }

    /// The oldest of a class that was touched before `due` and whose leases have ended, or whose
    /// read lease has.
    fn oldest_of(
        &self,
        lists: &Recency,
        class: Class,
        due: u64,
        break_probes: bool,
    ) -> Option<Victim> {
        let oldest =
            [LeasePhase::Free, LeasePhase::Probed, LeasePhase::Read].into_iter().filter_map(
                |phase| self.oldest_in(lists, ListName::Evictable(class, phase), due, break_probes),
            );
        oldest.min()
    }

    /// As `oldest_of`, in one list.
    fn oldest_in(
        &self,
        lists: &Recency,
        list: ListName,
        due: u64,
        break_probes: bool,
    ) -> Option<Victim> {
        let replica = lists.oldest(list);
        let object = self.stored.keys.get(self.stored.replicas.get(replica)?.object)?;
        let touched = self.stored.groups.touched(object);
        let probed = touched.probe_end_ms > self.stored.clock.now_ms();
        let is_held = touched.read_end_ms > self.stored.clock.now_ms() || touched.stamp >= due;
        if is_held || (probed && !break_probes) || self.is_held_elsewhere(object.group) {
            return None;
        }
        let class = match list {
            ListName::Evictable(class, _) => class,
            _ => READY_CLASS,
        };
        let rank = u8::from(probed) + 2 * u8::from(class == Class::Pinned);
        let age = self.stored.clock.since(touched.stamp);
        let worth = match class {
            Class::Plain(kind) => self.policy.worth(kind, age),
            Class::Pinned => u64::MAX - age,
        };
        Some(Victim { rank, worth, class, replica })
    }

    /// Free and evictable bytes of a segment for a put of a tenant, as far as they are needed for
    /// `bytes`: looks only at as many replicas as that takes.
    pub(super) fn room_bytes(&self, segment: u32, bytes: u64, writer: TenantNumber) -> u64 {
        let Some(share) = self.space.get(segment) else {
            return 0;
        };
        let free_bytes = share.free_bytes();
        match self.quotas {
            None => {
                free_bytes + self.evictable_bytes(TenantLane::shared(segment), bytes, free_bytes)
            }
            Some(_) => free_bytes + self.room_of_tenants(segment, bytes, free_bytes, writer),
        }
    }

    /// Bytes of a lane that may be evicted, as far as they are needed beside others for `bytes`.
    pub(super) fn evictable_bytes(&self, lane: TenantLane, bytes: u64, others: u64) -> u64 {
        let Some(lists) = self.stored.replicas.lists(lane) else {
            return 0;
        };
        let mut evictable_bytes = 0;
        let saves_first = self.saves_first(lane.segment);
        for list in self.lists_to_lose() {
            if others + evictable_bytes >= bytes {
                break;
            }
            let mut id = lists.oldest(list);
            while others + evictable_bytes < bytes && id != NONE {
                let replica = &self.stored.replicas[id];
                let object = &self.stored.keys[replica.object];
                let is_read =
                    self.stored.groups.touched(object).read_end_ms > self.stored.clock.now_ms();
                let is_first = matches!(list, ListName::Ready | ListName::Extra);
                let is_kept = saves_first && !is_first && self.is_disk_wanted(id);
                if is_read || is_kept {
                    break;
                }
                evictable_bytes += self.bytes_behind(id);
                id = replica.newer;
            }
        }
        evictable_bytes + self.revocable_bytes(lane, bytes, others + evictable_bytes)
    }

    /// The lists of a segment whose replicas may go, if no lease keeps them.
    fn lists_to_lose(&self) -> impl Iterator<Item = ListName> {
        let pinned = self.settings.evict_soft_pinned.then_some(Class::Pinned);
        let classes = Class::plain().chain(pinned);
        let phases = [LeasePhase::Free, LeasePhase::Probed, LeasePhase::Read];
        let others = classes.flat_map(move |class| phases.map(|it| ListName::Evictable(class, it)));
        let extra = (self.stored.extras > 0).then_some(ListName::Extra);
        extra.into_iter().chain([ListName::Ready]).chain(others)
    }

    /// Bytes that go with a replica: its own, or all of its group's in the segment unless a shard
    /// keeps the group.
    fn bytes_behind(&self, id: u32) -> u64 {
        let replica = &self.stored.replicas[id];
        let group = self.stored.groups.get(self.stored.keys[replica.object].group);
        let Some(group) = group.filter(|_| !replica.is_extra()) else {
            return replica.extent().bytes;
        };
        match group.may_go(self.stored.clock.now_ms()) {
            true => group.bytes_in(replica.segment),
            false => 0,
        }
    }

    pub(super) fn is_held_elsewhere(&self, group: u32) -> bool {
        let group = self.stored.groups.get(group);
        group.is_some_and(|group| group.is_held_elsewhere())
    }

    /// Moves groups out of the way that other shards have touched, pinned or begun to write since
    /// they were linked here.
    fn sort_out_groups(&mut self, lane: TenantLane) {
        if self.settings.count == 1 {
            return;
        }
        for list in ListName::evictable() {
            for _ in 0..GROUP_STEPS_MAX {
                let replica = self.stored.replicas.get(self.stored.replicas.oldest(lane, list));
                let object = replica.and_then(|it| self.stored.keys.get(it.object));
                let group = object.map_or(NONE, |it| it.group);
                let part = self.stored.groups.get(group);
                if !part.is_some_and(|it| it.is_outdated() || it.is_held_elsewhere()) {
                    break;
                }
                self.stored.look_again(group);
            }
        }
    }

    /// Moves replicas whose read lease has ended but whose probe lease runs out of the way of those
    /// behind them.
    fn sort_out_readers(&mut self, lane: TenantLane, class: Class) {
        let now_ms = self.stored.clock.now_ms();
        for _ in 0..VICTIM_STEPS_MAX {
            let id =
                self.stored.replicas.oldest(lane, ListName::Evictable(class, LeasePhase::Read));
            if id == NONE {
                return;
            }
            let object = &self.stored.keys[self.stored.replicas[id].object];
            let touched = self.stored.groups.touched(object);
            if touched.read_end_ms > now_ms || touched.probe_end_ms <= now_ms {
                return;
            }
            let probed = ListName::Evictable(class, LeasePhase::Probed);
            self.stored.replicas.relink(id, probed);
        }
    }
}

/// How many times as old a replica of a class counts beside those of other shards.
fn weight(class: Class) -> u64 {
    match class {
        Class::Plain(kind) if kind.reads() == 0 => COLD_AGE_FACTOR,
        Class::Plain(_) | Class::Pinned => 1,
    }
}
