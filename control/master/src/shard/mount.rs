//! Segments come and go.
//! Invariant: from the unmount on no replica of the segment is returned; forgetting them is the ticks' work.

use std::sync::Arc;

use crate::segment::{SegmentEvent, SegmentSpec};
use crate::share::{Share, ShareState};
use crate::slab::NONE;

use super::Shard;

impl Shard {
    /// Applies what the registry decided; to be called for each event, in order.
    pub fn apply(&mut self, now_ms: u64, event: &SegmentEvent) {
        self.begin(now_ms);
        match event {
            SegmentEvent::Mounted { index, spec } => {
                let (index_here, count) = (self.settings.index, self.settings.count);
                let space = Share::first_part(spec.bytes, index_here, count);
                let share = Share::new(Arc::clone(spec), space);
                self.add_share(*index, share);
            }
            SegmentEvent::Draining { index } => self.set_state(*index, ShareState::Draining),
            SegmentEvent::Resumed { index } => self.resume(*index),
            SegmentEvent::Usable { index, bytes } => {
                if let Some(share) = self.share_mut(*index) {
                    share.segment_usable_bytes = *bytes;
                }
            }
            SegmentEvent::Unmounted { index } => self.unmount(*index),
        }
    }

    /// What the registry announced about a mounted segment.
    pub fn segment(&self, index: u32) -> Option<&Arc<SegmentSpec>> {
        self.share(index)
            .filter(|share| share.is_readable())
            .map(|share| &share.spec)
    }

    /// Adds a share under a number that was never used before; a used one is left as it is.
    pub(super) fn add_share(&mut self, segment: u32, share: Share) -> bool {
        let slot = segment as usize;
        if self.shares.len() <= slot {
            self.shares.resize_with(slot + 1, || None);
        }
        if self.shares[slot].is_some() {
            return false;
        }
        self.shares[slot] = Some(Box::new(share));
        debug_assert!(!self.live.contains(&segment));
        self.live.push(segment);
        self.live.sort_unstable();
        true
    }

    fn unmount(&mut self, segment: u32) {
        if self.is_readable(segment) {
            self.set_state(segment, ShareState::Gone);
            debug_assert!(!self.gone.contains(&segment));
            self.gone.push(segment);
        }
    }

    fn set_state(&mut self, segment: u32, state: ShareState) {
        if let Some(share) = self.share_mut(segment).filter(|share| share.is_readable()) {
            share.state = state;
            self.live.retain(|live| *live != segment);
        }
    }

    fn resume(&mut self, segment: u32) {
        let share = self.share_mut(segment);
        if let Some(share) = share.filter(|share| share.state == ShareState::Draining) {
            share.state = ShareState::Live;
            debug_assert!(!self.live.contains(&segment));
            self.live.push(segment);
            self.live.sort_unstable();
        }
    }

    /// Forgets up to `budget` replicas of unmounted segments; returns what is left of the budget.
    pub(super) fn forget_gone(&mut self, mut budget: usize) -> usize {
        while let Some(&segment) = self.gone.last() {
            while let Some(replica) = self.any_replica(segment) {
                if budget == 0 {
                    return 0;
                }
                budget -= 1;
                self.lose_replica(replica);
                debug_assert!(self.replicas.get(replica).is_none(), "each step ends one");
            }
            self.shares[segment as usize] = None;
            self.gone.pop();
        }
        budget
    }

    fn any_replica(&self, segment: u32) -> Option<u32> {
        let any = self.share(segment)?.recency.any();
        (any != NONE).then_some(any)
    }
}
