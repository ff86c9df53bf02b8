//! Batches that wait for their peers to be looked up afresh.
//!
//! Looking a peer up waits for it, so each peer has a thread of its own while batches to it wait: a
//! silent peer delays only its own batches, and those with the least time left go first. The
//! invariant: a batch that waits here goes on, or fails with the reason.

use crate::error::EngineError;
use crate::limits::REPEAT_PEERS_MAX;
use perigee_mover::PeerError;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A batch whose peer has to be looked up.
pub(super) trait WaitingBatch: Debug + Send {
    /// The peer's segment.
    fn segment(&self) -> &str;

    /// By when it must be over, on the monotonic clock.
    fn due(&self) -> Duration;

    /// Looks the peer up and goes on.
    fn try_again(&self) -> Result<(), EngineError>;

    /// Fails for this reason.
    fn give_up(&self, reason: &EngineError);
}

/// Batches that wait for their peers to be looked up, by peer. A peer that is listed has a thread.
#[derive(Debug, Default)]
pub(super) struct Retries {
    waiting: Mutex<HashMap<String, PeerRetries>>,
}

/// What waits for one peer.
#[derive(Debug, Default)]
struct PeerRetries {
    /// By when they must be over, and the number of each.
    batches: BTreeMap<(Duration, u64), Box<dyn WaitingBatch>>,
    numbers: u64,
}

impl PeerRetries {
    fn push(&mut self, retry: Box<dyn WaitingBatch>) {
        self.numbers += 1;
        let is_new = self.batches.insert((retry.due(), self.numbers), retry).is_none();
        debug_assert!(is_new, "no batch is forgotten for another one");
    }

    fn give_up(self, reason: &EngineError) {
        let batches = self.batches.into_values();
        batches.for_each(|retry| retry.give_up(reason));
    }
}

impl Retries {
    /// Takes a batch; one too many is refused with an error.
    pub(super) fn push(self: &Arc<Self>, retry: Box<dyn WaitingBatch>) {
        let name = retry.segment().to_owned();
        let mut waiting = self.lock();
        if let Some(batches) = waiting.get_mut(&name) {
            return batches.push(retry);
        }
        if waiting.len() >= REPEAT_PEERS_MAX {
            drop(waiting);
            return retry.give_up(&EngineError::TooMany {
                what: "peers that are looked up again",
                limit: REPEAT_PEERS_MAX,
                remedy: "submit the batch again",
            });
        }
        waiting.entry(name.clone()).or_default().push(retry);
        drop(waiting);
        let (all, peer) = (self.clone(), name.clone());
        let builder = std::thread::Builder::new().name("perigee-repeat".to_owned());
        if let Err(error) = builder.spawn(move || all.work(&peer)) {
            let reason = EngineError::Start(error.to_string());
            let left = self.lock().remove(&name).unwrap_or_default();
            left.give_up(&reason);
        }
    }

    fn work(&self, peer: &str) {
        while let Some((retry, newest)) = self.next(peer) {
            let Err(reason) = retry.try_again() else {
                continue;
            };
            retry.give_up(&reason);
            if is_the_peers(&reason) {
                self.take_waiting(peer, newest).give_up(&reason);
            }
        }
    }

    /// The batch that has the least time left, and the number of the newest one that waits beside
    /// it.
    fn next(&self, peer: &str) -> Option<(Box<dyn WaitingBatch>, u64)> {
        let mut all = self.lock();
        let waiting = all.get_mut(peer)?;
        let newest = waiting.numbers;
        let Some((_, next)) = waiting.batches.pop_first() else {
            all.remove(peer);
            return None;
        };
        Some((next, newest))
    }

    /// Takes those that waited while the peer was looked up: asking once more for each would tell
    /// nothing new.
    fn take_waiting(&self, peer: &str, newest: u64) -> PeerRetries {
        let mut all = self.lock();
        let Some(waiting) = all.get_mut(peer) else {
            return PeerRetries::default();
        };
        let batches = std::mem::take(&mut waiting.batches).into_iter();
        let (gone, later) = batches.partition(|((_, number), _)| *number <= newest);
        waiting.batches = later;
        PeerRetries { batches: gone, numbers: 0 }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, PeerRetries>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether an error says the same of every batch to the peer, whatever it asks and however much
/// time it has.
fn is_the_peers(error: &EngineError) -> bool {
    use EngineError as E;
    matches!(
        error,
        E::Peer(PeerError::Unreachable { .. })
            | E::Resolve { .. }
            | E::Metadata(_)
            | E::Handshake(_)
            | E::Closed
    )
}
