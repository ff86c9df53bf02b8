//! The guest's side: segments of one peer on this host, mapped on first use.
//! Invariant: a [`Joint`] belongs to one life of the peer, and is used only while that life was just seen.

use super::gate::{Gate, Pass};
use super::lobby::GATE_ID;
use super::{Door, host_identity};
use crate::limits::{NEWS_READS_MAX, RENDEZVOUS_DEADLINE, SHARED_MEMORY_RETRY};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use perigee_discovery::Extra;
use perigee_memory::MappedSegment;
use perigee_memory::rendezvous::{
    ReceivedSegment, RendezvousError, connect, peer_process, recv_segments,
};
use perigee_memory::segment::Access;
use std::io::{ErrorKind, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// A peer that may be reached through shared memory.
#[derive(Debug)]
pub(crate) struct Neighbour {
    socket: String,
    state: Mutex<State>,
}

#[derive(Debug)]
enum State {
    Unknown,
    Refused { until: Instant },
    Joined(Arc<Joint>),
}

/// What one meeting with the peer has brought.
#[derive(Debug)]
pub(crate) struct Joint {
    stream: UnixStream,
    process: Option<OwnedFd>,
    gate: Gate,
    /// By first address at the peer.
    regions: Vec<(u64, MappedSegment)>,
    has_news: AtomicBool,
}

impl Neighbour {
    /// The peer of a document, if it is on this host and hands out segments.
    pub(crate) fn of(extra: &Extra) -> Option<Self> {
        let door = Door::read(extra)?;
        (!door.host.is_empty() && door.host == host_identity()).then_some(Self {
            socket: door.socket,
            state: Mutex::new(State::Unknown),
        })
    }

    /// Mappings that hold all of the peer's ranges, if it has handed them out. Meets the peer if that was not done, at
    /// most until `due`.
    pub(crate) fn reach(
        &self,
        ranges: impl Iterator<Item = (u64, u64)> + Clone,
        due: Instant,
    ) -> Option<Arc<Joint>> {
        // Twice: what was handed out before may have been taken back, or more may be handed out now.
        for _ in 0..2 {
            let joint = self.joint(due)?;
            let is_open = joint.is_alive() && joint.gate.enter().is_some();
            let holds = |(address, bytes)| joint.range(address, bytes).is_some();
            if is_open && ranges.clone().all(holds) {
                return Some(joint);
            }
            if is_open && !joint.has_news.load(Ordering::Relaxed) {
                return None;
            }
            self.part(&joint);
        }
        None
    }

    /// Drops the mappings.
    pub(crate) fn close(&self) {
        *self.lock() = State::Unknown;
    }

    fn joint(&self, due: Instant) -> Option<Arc<Joint>> {
        let mut state = self.lock();
        match &*state {
            State::Joined(joint) => return Some(joint.clone()),
            State::Refused { until } if Instant::now() < *until => return None,
            State::Refused { .. } | State::Unknown => {}
        }
        match Joint::meet(&self.socket, due.min(Instant::now() + RENDEZVOUS_DEADLINE)) {
            Ok(joint) => {
                let joint = Arc::new(joint);
                *state = State::Joined(joint.clone());
                Some(joint)
            }
            Err(error) => {
                tracing::debug!(%error, "No shared memory with this peer, another route is used");
                let until = Instant::now() + SHARED_MEMORY_RETRY;
                *state = State::Refused { until };
                None
            }
        }
    }

    fn part(&self, joint: &Arc<Joint>) {
        let mut state = self.lock();
        if matches!(&*state, State::Joined(known) if Arc::ptr_eq(known, joint)) {
            *state = State::Unknown;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Joint {
    fn meet(socket: &str, deadline: Instant) -> Result<Self, RendezvousError> {
        let stream = connect(socket, deadline)?;
        let process = peer_process(&stream);
        let mut gate = None;
        let mut regions = Vec::new();
        for segment in recv_segments(&stream, deadline)? {
            if segment.id == GATE_ID {
                gate = Gate::map(segment.fd, segment.segment_bytes).ok();
            } else {
                regions.extend(map(segment));
            }
        }
        stream.set_nonblocking(true)?;
        let missing = || std::io::Error::new(ErrorKind::InvalidData, "the peer sent no gate");
        Ok(Self {
            stream,
            process,
            gate: gate.ok_or_else(missing)?,
            regions,
            has_news: AtomicBool::new(false),
        })
    }

    /// The right to copy, unless the owner has taken it back.
    pub(super) fn enter(&self) -> Option<Pass<'_>> {
        self.gate.enter()
    }

    /// The local address of a range of the peer, if it lies in one segment.
    pub(super) fn range(&self, address: u64, bytes: u64) -> Option<*mut u8> {
        let holding = |(first, mapping): &(u64, MappedSegment)| {
            mapping.range_mut(address.checked_sub(*first)?, bytes)
        };
        self.regions.iter().find_map(holding)
    }

    /// Whether the process that handed the segments out lives and has not ended the connection.
    pub(super) fn is_alive(&self) -> bool {
        let process = self
            .process
            .as_ref()
            .map_or(self.stream.as_fd(), AsFd::as_fd);
        let mut wanted =
            [self.stream.as_fd(), process].map(|fd| PollFd::new(fd, PollFlags::POLLIN));
        if poll(&mut wanted, PollTimeout::ZERO) == Ok(0) {
            return true;
        }
        let has_ended = self.process.is_some() && wanted[1].any().unwrap_or(true);
        !has_ended && self.listen()
    }

    /// Takes what the owner says; false if that is the end. An owner that never stops is heard again the next time.
    fn listen(&self) -> bool {
        let mut said = [0; 16];
        for _ in 0..NEWS_READS_MAX {
            match (&self.stream).read(&mut said) {
                Ok(0) => return false,
                Ok(_) => self.has_news.store(true, Ordering::Relaxed),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
        true
    }
}

fn map(segment: ReceivedSegment) -> Option<(u64, MappedSegment)> {
    let address = u64::try_from(segment.id).ok()?;
    let mapped = MappedSegment::map(segment.fd, segment.segment_bytes, Access::ReadWrite);
    let mapped =
        mapped.inspect_err(|error| tracing::info!(%error, "A segment is reached over TCP"));
    Some((address, mapped.ok()?))
}
