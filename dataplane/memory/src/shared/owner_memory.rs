//! What one owner has handed to this process, mapped.
//! Invariant: the mappings belong to one connection; once that has ended or was revoked,
//! [`OwnerMemory::is_open`] says so.

use super::revocation::PAGE_ID;
use super::revocation::{CopyPermit, GuestPage};
use crate::limits::NEWS_READS_MAX;
use crate::rendezvous::error::RendezvousError;
use crate::rendezvous::{ReceivedSegment, connect, peer_process, recv_segments};
use crate::segment::{Access, MappedSegment};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io::{ErrorKind, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// The segments of one owner.
#[derive(Debug)]
pub struct OwnerMemory {
    stream: UnixStream,
    process: Option<OwnedFd>,
    page: GuestPage,
    segments: Vec<(u128, MappedSegment)>,
    has_news: AtomicBool,
    has_ended: AtomicBool,
}

impl OwnerMemory {
    /// Asks the owner that listens under `socket`.
    pub(super) fn ask(socket: &str, deadline: Instant) -> Result<Self, RendezvousError> {
        let stream = connect(socket, deadline)?;
        let process = peer_process(&stream);
        let mut page = None;
        let mut segments = Vec::new();
        for segment in recv_segments(&stream, deadline)? {
            if segment.id == PAGE_ID {
                page = GuestPage::map(segment.fd, segment.segment_bytes).ok();
            } else {
                segments.extend(map(segment));
            }
        }
        stream.set_nonblocking(true)?;
        let missing = || std::io::Error::new(ErrorKind::InvalidData, "the peer sent no page");
        Ok(Self {
            stream,
            process,
            page: page.ok_or_else(missing)?,
            segments,
            has_news: AtomicBool::new(false),
            has_ended: AtomicBool::new(false),
        })
    }

    /// Number and mapping of each segment.
    pub fn segments(&self) -> impl Iterator<Item = (u128, &MappedSegment)> {
        self.segments.iter().map(|(id, mapping)| (*id, mapping))
    }

    /// The right to copy, unless the owner has taken its segments back. The owner waits for its end
    /// before it gives the memory to another use.
    pub fn begin_copy(&self) -> Option<CopyPermit<'_>> {
        self.page.begin()
    }

    /// Whether the owner has not taken its segments back, and was alive when it was last looked at.
    /// Costs two loads.
    #[must_use]
    pub fn is_open(&self) -> bool {
        !self.page.is_revoked() && !self.has_ended.load(Ordering::Relaxed)
    }

    /// Asks the kernel whether the owner's process lives and has not ended the connection.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        let process = self.process.as_ref();
        let process = process.map_or(self.stream.as_fd(), AsFd::as_fd);
        let mut wanted =
            [self.stream.as_fd(), process].map(|fd| PollFd::new(fd, PollFlags::POLLIN));
        if poll(&mut wanted, PollTimeout::ZERO) == Ok(0) {
            return true;
        }
        let is_dead = self.process.is_some() && wanted[1].any().unwrap_or(true);
        let is_alive = !is_dead && self.listen();
        if !is_alive {
            self.has_ended.store(true, Ordering::Relaxed);
        }
        is_alive
    }

    /// Whether the owner has announced more segments.
    pub(super) fn has_news(&self) -> bool {
        self.has_news.load(Ordering::Relaxed)
    }

    /// Takes what the owner says; false if that is the end. An owner that never stops is heard
    /// again the next time.
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

/// One segment of an owner. Keeps all of the owner's segments mapped.
#[derive(Clone, Debug)]
pub struct SharedSegment {
    memory: Arc<OwnerMemory>,
    index: usize,
}

impl SharedSegment {
    /// The segment with the number `id`, if it was handed out.
    #[must_use]
    pub fn of(memory: Arc<OwnerMemory>, id: u128) -> Option<Self> {
        let index = memory.segments().position(|(known, _)| known == id)?;
        Some(Self { memory, index })
    }

    /// Its memory.
    #[must_use]
    pub fn mapping(&self) -> &MappedSegment {
        &self.memory.segments[self.index].1
    }
}

fn map(segment: ReceivedSegment) -> Option<(u128, MappedSegment)> {
    let mapped = MappedSegment::map(segment.fd, segment.segment_bytes, Access::ReadWrite);
    let mapped =
        mapped.inspect_err(|error| tracing::info!(%error, "A segment is reached over TCP"));
    Some((segment.id, mapped.ok()?))
}
