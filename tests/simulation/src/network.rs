//! Hosts and what lies between them: a TCP as the kernel shows it, on links that delay, lose and
//! break.
//!
//! Invariant: bytes of one direction arrive in order and at most once; whatever else a network may
//! do to them, it does.

mod attempt;
mod connection;
mod host;
mod link_conditions;
mod listener;
mod pipe;

pub(crate) use attempt::Attempt;
pub(crate) use connection::{Connection, Received, Wanted};
pub(crate) use host::Host;
pub use host::HostId;
pub use link_conditions::LinkConditions;
pub(crate) use listener::{Listening, PortId};

use crate::disk::Disk;
use crate::events::{Event, Events};
use crate::random::Random;
use crate::trace::{Note, Trace};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

/// Number of a connection and of one of its ends: 0 has connected, 1 has accepted.
pub(crate) type EndId = (u64, usize);

/// Something that comes to a host.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Arrival {
    /// The wish to connect, at the target.
    Wish(u64),
    /// The answer to it, with the connection if there is one.
    Answer(u64, Option<u64>),
    /// The front of what the end has sent.
    Front(EndId),
    /// The news that its end was shut down, at its operations.
    Shut(EndId),
    /// What an end's kernel finds out by asking an idle peer.
    Missed(EndId),
}

/// The simulated machine below all tasks.
pub(crate) struct Core {
    pub(crate) now: Duration,
    pub(crate) random: Random,
    pub(crate) events: Events,
    pub(crate) trace: Trace,
    pub(crate) link_conditions: LinkConditions,
    pub(crate) hosts: Vec<Host>,
    pub(crate) disks: BTreeMap<HostId, Disk>,
    /// Directions in which nothing passes.
    pub(crate) blocked: BTreeSet<(HostId, HostId)>,
    pub(crate) connections: BTreeMap<u64, Connection>,
    pub(crate) listeners: BTreeMap<PortId, Listening>,
    pub(crate) attempts: BTreeMap<u64, Attempt>,
    numbered: u64,
}

impl Core {
    pub(crate) fn new(seed: u64) -> Self {
        let random = Random::new(seed);
        Self {
            now: Duration::from_secs(1),
            link_conditions: LinkConditions::sound(&random),
            random,
            events: Events::default(),
            trace: Trace::default(),
            hosts: Vec::new(),
            disks: BTreeMap::new(),
            blocked: BTreeSet::new(),
            connections: BTreeMap::new(),
            listeners: BTreeMap::new(),
            attempts: BTreeMap::new(),
            numbered: 0,
        }
    }

    pub(crate) fn note(&mut self, what: &'static str, subject: u64, detail: u64) {
        let at = self.now;
        self.trace.note(Note { at, what, subject, detail });
    }

    pub(crate) fn arrive(&mut self, arrival: Arrival) {
        match arrival {
            Arrival::Wish(attempt) => self.wish_arrives(attempt),
            Arrival::Answer(attempt, connection) => self.answer_arrives(attempt, connection),
            Arrival::Front(end) => self.front_arrives(end),
            Arrival::Shut(end) => self.operations_end(end),
            Arrival::Missed(end) => self.peer_is_missed(end),
        }
    }

    fn plan(&mut self, after: Duration, arrival: Arrival) {
        self.events.plan(self.now + after, Event::Arrive(arrival));
    }

    fn number(&mut self) -> u64 {
        self.numbered += 1;
        self.numbered
    }

    fn host_of(&self, address: IpAddr) -> Option<HostId> {
        self.hosts.iter().position(|host| host.address == address)
    }

    pub(crate) fn passes(&self, from: HostId, to: HostId) -> bool {
        self.hosts[to].is_up && !self.blocked.contains(&(from, to))
    }
}
