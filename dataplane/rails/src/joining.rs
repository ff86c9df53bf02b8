//! Joining queue pairs to offered ones. The kernel may look up the peer's hardware address for up
//! to a second, and that cannot be interrupted: so the cost of an offer is bounded here, before the
//! next call is made.
//!
//! The invariant: an offer keeps its thread for [`JOIN_DEADLINE`] and one call at most, an answer
//! keeps its shard for one address that is silent, such an address costs nothing for a while, and
//! unknown addresses never keep more than [`UNKNOWN_ADDRESSES_MAX`] threads at a time.

use crate::descriptor::{EndpointDescriptor, EndpointOffer, PairOffer};
use crate::limits::{
    ADDRESSES_MAX, JOIN_DEADLINE, JOIN_SLOW, SILENT_PAUSE, UNKNOWN_ADDRESS_WAIT,
    UNKNOWN_ADDRESSES_MAX,
};
use crate::pairing::AddressPair;
use crate::shard::connect_options::connect_options;
use perigee_verbs::{LinkOptions, QueuePair};
use std::collections::HashMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A queue pair made for an offered one, or why there is none.
pub(crate) type MadePair = Result<Box<dyn QueuePair>, String>;

/// Joins what offers bring, on whatever threads they come. Shared by all of them.
#[derive(Debug, Default)]
pub(crate) struct Joiner {
    link: LinkOptions,
    state: Mutex<KnownAddresses>,
    left: Condvar,
}

#[derive(Debug, Default)]
struct KnownAddresses {
    known: HashMap<GidPath, AddressState>,
    /// Threads that wait for an unknown address.
    unknown: usize,
}

/// From which of our addresses to which of the peer's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct GidPath {
    rail: u32,
    own_gid: u32,
    gid: [u8; 16],
}

impl From<&PairOffer> for GidPath {
    fn from(pair: &PairOffer) -> Self {
        Self { rail: pair.peer_rail, own_gid: pair.peer_gid_index, gid: pair.endpoint.gid }
    }
}

/// What is known of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AddressState {
    /// It was joined before.
    Answers,
    /// It timed out, and is not tried before this moment.
    SilentUntil(Duration),
}

/// The right to wait for an unknown address.
struct WaitPermit<'a>(&'a Joiner);

impl Joiner {
    /// Joins with these options.
    pub(crate) fn new(link: LinkOptions) -> Self {
        Self { link, ..Self::default() }
    }

    /// Joins the made queue pairs to the offered ones.
    pub(crate) fn join(
        &self,
        offer: &EndpointOffer,
        made: Vec<MadePair>,
        clock: impl Fn() -> Duration,
    ) -> Vec<MadePair> {
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
        let address = GidPath::from(pair);
        let wait_permit = match self.standing(address, clock()) {
            None => Some(self.wait_permit()?),
            Some(_) => None,
        };
        // Another thread may have learnt it while this one waited for its permit.
        if self.is_silent(address, clock()) {
            return Err(silent());
        }
        if clock() >= due {
            return Err("others of the offer took up the time; offer it again".to_owned());
        }
        let joined = self.connect(queue_pair, address, &pair.endpoint, clock);
        drop(wait_permit);
        joined
    }

    /// Joins one queue pair of an answer, on a shard, which must not wait. `is_late`: one unknown
    /// address of this answer already timed out; do not wait for another.
    pub(crate) fn join_answered(
        &self,
        queue_pair: &mut dyn QueuePair,
        (route, remote): (AddressPair, &EndpointDescriptor),
        is_late: &mut bool,
        clock: impl Fn() -> Duration,
    ) -> Result<(), String> {
        let address =
            GidPath { rail: route.local as u32, own_gid: route.local_gid, gid: remote.gid };
        match self.standing(address, clock()) {
            Some(AddressState::SilentUntil(_)) => return Err(silent()),
            None if *is_late => return Err("another address of the peer is silent".to_owned()),
            Some(AddressState::Answers) | None => {}
        }
        let joined = self.connect(queue_pair, address, remote, &clock);
        *is_late |= self.is_silent(address, clock());
        joined
    }

    fn connect(
        &self,
        queue_pair: &mut dyn QueuePair,
        address: GidPath,
        remote: &EndpointDescriptor,
        clock: &impl Fn() -> Duration,
    ) -> Result<(), String> {
        let begun = clock();
        let joined = queue_pair.connect(&remote.into(), &connect_options(&self.link));
        let now = clock();
        if joined.is_ok() {
            self.note(address, AddressState::Answers, now);
        } else if now.saturating_sub(begun) >= JOIN_SLOW {
            self.note(address, AddressState::SilentUntil(now + SILENT_PAUSE), now);
        }
        joined.map_err(|error| error.to_string())
    }

    fn standing(&self, address: GidPath, now: Duration) -> Option<AddressState> {
        let known = self.lock().known.get(&address).copied();
        known.filter(|standing| *standing == AddressState::Answers || standing.is_silent(now))
    }

    fn is_silent(&self, address: GidPath, now: Duration) -> bool {
        matches!(self.standing(address, now), Some(AddressState::SilentUntil(_)))
    }

    fn note(&self, address: GidPath, standing: AddressState, now: Duration) {
        let known = &mut self.lock().known;
        if known.len() >= ADDRESSES_MAX && !known.contains_key(&address) {
            known.retain(|_, standing| standing.is_silent(now));
        }
        if known.len() >= ADDRESSES_MAX {
            known.clear();
        }
        known.insert(address, standing);
    }

    /// Waits for one of the few permits for unknown addresses.
    fn wait_permit(&self) -> Result<WaitPermit<'_>, String> {
        let is_full = |state: &mut KnownAddresses| state.unknown >= UNKNOWN_ADDRESSES_MAX;
        let waited = self.left.wait_timeout_while(self.lock(), UNKNOWN_ADDRESS_WAIT, is_full);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if is_full(&mut state) {
            return Err("too many other addresses are being looked for; try again later".to_owned());
        }
        state.unknown += 1;
        Ok(WaitPermit(self))
    }

    fn lock(&self) -> MutexGuard<'_, KnownAddresses> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AddressState {
    fn is_silent(self, now: Duration) -> bool {
        matches!(self, AddressState::SilentUntil(until) if now < until)
    }
}

impl Drop for WaitPermit<'_> {
    fn drop(&mut self) {
        self.0.lock().unknown -= 1;
        self.0.left.notify_one();
    }
}

fn silent() -> String {
    "its address did not answer a moment ago; try again later".to_owned()
}

#[cfg(test)]
mod tests;
