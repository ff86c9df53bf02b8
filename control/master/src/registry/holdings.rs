//! Agreeing with a client on what it lends. Calls overtake each other and answers are lost, so the
//! two lists may differ.
//! Invariant: the client's list decides, except about what it asked to mount after it had made the
//! list.

use std::collections::BTreeSet;
use std::sync::Arc;

use perigee_allocator::Extent;

use super::held_segments::ListedSegments;
use super::{ClientState, Registry};
use crate::segment::SegmentEvent;

impl Registry {
    /// Notes that a client's mount request of this number named segments; without a number none of
    /// them is ever unmounted for being missing from a list.
    pub fn number_mounts(&mut self, client: u128, segments: &[u128], number: u64) {
        for id in segments {
            let index = self.index_by_id.get(id);
            let mounted = index.and_then(|index| self.segments.get_mut(index));
            if let Some(mounted) = mounted.filter(|mounted| mounted.spec.client == client) {
                mounted.mount_number = mounted.mount_number.max(number);
            }
        }
    }

    /// Tells the shards how much of each segment its owner has memory for, where that has changed.
    fn note_usable(&mut self, client: u128, holdings: &ListedSegments<'_>) {
        for (at, id) in holdings.segments.iter().enumerate() {
            let index = self.index_by_id.get(id).copied();
            let Some(index) = index else {
                continue;
            };
            let mounted = self.segments.get_mut(&index);
            let Some(mounted) = mounted.filter(|mounted| mounted.spec.client == client) else {
                continue;
            };
            let whole = mounted.spec.bytes;
            let bytes = holdings.usable_bytes.get(at).map_or(whole, |it| whole.min(*it));
            if bytes != mounted.usable_bytes {
                mounted.usable_bytes = bytes;
                self.events.push(SegmentEvent::Usable { index, bytes });
            }
            let named = holdings.unbacked.iter().filter(|(position, _)| *position as usize == at);
            let unbacked = in_order(named.map(|(_, range)| *range), whole);
            if unbacked != *mounted.unbacked {
                mounted.unbacked = unbacked.into();
                let ranges = Arc::clone(&mounted.unbacked);
                self.events.push(SegmentEvent::Unbacked { index, ranges });
            }
        }
    }

    /// Unmounts what a known client does not lend any more. It must mount again if it lends what is
    /// not mounted.
    pub fn agree(&mut self, client: u128, holdings: &ListedSegments<'_>) -> ClientState {
        let Some(known) = self.clients.get(&client) else {
            return ClientState::NeedRemount;
        };
        let listed: BTreeSet<u128> = holdings.segments.iter().copied().collect();
        let is_stray = |index: &&u32| {
            self.segments.get(index).is_some_and(|mounted| {
                (1..=holdings.mounts).contains(&mounted.mount_number)
                    && mounted.drain_end_ms.is_none()
                    && !listed.contains(&mounted.spec.id)
            })
        };
        let strays: Vec<u32> = known.segments.iter().filter(is_stray).copied().collect();
        for index in strays {
            self.forget_segment(index);
        }
        self.note_usable(client, holdings);
        let is_mounted = |id| self.index_by_id.contains_key(id);
        match listed.iter().all(is_mounted) {
            true => ClientState::Ok,
            false => ClientState::NeedRemount,
        }
    }
}

/// Those of some ranges that lie in a segment of `bytes` bytes and above the ones before.
fn in_order(ranges: impl Iterator<Item = Extent>, bytes: u64) -> Vec<Extent> {
    let mut end = 0;
    let mut kept: Vec<Extent> = Vec::new();
    for range in ranges {
        let range_end = range.end().filter(|range_end| *range_end <= bytes && range.bytes > 0);
        if let Some(range_end) = range_end.filter(|_| range.offset >= end) {
            kept.push(range);
            end = range_end;
        }
    }
    kept
}
