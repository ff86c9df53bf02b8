//! Joining queue pairs to offered ones. The kernel may look for the peer's hardware address meanwhile, for up to a second,
//! and nobody can break that off: so what an offer may cost is bounded here, before the next call is made.
//!
//! The invariant: an offer keeps its thread for [`JOIN_DEADLINE`] and one call at most, an answer keeps its shard for one
//! address that is silent, such an address costs nobody anything for a while, and strangers never keep more than
//! [`STRANGERS_MAX`] threads at a time.

use crate::descriptor::{EndpointDescriptor, EndpointOffer, PairOffer};
use crate::limits::{
    ADDRESSES_MAX, JOIN_DEADLINE, JOIN_SLOW, SILENT_PAUSE, STRANGER_WAIT, STRANGERS_MAX,
};
use crate::pairing::Route;
use crate::shard::connect_options;
use perigee_verbs::QueuePair;
use std::collections::HashMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A queue pair made for an offered one, or why there is none.
pub(crate) type Made = Result<Box<dyn QueuePair>, String>;

/// Joins what offers bring, on whatever threads they come. Shared by all of them.
#[derive(Debug, Default)]
pub(crate) struct Joiner {
    state: Mutex<State>,
    left: Condvar,
}

#[derive(Debug, Default)]
struct State {
    known: HashMap<Address, Standing>,
    /// Threads that wait for an address nobody knows.
    strangers: usize,
}

/// From which of our addresses to which of the peer's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Address {
    rail: u32,
    own_gid: u32,
    gid: [u8; 16],
}

impl From<&PairOffer> for Address {
    fn from(pair: &PairOffer) -> Self {
        Self {
            rail: pair.peer_rail,
            own_gid: pair.peer_gid_index,
            gid: pair.endpoint.gid,
        }
    }
}

/// What is known of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// It was joined before.
    Answers,
    /// It was waited for in vain, and is not tried before this moment.
    SilentUntil(Duration),
}

/// The right to wait for an address that nobody knows.
struct Seat<'a>(&'a Joiner);

impl Joiner {
    /// Joins the made queue pairs to the offered ones.
    pub(crate) fn join(
        &self,
        offer: &EndpointOffer,
        made: Vec<Made>,
        clock: impl Fn() -> Duration,
    ) -> Vec<Made> {
        let due = clock() + JOIN_DEADLINE;
        let pairs = made.into_iter().zip(&offer.pairs);
        let joined = pairs.map(|(made, pair)| {
            let mut queue_pair = made?;
            self.join_one(queue_pair.as_mut(), pair, due, &clock)?;
            Ok(queue_pair)
        });
        joined.collect()
    }

    fn join_one(
        &self,
        queue_pair: &mut dyn QueuePair,
        pair: &PairOffer,
        due: Duration,
        clock: &impl Fn() -> Duration,
    ) -> Result<(), String> {
        let address = Address::from(pair);
        let seat = match self.standing(address, clock()) {
            None => Some(self.seat()?),
            Some(_) => None,
        };
        // Somebody else may have learnt it while this thread waited for its seat.
        if self.is_silent(address, clock()) {
            return Err(silent());
        }
        if clock() >= due {
            return Err("others of the offer took up the time; offer it again".to_owned());
        }
        let joined = self.connect(queue_pair, address, &pair.endpoint, clock);
        drop(seat);
        joined
    }

    /// Joins one queue pair of an answer, on a shard, where nobody may wait. `is_late` tells that an address of the answer
    /// was waited for in vain: then no other one is that nobody knows.
    pub(crate) fn join_answered(
        &self,
        queue_pair: &mut dyn QueuePair,
        (route, remote): (Route, &EndpointDescriptor),
        is_late: &mut bool,
        clock: impl Fn() -> Duration,
    ) -> Result<(), String> {
        let address = Address {
            rail: route.local as u32,
            own_gid: route.local_gid,
            gid: remote.gid,
        };
        match self.standing(address, clock()) {
            Some(Standing::SilentUntil(_)) => return Err(silent()),
            None if *is_late => return Err("another address of the peer is silent".to_owned()),
            Some(Standing::Answers) | None => {}
        }
        let joined = self.connect(queue_pair, address, remote, &clock);
        *is_late |= self.is_silent(address, clock());
        joined
    }

    fn connect(
        &self,
        queue_pair: &mut dyn QueuePair,
        address: Address,
        remote: &EndpointDescriptor,
        clock: &impl Fn() -> Duration,
    ) -> Result<(), String> {
        let begun = clock();
        let joined = queue_pair.connect(&remote.into(), &connect_options());
        let now = clock();
        if joined.is_ok() {
            self.note(address, Standing::Answers, now);
        } else if now.saturating_sub(begun) >= JOIN_SLOW {
            self.note(address, Standing::SilentUntil(now + SILENT_PAUSE), now);
        }
        joined.map_err(|error| error.to_string())
    }

    fn standing(&self, address: Address, now: Duration) -> Option<Standing> {
        let known = self.lock().known.get(&address).copied();
        known.filter(|standing| *standing == Standing::Answers || standing.is_silent(now))
    }

    fn is_silent(&self, address: Address, now: Duration) -> bool {
        matches!(self.standing(address, now), Some(Standing::SilentUntil(_)))
    }

    fn note(&self, address: Address, standing: Standing, now: Duration) {
        let known = &mut self.lock().known;
        if known.len() >= ADDRESSES_MAX && !known.contains_key(&address) {
            known.retain(|_, standing| standing.is_silent(now));
        }
        if known.len() >= ADDRESSES_MAX {
            known.clear();
        }
        known.insert(address, standing);
    }

    /// Waits for one of the few seats of strangers.
    fn seat(&self) -> Result<Seat<'_>, String> {
        let is_full = |state: &mut State| state.strangers >= STRANGERS_MAX;
        let waited = self
            .left
            .wait_timeout_while(self.lock(), STRANGER_WAIT, is_full);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if is_full(&mut state) {
            return Err(
                "too many other addresses are being looked for; try again later".to_owned(),
            );
        }
        state.strangers += 1;
        Ok(Seat(self))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Standing {
    fn is_silent(self, now: Duration) -> bool {
        matches!(self, Standing::SilentUntil(until) if now < until)
    }
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        self.0.lock().strangers -= 1;
        self.0.left.notify_one();
    }
}

fn silent() -> String {
    "its address did not answer a moment ago; try again later".to_owned()
}

#[cfg(test)]
mod tests;
