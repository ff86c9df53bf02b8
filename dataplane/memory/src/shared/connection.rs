//! An owner's connection to one guest. Invariant: it lasts as long as the guest may have a mapping,
//! unless one side ends it.

use super::revocation::OwnPage;
use super::revocation::PAGE_ID;
use super::source::SegmentSource;
use crate::Segment;
use crate::limits::{HANDOVER_DEADLINE, SHARED_SEGMENTS_MAX};
use crate::rendezvous::error::RendezvousError;
use crate::rendezvous::identity::verify_peer;
use crate::rendezvous::{OfferedSegment, peer_process, send_segments};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Instant;

/// A guest that was handed segments.
#[derive(Debug)]
pub(super) struct GuestConnection {
    stream: Arc<UnixStream>,
    page: OwnPage,
    process: Option<OwnedFd>,
}

impl GuestConnection {
    /// Hands what there is to a process of our own user; `None` if it is another's, or takes
    /// nothing.
    pub(super) fn admit(stream: UnixStream, source: &dyn SegmentSource) -> Option<Self> {
        verify_peer(&stream).ok()?;
        let page = OwnPage::create();
        let page = page.inspect_err(|error| tracing::warn!(%error, "No shared memory for a peer"));
        let page = page.ok()?;
        if let Err(error) = hand_out(&stream, &page, source) {
            tracing::info!(%error, "A peer on this host was not given the segments");
            return None;
        }
        stream.set_nonblocking(true).ok()?;
        Some(Self { process: peer_process(&stream), page, stream: Arc::new(stream) })
    }

    /// The socket, to be watched.
    pub(super) fn stream(&self) -> &Arc<UnixStream> {
        &self.stream
    }

    /// Signals the guest that there are more segments. A guest that does not read has been
    /// signalled already.
    pub(super) fn announce(&self) {
        let _ = (&*self.stream).write(&[1]);
    }

    /// Takes the segments back: the guest begins no copy any more, and drops its mappings when it
    /// notices.
    pub(super) fn revoke(&self) {
        self.page.revoke();
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Whether the guest has begun a copy, not ended it, and lives.
    pub(super) fn may_copy(&self) -> bool {
        !self.page.is_unused() && !self.has_left()
    }

    /// Whether the guest has said nothing, as it should, and not ended the connection.
    pub(super) fn is_silent(&self) -> bool {
        let outcome = (&*self.stream).read(&mut [0; 1]);
        matches!(outcome, Err(error) if error.kind() == ErrorKind::WouldBlock)
    }

    fn has_left(&self) -> bool {
        let process = self.process.iter().map(AsFd::as_fd);
        let all = std::iter::once(self.stream.as_fd()).chain(process);
        let mut wanted: Vec<PollFd<'_>> =
            all.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        // Guests are silent, so whatever there is to read is an end.
        matches!(poll(&mut wanted, PollTimeout::ZERO), Ok(1..))
    }
}

fn hand_out(
    stream: &UnixStream,
    page: &OwnPage,
    source: &dyn SegmentSource,
) -> Result<(), RendezvousError> {
    let segments = source.segments();
    if segments.len() > SHARED_SEGMENTS_MAX {
        tracing::info!(
            limit = SHARED_SEGMENTS_MAX,
            "Segments beyond the limit are reached over TCP only; use fewer and larger ones"
        );
    }
    let others = segments.iter().take(SHARED_SEGMENTS_MAX);
    let others = others.filter_map(|(id, segment)| offer(*id, segment));
    let offers: Vec<OfferedSegment<'_>> =
        offer(PAGE_ID, page.segment()).into_iter().chain(others).collect();
    send_segments(stream, &offers, Instant::now() + HANDOVER_DEADLINE)
}

/// A range of a file is not offered: its owner may cut it.
fn offer(id: u128, segment: &Segment) -> Option<OfferedSegment<'_>> {
    let segment_bytes = segment.len() as u64;
    segment.fd().map(|fd| OfferedSegment { id, segment_bytes, fd })
}
