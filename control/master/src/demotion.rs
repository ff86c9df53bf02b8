//! Demotions under way: objects whose bytes go from memory to a disk of the same owner before they
//! are evicted.
//! Invariant: an object has one demotion at a time, and no more are under way than the limits
//! allow.

use std::collections::{BTreeMap, BTreeSet};

use crate::tenant::{SHARED, TenantLane, TenantNumber};

/// A replica in memory on its way to a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Demotion {
    /// Who writes: the owner of the memory and of the disk.
    pub(crate) client: u128,
    /// Number of the disk.
    pub(crate) disk: u32,
    /// The complete replica that is copied.
    pub(crate) source: u32,
    /// Segment of the source, and who pays for it.
    pub(crate) lane: TenantLane,
    /// Generation of the source, which the copy keeps; names the demotion.
    pub(crate) generation: u64,
    /// Bytes that the source takes in its segment.
    pub(crate) bytes: u64,
    /// The source was next to be evicted.
    pub(crate) is_victim: bool,
    /// Stamp of the object when it was chosen.
    pub(crate) stamp: u64,
    /// The owner has it; it may write from now on.
    pub(crate) is_taken: bool,
    /// When it is given up.
    pub(crate) deadline_ms: u64,
    /// Its place among those that wait; given when it begins.
    pub(crate) order: u64,
}

impl Demotion {
    /// A demotion that waits for its owner.
    pub(crate) fn waiting(client: u128, disk: u32, source: u32, deadline_ms: u64) -> Self {
        Self {
            client,
            disk,
            source,
            lane: TenantLane::shared(0),
            generation: 0,
            bytes: 0,
            is_victim: false,
            stamp: 0,
            is_taken: false,
            deadline_ms,
            order: 0,
        }
    }
}

/// The demotions of a shard.
#[derive(Debug, Default)]
pub(crate) struct Demotions {
    by_object: BTreeMap<u32, Demotion>,
    /// Objects whose demotion waits for its owner, in the order in which they were chosen.
    waiting: BTreeMap<(u128, u64), u32>,
    by_deadline: BTreeSet<(u64, u32)>,
    /// All of them by lane: those that wait for their owner and then the others, each in the order
    /// in which they were chosen.
    by_lane: BTreeMap<PlaceInLane, u32>,
    /// Bytes of the sources, by segment.
    bytes_of_segment: BTreeMap<u32, u64>,
    /// Bytes of the sources of each tenant.
    bytes_of_tenant: BTreeMap<TenantNumber, u64>,
    begun: u64,
}

impl Demotions {
    /// A demotion begins, behind all that wait.
    pub(crate) fn begin(&mut self, object: u32, demotion: Demotion) {
        debug_assert!(!demotion.is_taken, "its owner does not know of it yet");
        self.begun += 1;
        let demotion = Demotion { order: self.begun, ..demotion };
        self.waiting.insert((demotion.client, demotion.order), object);
        self.by_deadline.insert((demotion.deadline_ms, object));
        self.by_lane.insert(place_of(&demotion), object);
        *self.bytes_of_segment.entry(demotion.lane.segment).or_default() += demotion.bytes;
        if demotion.lane.tenant != SHARED {
            *self.bytes_of_tenant.entry(demotion.lane.tenant).or_default() += demotion.bytes;
        }
        let before = self.by_object.insert(object, demotion);
        debug_assert!(before.is_none(), "one demotion per object");
    }

    pub(crate) fn of(&self, object: u32) -> Option<&Demotion> {
        self.by_object.get(&object)
    }

    /// A demotion ends, however it does.
    pub(crate) fn end(&mut self, object: u32) -> Option<Demotion> {
        let ended = self.by_object.remove(&object)?;
        self.waiting.remove(&(ended.client, ended.order));
        self.by_deadline.remove(&(ended.deadline_ms, object));
        self.by_lane.remove(&place_of(&ended));
        take_off(&mut self.bytes_of_segment, ended.lane.segment, ended.bytes);
        if ended.lane.tenant != SHARED {
            take_off(&mut self.bytes_of_tenant, ended.lane.tenant, ended.bytes);
        }
        Some(ended)
    }

    /// Gives a client the one that has waited longest for it, to be done by `deadline_ms`.
    pub(crate) fn take(&mut self, client: u128, deadline_ms: u64) -> Option<(u32, Demotion)> {
        let mut own = self.waiting.range((client, 0)..=(client, u64::MAX));
        let (&name, &object) = own.next()?;
        self.waiting.remove(&name);
        let demotion = self.by_object.get_mut(&object)?;
        self.by_deadline.remove(&(demotion.deadline_ms, object));
        self.by_deadline.insert((deadline_ms, object));
        self.by_lane.remove(&place_of(demotion));
        demotion.is_taken = true;
        demotion.deadline_ms = deadline_ms;
        self.by_lane.insert(place_of(demotion), object);
        Some((object, *demotion))
    }

    /// Whether one waits for a client.
    pub(crate) fn is_awaited(&self, client: u128) -> bool {
        self.waiting.range((client, 0)..=(client, u64::MAX)).next().is_some()
    }

    /// An object whose demotion should have ended by now.
    pub(crate) fn overdue(&self, now_ms: u64) -> Option<u32> {
        let &(deadline_ms, object) = self.by_deadline.first()?;
        (deadline_ms <= now_ms).then_some(object)
    }

    /// Objects of a lane that are on their way, in the order in which they are to be given up: what
    /// its owner does not know of first.
    pub(crate) fn of_lane(&self, lane: TenantLane) -> impl Iterator<Item = u32> {
        let TenantLane { segment, tenant } = lane;
        let (first, last) = ((segment, tenant, false, 0), (segment, tenant, true, u64::MAX));
        self.by_lane.range(first..=last).map(|(_, object)| *object)
    }

    /// Number of demotions.
    pub(crate) fn len(&self) -> usize {
        self.by_object.len()
    }

    /// Bytes of a segment that are on their way.
    pub(crate) fn bytes_of(&self, segment: u32) -> u64 {
        self.bytes_of_segment.get(&segment).copied().unwrap_or_default()
    }

    /// Bytes of all segments that are on their way.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes_of_segment.values().sum()
    }

    /// Bytes of a tenant that are on their way.
    pub(crate) fn bytes_of_tenant(&self, tenant: TenantNumber) -> u64 {
        self.bytes_of_tenant.get(&tenant).copied().unwrap_or_default()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Demotion)> {
        self.by_object.iter().map(|(object, demotion)| (*object, demotion))
    }

    /// Panics unless the orders and the counts agree with the demotions.
    pub(crate) fn check(&self) {
        let mut bytes_of: BTreeMap<u32, u64> = BTreeMap::new();
        let mut bytes_of_tenant: BTreeMap<TenantNumber, u64> = BTreeMap::new();
        let mut waiting = 0;
        for (object, demotion) in self.iter() {
            let deadline = (demotion.deadline_ms, object);
            assert!(self.by_deadline.contains(&deadline), "{object} ends");
            assert_eq!(self.by_lane.get(&place_of(demotion)), Some(&object));
            *bytes_of.entry(demotion.lane.segment).or_default() += demotion.bytes;
            *bytes_of_tenant.entry(demotion.lane.tenant).or_default() += demotion.bytes;
            if !demotion.is_taken {
                let name = (demotion.client, demotion.order);
                assert_eq!(self.waiting.get(&name), Some(&object));
                waiting += 1;
            }
        }
        assert_eq!(self.waiting.len(), waiting);
        assert_eq!(self.by_deadline.len(), self.by_object.len());
        assert_eq!(self.by_lane.len(), self.by_object.len());
        assert_eq!(self.bytes_of_segment, bytes_of);
        bytes_of_tenant.remove(&SHARED);
        assert_eq!(self.bytes_of_tenant, bytes_of_tenant);
    }
}

/// Segment and tenant, whether its owner has it, and its number.
type PlaceInLane = (u32, TenantNumber, bool, u64);

fn place_of(demotion: &Demotion) -> PlaceInLane {
    let TenantLane { segment, tenant } = demotion.lane;
    (segment, tenant, demotion.is_taken, demotion.order)
}

fn take_off<K: Ord>(sums: &mut BTreeMap<K, u64>, of: K, bytes: u64) {
    let sum = sums.get_mut(&of);
    debug_assert!(sum.is_some(), "what ends was counted");
    if let Some(sum) = sum {
        *sum -= bytes;
        if *sum == 0 {
            sums.remove(&of);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(client: u128, bytes: u64) -> Demotion {
        Demotion {
            lane: TenantLane { segment: 3, tenant: 2 },
            bytes,
            ..Demotion::waiting(client, 9, 0, 50)
        }
    }

    #[test]
    fn a_client_takes_its_own_in_the_order_in_which_they_were_chosen() {
        let mut demotions = Demotions::default();
        for (object, client) in [(5, 7), (2, 7), (4, 8)] {
            demotions.begin(object, waiting(client, 10));
            demotions.check();
        }
        let taken = |demotions: &mut Demotions| demotions.take(7, 90).map(|(object, _)| object);
        assert_eq!((taken(&mut demotions), taken(&mut demotions)), (Some(5), Some(2)));
        assert_eq!(taken(&mut demotions), None);
        demotions.check();
        assert_eq!((demotions.overdue(60), demotions.len()), (Some(4), 3));
        demotions.end(4);
        assert_eq!((demotions.overdue(60), demotions.overdue(90)), (None, Some(2)));
    }

    #[test]
    fn bytes_count_until_the_demotion_ends() {
        let mut demotions = Demotions::default();
        demotions.begin(1, waiting(7, 10));
        demotions.begin(2, waiting(7, 20));
        assert_eq!((demotions.bytes_of(3), demotions.bytes_of(4)), (30, 0));
        assert_eq!((demotions.bytes_of_tenant(2), demotions.bytes_of_tenant(3)), (30, 0));
        demotions.take(7, 90);
        demotions.end(1);
        assert_eq!((demotions.bytes_of(3), demotions.end(1)), (20, None));
        demotions.end(2);
        demotions.check();
        assert_eq!((demotions.bytes_of(3), demotions.len()), (0, 0));
    }
}
