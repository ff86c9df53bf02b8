//! Handing out the segments' descriptors to clients of the same user on this host.
//!
//! The connection stays open: a client that sees it close drops its mappings, so memory of a dead or withdrawn segment
//! is not kept by others.

use crate::limits::{RENDEZVOUS_DEADLINE, RENDEZVOUS_PEERS_MAX};
use crate::segments::SegmentTable;
use perigee_memory::rendezvous::{
    OfferedSegment, RendezvousError, listen, send_segments, verify_peer,
};
use std::io::Read;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often the thread looks for a stop and for peers that left.
const LOOK: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub(crate) struct RendezvousServer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    table: Arc<SegmentTable>,
    stopping: AtomicBool,
    peers: Mutex<Vec<UnixStream>>,
}

impl RendezvousServer {
    pub(crate) fn start(name: &str, table: Arc<SegmentTable>) -> Result<Self, RendezvousError> {
        let listener = listen(name)?;
        let shared = Arc::new(Shared {
            table,
            stopping: AtomicBool::new(false),
            peers: Mutex::default(),
        });
        let theirs = shared.clone();
        let thread = std::thread::Builder::new()
            .name("perigee-meet".to_owned())
            .spawn(move || theirs.serve(&listener))
            .map_err(|error| tracing::warn!(%error, "No thread to hand out segments; peers on this host use TCP"))
            .ok();
        Ok(Self { shared, thread })
    }

    /// Closes all connections: peers drop their mappings and ask again when they need one.
    pub(crate) fn withdraw(&self) {
        self.shared
            .peers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }

    pub(crate) fn stop(mut self) {
        self.shared.stopping.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        self.withdraw();
    }
}

impl Shared {
    fn serve(&self, listener: &UnixListener) {
        if let Err(error) = listener.set_nonblocking(true) {
            tracing::warn!(%error, "Segments are not handed out");
            return;
        }
        while !self.stopping.load(Ordering::Acquire) {
            match listener.accept() {
                Ok((stream, _)) => self.welcome(stream),
                Err(_) => wait_readable(listener),
            }
            self.forget_departed();
        }
    }

    /// The list of peers is held while descriptors are handed out: a withdrawal either finds this peer in the list, or has
    /// already changed what is handed out.
    fn welcome(&self, stream: UnixStream) {
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = self.hand_out(&stream) {
            tracing::info!(%error, "A client on this host was not given the segments");
            return;
        }
        if peers.len() >= RENDEZVOUS_PEERS_MAX {
            peers.remove(0);
        }
        peers.push(stream);
    }

    fn hand_out(&self, stream: &UnixStream) -> Result<(), RendezvousError> {
        verify_peer(stream)?;
        let segments = self.table.list();
        let offers: Vec<OfferedSegment<'_>> = segments
            .iter()
            .map(|(id, segment)| OfferedSegment {
                id: id.0,
                segment_bytes: segment.len() as u64,
                fd: segment.fd(),
            })
            .collect();
        send_segments(stream, &offers, Instant::now() + RENDEZVOUS_DEADLINE)
    }

    fn forget_departed(&self) {
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        peers.retain_mut(|peer| {
            let _ = peer.set_nonblocking(true);
            !matches!(peer.read(&mut [0; 1]), Ok(0))
        });
    }
}

fn wait_readable(listener: &UnixListener) {
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    use std::os::fd::AsFd;
    let mut descriptors = [PollFd::new(listener.as_fd(), PollFlags::POLLIN)];
    let _ = poll(
        &mut descriptors,
        PollTimeout::try_from(LOOK).unwrap_or(PollTimeout::ZERO),
    );
}
