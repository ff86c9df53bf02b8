//! The least valuable of some lists.
//! Invariant: what a lease or a member on another shard keeps is passed over.

use crate::list_name::{Class, LeasePhase, ListName, PLAIN};
use crate::policy::ObjectKind;
use crate::recency::Recency;
use crate::stored::StoredObjects;
use crate::tenant::TenantLane;
use crate::victim::Victim;
use crate::victim_run::LeastLists;

use super::EvictionOrder;

/// The class of what is ready to go, whatever it was.
const READY_CLASS: Class = Class::Plain(ObjectKind::at(0));

impl EvictionOrder {
    /// The next of what is not pinned, and the lists that have it and the one after it. What was
    /// probed is left out, or goes like the rest.
    pub(super) fn two_least(
        &self,
        stored: &StoredObjects,
        lane: TenantLane,
        due: u64,
        break_probes: bool,
    ) -> Option<(Victim, LeastLists)> {
        let lists = stored.replicas.lists(lane)?;
        let (mut least, mut second) = (None, None);
        for list in lists.filled(PLAIN) {
            let Some(found) = self.oldest_in(stored, lists, list, due, break_probes) else {
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

    /// The oldest of a class that was touched before `due` and whose leases have ended, or whose
    /// read lease has.
    pub(super) fn oldest_of(
        &self,
        stored: &StoredObjects,
        lists: &Recency,
        class: Class,
        due: u64,
        break_probes: bool,
    ) -> Option<Victim> {
        let oldest = [LeasePhase::Free, LeasePhase::Probed, LeasePhase::Read]
            .into_iter()
            .filter_map(|phase| {
                self.oldest_in(stored, lists, ListName::Evictable(class, phase), due, break_probes)
            });
        oldest.min()
    }

    /// As `oldest_of`, in one list.
    pub(super) fn oldest_in(
        &self,
        stored: &StoredObjects,
        lists: &Recency,
        list: ListName,
        due: u64,
        break_probes: bool,
    ) -> Option<Victim> {
        let replica = lists.oldest(list);
        let object = stored.keys.get(stored.replicas.get(replica)?.object)?;
        let touched = stored.groups.touched(object);
        let probed = touched.probe_end_ms > stored.clock.now_ms();
        let is_held = touched.read_end_ms > stored.clock.now_ms() || touched.stamp >= due;
        if is_held || (probed && !break_probes) || stored.groups.is_held_elsewhere(object.group) {
            return None;
        }
        let class = match list {
            ListName::Evictable(class, _) => class,
            _ => READY_CLASS,
        };
        let rank = u8::from(probed) + 2 * u8::from(class == Class::Pinned);
        let age = stored.clock.since(touched.stamp);
        let worth = match class {
            Class::Plain(kind) => self.policy.worth(kind, age),
            Class::Pinned => u64::MAX - age,
        };
        Some(Victim { rank, worth, class, replica })
    }

    /// The lists of a segment whose replicas may go, if no lease keeps them.
    pub(crate) fn lists_to_lose(&self, stored: &StoredObjects) -> impl Iterator<Item = ListName> {
        let pinned = self.evict_soft_pinned.then_some(Class::Pinned);
        let classes = Class::plain().chain(pinned);
        let phases = [LeasePhase::Free, LeasePhase::Probed, LeasePhase::Read];
        let others = classes.flat_map(move |class| phases.map(|it| ListName::Evictable(class, it)));
        let extra = (stored.extras > 0).then_some(ListName::Extra);
        extra.into_iter().chain([ListName::Ready]).chain(others)
    }
}
