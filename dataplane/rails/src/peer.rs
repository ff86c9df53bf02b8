//! A peer as one shard sees it: its lanes, and the work that waits for one of them.

use crate::descriptor::{PeerDescriptor, RailDescriptor};
use crate::error::RailError;
use crate::fencing::Fences;
use crate::health::Health;
use crate::limits::{LANE_FAILURES_MAX, OFFERS_FAILED_MAX};
use crate::pairing::{AddressPair, LanePlan};
use crate::slab::SlabKey;
use crate::waiting::WaitingWork;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Why there is no lane at all.
pub(crate) const NO_ADDRESSES: &str = "no two addresses of the rails can speak to each other";

/// A peer as all shards know it.
#[derive(Debug)]
pub(crate) struct PeerRecord {
    /// Number within this engine, never used again.
    pub(crate) number: u64,
    /// Name it was opened under.
    pub(crate) name: String,
    /// The epoch of its run: a restarted engine has another one.
    pub(crate) epoch: u64,
    /// As it described them last.
    rails: Mutex<Arc<Vec<RailDescriptor>>>,
    /// Another engine runs under the name, or the peer was forgotten.
    pub(crate) gone: AtomicBool,
    /// Another engine runs under the name.
    pub(crate) replaced: AtomicBool,
}

impl PeerRecord {
    pub(crate) fn new(number: u64, name: &str, descriptor: &PeerDescriptor) -> Self {
        Self {
            number,
            name: name.to_owned(),
            epoch: descriptor.epoch,
            rails: Mutex::new(Arc::new(descriptor.rails.clone())),
            gone: AtomicBool::new(false),
            replaced: AtomicBool::new(false),
        }
    }

    /// Its rails as it described them last. Another `Arc` is another description.
    pub(crate) fn rails(&self) -> Arc<Vec<RailDescriptor>> {
        self.lock_rails().clone()
    }

    /// The same engine describes its rails again: it may have other addresses now.
    pub(crate) fn describe(&self, rails: &[RailDescriptor]) {
        let mut known = self.lock_rails();
        if known.as_slice() != rails {
            *known = Arc::new(rails.to_vec());
        }
    }

    fn lock_rails(&self) -> MutexGuard<'_, Arc<Vec<RailDescriptor>>> {
        self.rails.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }

    /// Whether another engine runs under the name: the one before is gone.
    pub(crate) fn is_replaced(&self) -> bool {
        self.replaced.load(Ordering::Acquire)
    }

    /// Why requests to it fail once it is gone.
    pub(crate) fn why_gone(&self) -> RailError {
        let peer = self.name.clone();
        if self.is_replaced() {
            RailError::PeerRestarted { peer }
        } else {
            RailError::UnknownPeer { peer }
        }
    }
}

/// Where a lane is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LaneState {
    /// No queue pair.
    Down,
    /// The peer was offered a queue pair.
    Offered,
    /// A proving write is on its way.
    Proving {
        /// When it is given up.
        until: Duration,
        /// What must be read back.
        word: u64,
    },
    /// Proven, carries load.
    Up,
}

/// One queue pair to a peer, or the wish for one.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) routes: Vec<AddressPair>,
    /// The lane whose rails it uses too. It is opened when that one has more to do than it takes,
    /// and carries load only while that one does: whether the rails work is found out there.
    pub(crate) beside: Option<usize>,
    /// How many routes were tried.
    pub(crate) tried: usize,
    pub(crate) failures: u32,
    pub(crate) health: Health,
    pub(crate) state: LaneState,
    pub(crate) endpoint: Option<SlabKey>,
    /// What was last the matter with it; empty when nothing was.
    pub(crate) reason: String,
}

impl Lane {
    fn new(plan: LanePlan) -> Self {
        Self {
            routes: plan.routes,
            beside: plan.beside,
            tried: 0,
            failures: 0,
            health: Health::new(1),
            state: LaneState::Down,
            endpoint: None,
            reason: String::new(),
        }
    }

    /// Takes over new routes. What was tried says nothing about them; a queue pair over one that is
    /// still there stays.
    fn follow(&mut self, routes: Vec<AddressPair>) {
        let current = self.route();
        if self.endpoint.is_some() {
            let place = routes.iter().position(|route| *route == current);
            self.tried = place.unwrap_or(0);
        } else if self.routes != routes {
            (self.tried, self.failures) = (0, 0);
            self.health = Health::new(1);
        }
        self.routes = routes;
    }

    /// The route in use, or tried next.
    pub(crate) fn route(&self) -> AddressPair {
        self.routes[self.tried % self.routes.len()]
    }

    /// Whether its proof takes too long.
    pub(crate) fn is_late(&self, now: Duration) -> bool {
        matches!(self.state, LaneState::Proving { until, .. } if now >= until)
    }

    pub(crate) fn is_up(&self) -> bool {
        self.state == LaneState::Up
    }

    /// Whether it gives no hope to what waits: it failed too often, or the port of its local rail
    /// is down.
    fn is_dead(&self, is_active: &impl Fn(usize) -> bool) -> bool {
        let is_spent = self.failures >= LANE_FAILURES_MAX || !is_active(self.route().local);
        self.state == LaneState::Down && is_spent
    }
}

/// One peer of a shard.
#[derive(Debug)]
pub(crate) struct RailPeer {
    pub(crate) record: Arc<PeerRecord>,
    /// Its rails as the lanes are planned to them.
    pub(crate) theirs: Arc<Vec<RailDescriptor>>,
    pub(crate) lanes: Vec<Lane>,
    pub(crate) waiting: WaitingWork,
    /// Requests that are not over.
    pub(crate) requests: usize,
    /// The offer that awaits an answer: its serial number and when it is given up.
    pub(crate) offered: Option<(u64, Duration)>,
    pub(crate) offers_failed: u32,
    pub(crate) next_offer: Duration,
    /// When lanes beside others may be tried again.
    pub(crate) next_beside: Duration,
    pub(crate) wanted_at: Duration,
    /// Broken queue pairs that it has to confirm as gone.
    pub(crate) fences: Fences,
    /// What the handshake last met.
    pub(crate) reason: String,
    /// Whether it is among the peers that have work waiting.
    pub(crate) listed: bool,
}

impl RailPeer {
    pub(crate) fn new(
        record: Arc<PeerRecord>,
        theirs: Arc<Vec<RailDescriptor>>,
        lanes: Vec<LanePlan>,
    ) -> Self {
        Self {
            record,
            theirs,
            lanes: lanes.into_iter().map(Lane::new).collect(),
            waiting: WaitingWork::default(),
            requests: 0,
            offered: None,
            offers_failed: 0,
            next_offer: Duration::ZERO,
            next_beside: Duration::ZERO,
            wanted_at: Duration::ZERO,
            fences: Fences::default(),
            reason: String::new(),
            listed: false,
        }
    }

    /// Whether lanes planned like this are the same ones, over other addresses perhaps: peers know
    /// a lane by its number.
    fn has_shape_of(&self, plans: &[LanePlan]) -> bool {
        let same = |(lane, plan): (&Lane, &LanePlan)| {
            let local = |routes: &[AddressPair]| routes.first().map(|route| route.local);
            lane.beside == plan.beside && local(&lane.routes) == local(&plan.routes)
        };
        self.lanes.len() == plans.len() && self.lanes.iter().zip(plans).all(same)
    }

    /// Queue pairs that do not go with these plans: of other lanes, over routes that are no more,
    /// or of lanes that have a better route than there was.
    pub(crate) fn endpoints_beyond(&self, plans: &[LanePlan]) -> Vec<SlabKey> {
        let has_shape = self.has_shape_of(plans);
        let stays = |lane: &Lane, plan: &LanePlan| {
            let mut first = plan.routes.iter().take(1);
            plan.routes.contains(&lane.route()) && first.all(|route| lane.routes.contains(route))
        };
        let lanes = self.lanes.iter().enumerate();
        let beyond = lanes.filter(|(index, lane)| !has_shape || !stays(lane, &plans[*index]));
        beyond.filter_map(|(_, lane)| lane.endpoint).collect()
    }

    /// Takes over new plans. The queue pairs that are not in them have gone.
    pub(crate) fn follow(&mut self, plans: Vec<LanePlan>) {
        if self.has_shape_of(&plans) {
            let lanes = self.lanes.iter_mut().zip(plans);
            lanes.for_each(|(lane, plan)| lane.follow(plan.routes));
        } else {
            self.lanes = plans.into_iter().map(Lane::new).collect();
            // Its answer names lanes that are no more.
            self.offered = None;
        }
        self.waiting.bring_back();
    }

    /// Lanes that carry load.
    pub(crate) fn lanes_up(&self) -> usize {
        self.lanes.iter().filter(|lane| lane.is_up()).count()
    }

    /// Lanes that have a queue pair, joined or not.
    pub(crate) fn lanes_open(&self) -> usize {
        let lanes = self.lanes.iter();
        lanes.filter(|lane| lane.endpoint.is_some()).count()
    }

    /// Whether the lane may carry load as far as the rest of the peer is concerned.
    pub(crate) fn carries_load(&self, lane: &Lane) -> bool {
        lane.is_up() && lane.beside.is_none_or(|first| self.lanes[first].is_up())
    }

    /// No lane works or is being tried, and enough was tried or can be tried now: requests fail at
    /// once until a later try succeeds. `is_active` tells which local rails have a port that is up.
    pub(crate) fn is_hopeless(&self, is_active: impl Fn(usize) -> bool) -> bool {
        let unanswered = self.offered.is_none()
            && self.offers_failed >= OFFERS_FAILED_MAX
            && self.lanes.iter().all(|lane| lane.state == LaneState::Down);
        let mut first = self.lanes.iter().filter(|lane| lane.beside.is_none());
        unanswered || first.all(|lane| lane.is_dead(&is_active))
    }

    /// Routes that work or may be tried. A request whose memory the devices of none of them know
    /// has no hope.
    pub(crate) fn routes(
        &self,
        is_active: impl Fn(usize) -> bool,
    ) -> impl Iterator<Item = AddressPair> {
        let first = self.lanes.iter().filter(|lane| lane.beside.is_none());
        let alive = first.filter(move |lane| !lane.is_dead(&is_active));
        alive.map(Lane::route)
    }
}
