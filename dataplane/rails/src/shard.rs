//! One shard of the rails: its queue pairs, one completion queue per device, and all that is under
//! way on them.
//!
//! It knows no executor and no clock: its driver calls [`RailShard::turn`] with the time, on one
//! thread. Production does so from a shard's poll loop, tests from a seeded simulation.

use crate::active_request::ActiveRequest;
use crate::addresses::RailAddresses;
use crate::bandwidth::Bandwidth;
use crate::descriptor::EndpointOffer;
use crate::endpoint::{Endpoint, PostOrder};
use crate::endpoints::Endpoints;
use crate::error::RailError;
use crate::joining::Joiner;
use crate::limits::{
    ACCEPTED_ENTRIES, COMPLETION_ENTRIES_MAX, REQUESTS_MAX, SEND_QUEUE_ENTRIES, SLICES_MAX,
};
use crate::peer::RailPeer;
use crate::rail::Rail;
use crate::report::RailCells;
use crate::slab::{KeyedSlab, SlabKey};
use crate::slice::{LanePath, RailSlice};
use crate::spray::SprayLane;
use crate::tuning::RailTuning;
use perigee_activity::{Direction, Route, Slot, SlotKey, page};
use perigee_verbs::{CompletionQueue, VerbsError};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

mod accept;
mod addressing;
#[cfg(test)]
mod check;
pub(crate) mod connect;
pub(crate) mod connect_options;
mod explain;
mod fence;
mod housekeeping;
mod prove;
mod pump;
mod reap;
mod submission;
mod submit;

pub(crate) use submission::BatchPart;

/// What a shard is made from.
#[derive(Clone, Debug)]
pub(crate) struct ShardSetup {
    /// Number among the engine's shards.
    pub(crate) number: u32,
    /// Our name in peers' messages.
    pub(crate) name: String,
    pub(crate) epoch: u64,
    pub(crate) queue_pairs_max: usize,
    pub(crate) queue_pairs_per_peer: usize,
    pub(crate) queue_pairs_per_rail: Option<usize>,
    pub(crate) tuning: RailTuning,
    /// Start of the sequence of proving words.
    pub(crate) seed: u64,
    /// Whether other processes of this host see what it moves.
    pub(crate) is_shown: bool,
}

/// A rail as this shard uses it.
#[derive(Debug)]
pub(crate) struct ShardRail {
    pub(crate) rail: Arc<Rail>,
    pub(crate) queue: Arc<dyn CompletionQueue>,
    pub(crate) cells: Arc<RailCells>,
    /// Over all queue pairs: what a new one starts from.
    pub(crate) bandwidth: Bandwidth,
    pub(crate) was_active: bool,
    /// Those that lanes are planned over.
    pub(crate) addresses: Arc<RailAddresses>,
    /// What others on this host see of the rail: reads and writes.
    pub(crate) activity: Option<(Slot, Slot)>,
}

/// An offer to be handed to the peer's engine.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(crate) peer: u64,
    pub(crate) peer_name: String,
    pub(crate) serial: u64,
    pub(crate) offer: EndpointOffer,
}

/// See the module's text.
#[derive(Debug)]
pub(crate) struct RailShard {
    setup: ShardSetup,
    endpoints: Endpoints,
    rails: Vec<ShardRail>,
    joiner: Joiner,
    peers: HashMap<u64, RailPeer>,
    /// Peers with work that waits, in the order they are served.
    listed: Vec<u64>,
    requests: KeyedSlab<ActiveRequest>,
    slices: KeyedSlab<RailSlice>,
    outbox: Vec<Outgoing>,
    serial: u64,
    words: u64,
    next_housekeeping: Duration,
    next_deadline: Duration,
    closed: bool,
    scratch: TurnScratch,
}

/// Memory that every turn uses again.
#[derive(Debug, Default)]
struct TurnScratch {
    /// The ways a slice may take.
    ways: Vec<LanePath>,
    /// The same as the choice sees them.
    choice: Vec<SprayLane>,
    /// Work requests that wait for the next doorbell, by lane of the peer being served.
    orders: Vec<Vec<PostOrder>>,
    /// Queue pairs of that peer that have refused a work request in this turn, and why.
    refused: Vec<(SlabKey, VerbsError)>,
}

impl RailShard {
    /// A shard over these rails.
    pub(crate) fn new(
        setup: ShardSetup,
        rails: &[Arc<Rail>],
        cells: &[Arc<RailCells>],
    ) -> Result<Self, RailError> {
        let active_max = setup.queue_pairs_max.max(1);
        // As many peers as we have lanes for may each bring all of theirs.
        let accepted_max = active_max * setup.queue_pairs_per_peer.max(1);
        let mut own = Vec::new();
        for (rail, cells) in rails.iter().zip(cells) {
            own.push(ShardRail {
                queue: rail.device().completion_queue(completion_entries(
                    rail,
                    active_max,
                    accepted_max,
                ))?,
                bandwidth: Bandwidth::new(rail.nominal()),
                was_active: rail.is_active(),
                addresses: rail.addresses(),
                activity: setup.is_shown.then(|| activity(rail, setup.number)).flatten(),
                rail: rail.clone(),
                cells: cells.clone(),
            });
        }
        let fitting =
            own.iter().map(|rail| lanes_fitting(rail.queue.entries(), accepted_max)).sum();
        Ok(Self {
            endpoints: Endpoints::new(rails, active_max, fitting, accepted_max)?,
            joiner: Joiner::new(setup.tuning.link),
            peers: HashMap::new(),
            listed: Vec::new(),
            requests: KeyedSlab::new(REQUESTS_MAX),
            slices: KeyedSlab::new(SLICES_MAX),
            outbox: Vec::new(),
            serial: 0,
            words: setup.seed | 1,
            next_housekeeping: Duration::ZERO,
            next_deadline: Duration::MAX,
            closed: false,
            scratch: TurnScratch::default(),
            rails: own,
            setup,
        })
    }

    /// One look at everything; true if anything happened.
    pub(crate) fn turn(&mut self, now: Duration) -> bool {
        let mut worked = self.reap(now);
        if now >= self.next_housekeeping || now >= self.next_deadline {
            self.keep_house(now);
        }
        worked |= self.pump(now);
        worked
    }

    /// Whether work is on its way, so that looking again soon is worth it.
    pub(crate) fn is_busy(&self) -> bool {
        self.requests.len() > 0
    }

    /// When it wants to be called again at the latest.
    pub(crate) fn next_wake(&self) -> Duration {
        self.next_housekeeping.min(self.next_deadline)
    }

    /// Offers that have to reach peers.
    pub(crate) fn take_offers(&mut self) -> Vec<Outgoing> {
        std::mem::take(&mut self.outbox)
    }

    /// The completion queues, whose events wake the shard.
    pub(crate) fn queues(&self) -> impl Iterator<Item = &Arc<dyn CompletionQueue>> {
        self.rails.iter().map(|rail| &rail.queue)
    }

    fn endpoint(&self, key: SlabKey) -> Option<&Endpoint> {
        self.endpoints.get(key)
    }

    /// A word that no other proof of this shard uses.
    fn next_word(&mut self) -> u64 {
        self.words ^= self.words << 13;
        self.words ^= self.words >> 7;
        self.words ^= self.words << 17;
        self.words
    }
}

/// Slots in the page that shows what this process moves; `None` when there is no page, or no slot
/// is left.
fn activity(rail: &Rail, shard: u32) -> Option<(Slot, Slot)> {
    let page = page()?;
    let claim = |direction| {
        Slot::claim(page, SlotKey::new(rail.name(), Route::Rdma, direction, shard as u16))
    };
    Some((claim(Direction::Read)?, claim(Direction::Write)?))
}

/// Every work request of every queue pair may complete with an error, so the queue holds them all.
fn completion_entries(rail: &Rail, active_max: usize, accepted_max: usize) -> u32 {
    let (active, accepted) = (SEND_QUEUE_ENTRIES as usize, ACCEPTED_ENTRIES as usize);
    let wanted =
        (active_max * active + accepted_max * accepted).min(COMPLETION_ENTRIES_MAX as usize) as u32;
    wanted.min(rail.device().info().limits.completion_entries)
}

/// Queue pairs to peers that a completion queue has entries for, beside the accepted ones.
fn lanes_fitting(entries: u32, accepted_max: usize) -> usize {
    let accepted = accepted_max as u32 * ACCEPTED_ENTRIES;
    (entries.saturating_sub(accepted) / SEND_QUEUE_ENTRIES).max(1) as usize
}

#[cfg(test)]
mod tests;
