//! Packets that were held up in the network and arrive after their sender has given up, or is gone.
//! Invariant: like any packet they count only at the queue pair they were sent to, and only in
//! their turn.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::pair_state::QueuePairState;

use super::state::{FabricState, PostedRequest};
use super::transfer;

/// A request on its own.
#[derive(Debug)]
pub(super) struct Stray {
    from: u32,
    to: u32,
    /// Its place in the order of the queue pair that sent it.
    order: u64,
    /// `None` for a read, which changes nothing over there but takes its turn.
    data: Option<Vec<u8>>,
    remote: (u64, u32),
}

/// All of them, by when they arrive.
#[derive(Debug, Default)]
pub(super) struct Strays {
    due: BTreeMap<(Duration, u64), Stray>,
}

impl Strays {
    pub(super) fn add(&mut self, at: Duration, serial: u64, stray: Option<Stray>) {
        if let Some(stray) = stray {
            self.due.insert((at, serial), stray);
        }
    }

    pub(super) fn next_due(&self) -> Option<Duration> {
        self.due.first_key_value().map(|((at, _), _)| *at)
    }

    pub(super) fn take_due(&mut self, now: Duration) -> Option<Stray> {
        let due = self.due.first_entry().filter(|entry| entry.key().0 <= now)?;
        Some(due.remove())
    }
}

impl Stray {
    /// The packets of a request that queue pair `from` has just sent.
    pub(super) fn of(state: &FabricState, from: u32, work: &PostedRequest) -> Option<Stray> {
        let pair = state.pairs.get(&from)?;
        Some(Stray {
            from,
            to: pair.peer?.0.queue_pair,
            order: work.order,
            data: transfer::payload(state, pair, &work.local),
            remote: (work.remote_address, work.remote_key),
        })
    }

    pub(super) fn arrive(&self, state: &mut FabricState) {
        let Some(peer) = state.pairs.get(&self.to) else {
            return;
        };
        let joined = peer.state == QueuePairState::Connected
            && peer.peer.is_some_and(|(back, _)| back.queue_pair == self.from);
        // One that comes twice, or before its turn, is dropped.
        let expected = peer.received == self.order;
        if !joined || !expected {
            return;
        }
        let landed = match &self.data {
            Some(data) => transfer::land(state, peer, data, self.remote),
            None => true,
        };
        if let Some(peer) = state.pairs.get_mut(&self.to).filter(|_| landed) {
            peer.received += 1;
        }
    }
}
