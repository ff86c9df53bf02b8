//! The owner's side: registered segments are handed to engines on this host, and taken back.
//! Invariant: [`Lobby::revoke`] returns true only when no guest that was let in is still copying.

use super::gate::OwnGate;
use super::{Door, host_identity};
use crate::limits::{GATE_LOOK, RENDEZVOUS_DEADLINE, SHARED_REGIONS_MAX};
use crate::registry::Registry;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use perigee_discovery::Extra;
use perigee_memory::rendezvous::{
    Host, OfferedSegment, Reception, RendezvousError, peer_process, send_segments,
};
use perigee_schemas::Identity;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What a gate is called among the segments of a message; no buffer begins at address 0.
pub(super) const GATE_ID: u128 = 0;

/// Hands out the registered segments of an engine.
#[derive(Debug)]
pub(crate) struct Lobby {
    door: Door,
    registry: Arc<Registry>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// From the first segment on.
    reception: Option<Reception<Porter>>,
    /// Guests that were dismissed while they were copying.
    lingering: Vec<Departing>,
}

/// Welcomes one guest after the other.
#[derive(Debug)]
struct Porter(Arc<Registry>);

/// What is kept of a guest.
#[derive(Debug)]
struct Guest {
    gate: OwnGate,
    process: Option<OwnedFd>,
}

#[derive(Debug)]
struct Departing {
    stream: Arc<UnixStream>,
    guest: Guest,
}

impl Lobby {
    pub(crate) fn new(identity: Identity, registry: Arc<Registry>) -> Self {
        Self {
            door: Door {
                host: host_identity(),
                socket: format!("perigee-engine-{identity}"),
            },
            registry,
            state: Mutex::default(),
        }
    }

    /// Writes into a document where segments are handed out.
    pub(crate) fn describe(&self, extra: &mut Extra) {
        if !self.door.host.is_empty() {
            self.door.write(extra);
        }
    }

    /// There is a new segment in the registry: opens if that was not done, and tells the guests.
    pub(crate) fn extend(&self) {
        let mut state = self.lock();
        if let Some(reception) = &state.reception {
            return reception.announce();
        }
        let porter = Porter(self.registry.clone());
        match Reception::open(&self.door.socket, "perigee-lobby", porter) {
            Ok(reception) => state.reception = Some(reception),
            Err(error) => tracing::warn!(%error, "Peers on this host use TCP"),
        }
    }

    /// Sends all guests away; what is in the registry then can be asked for again. Waits until no copy is under way; false
    /// if one still is after `limit`.
    pub(crate) fn revoke(&self, limit: Duration) -> bool {
        self.dismiss();
        let deadline = Instant::now() + limit;
        loop {
            if self.is_empty() {
                return true;
            }
            if Instant::now() >= deadline {
                return false;
            }
            std::thread::sleep(GATE_LOOK);
        }
    }

    /// Whether nobody who was dismissed may still copy.
    fn is_empty(&self) -> bool {
        let lingering = &mut self.lock().lingering;
        lingering.retain(Departing::may_copy);
        lingering.is_empty()
    }

    fn dismiss(&self) {
        let mut state = self.lock();
        let dismissed = state.reception.as_ref().map(Reception::dismiss);
        for (stream, guest) in dismissed.into_iter().flatten() {
            guest.gate.close();
            state.lingering.push(Departing { stream, guest });
        }
    }

    /// Nobody is welcomed any more. Waits for copies as [`Lobby::revoke`].
    pub(crate) fn close(&self, limit: Duration) {
        if !self.revoke(limit) {
            tracing::warn!("A peer on this host still copies from or to memory of a closed engine");
        }
        let reception = self.lock().reception.take();
        drop(reception);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Host for Porter {
    type Guest = Guest;

    fn welcome(&self, stream: &UnixStream) -> Option<Guest> {
        let gate = OwnGate::create();
        let gate = gate.inspect_err(|error| tracing::warn!(%error, "No shared memory for a peer"));
        let gate = gate.ok()?;
        if let Err(error) = self.hand_out(stream, &gate) {
            tracing::info!(%error, "A peer on this host was not given the segments");
            return None;
        }
        Some(Guest {
            gate,
            process: peer_process(stream),
        })
    }
}

impl Porter {
    fn hand_out(&self, stream: &UnixStream, gate: &OwnGate) -> Result<(), RendezvousError> {
        let shared = self.0.shared();
        if shared.len() > SHARED_REGIONS_MAX {
            tracing::info!(
                limit = SHARED_REGIONS_MAX,
                "Segments beyond the limit are reached over TCP only; register fewer and larger ones"
            );
        }
        let first = OfferedSegment {
            id: GATE_ID,
            segment_bytes: gate.segment().len() as u64,
            fd: gate.segment().fd(),
        };
        let others = shared.iter().take(SHARED_REGIONS_MAX);
        let others = others.map(|(address, segment)| OfferedSegment {
            id: u128::from(*address),
            segment_bytes: segment.len() as u64,
            fd: segment.fd(),
        });
        let offers: Vec<OfferedSegment<'_>> = std::iter::once(first).chain(others).collect();
        send_segments(stream, &offers, Instant::now() + RENDEZVOUS_DEADLINE)
    }
}

impl Departing {
    /// Whether the guest has passed its gate, not come back, and lives.
    fn may_copy(&self) -> bool {
        !self.guest.gate.is_unused() && !self.has_left()
    }

    fn has_left(&self) -> bool {
        let process = self.guest.process.iter().map(AsFd::as_fd);
        let all = std::iter::once(self.stream.as_fd()).chain(process);
        let mut wanted: Vec<PollFd<'_>> =
            all.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        // Guests are silent, so whatever there is to read is an end.
        matches!(poll(&mut wanted, PollTimeout::ZERO), Ok(1..))
    }
}
