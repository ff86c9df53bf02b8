//! The last demotions of a client that leaves: all that its memory alone has, most worth first.
//! Invariant: nothing is chosen before the whole memory was looked at, and one call looks at a
//! bounded part of it.

use crate::disk_wish::DiskWish;
use crate::eviction_order::EvictionOrder;
use crate::leaving::{LastDemotion, LeavingClient};
use crate::limits::LAST_LOOK_REPLICAS;
use crate::list_name::{Class, ListName};
use crate::object::Flags;
use crate::read_view::ReadView;

use super::DiskTier;

impl DiskTier {
    /// Which disk is to have a replica, if it is still there and has no copy.
    pub(crate) fn last_wish(&self, view: ReadView<'_>, next: &LastDemotion) -> Option<DiskWish> {
        let replica = view.stored.replicas.get(next.replica)?;
        let is_same = replica.generation == next.generation && !replica.is_on_disk();
        let object = replica.object;
        let is_free = is_same
            && !view.stored.keys.get(object)?.flags.has(Flags::DEMOTING)
            && view
                .stored
                .replicas
                .chain(view.stored.keys[object].first)
                .any(|id| id == next.replica);
        is_free.then(|| self.wish(view, next.replica))
    }

    /// Goes on looking through a client's memory; whether all of it was looked at.
    pub(crate) fn look_through(
        &self,
        view: ReadView<'_>,
        order: &EvictionOrder,
        leaving: &mut LeavingClient,
        client: u128,
    ) -> bool {
        let bound = view.stored.replicas.bound();
        let end = bound.min(leaving.cursor.saturating_add(LAST_LOOK_REPLICAS));
        for id in leaving.cursor..end {
            if let Some(last_demotion) = self.last_demotion(view, order, id, client) {
                leaving.push(last_demotion);
            }
        }
        leaving.cursor = end.max(leaving.cursor);
        leaving.cursor >= bound
    }

    pub(super) fn last_demotion(
        &self,
        view: ReadView<'_>,
        order: &EvictionOrder,
        id: u32,
        client: u128,
    ) -> Option<LastDemotion> {
        let replica = view.stored.replicas.get(id)?;
        let (object, generation) = (replica.object, replica.generation);
        if replica.is_on_disk() || view.carrier_of(id) != client || !view.is_readable(id) {
            return None;
        }
        let record = view.stored.keys.get(object).filter(|_| self.is_wanted(view, id))?;
        let age = view.stored.clock.since(view.stored.groups.touched(record).stamp);
        let is_pinned = record.flags.has(Flags::PINNED);
        let (rank, worth) = match view.stored.list_of(object) {
            _ if is_pinned => (2, u64::MAX - age),
            ListName::Evictable(Class::Pinned, _) => (1, u64::MAX - age),
            ListName::Evictable(Class::Plain(kind), _) => (0, order.policy.worth(kind, age)),
            _ => (0, order.policy.worth(record.kind(), age)),
        };
        Some(LastDemotion { rank, worth, replica: id, generation })
    }
}
