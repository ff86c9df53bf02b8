//! Passing segments to a process of the same user on the same host, over a Unix socket. Invariant:
//! descriptors are exchanged with our own user only, and nothing a peer says about lengths or
//! counts is believed before it is compared with a limit.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::limits::{RENDEZVOUS_SEGMENTS_MAX, SEGMENT_BYTES_MAX};

mod address;
pub(crate) mod error;
pub(crate) mod identity;
mod message;
mod process;
mod socket_file;
#[cfg(test)]
mod tests;
mod transport;

pub use address::{connect, listen};
pub use error::RendezvousError;
pub use identity::{PeerIdentity, verify_peer};
pub(crate) use process::peer_process;
pub use socket_file::SocketFile;

/// A segment to be passed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OfferedSegment<'fd> {
    /// The segment's number, as its owner knows it.
    pub(crate) id: u128,
    /// Usable bytes.
    pub(crate) segment_bytes: u64,
    /// Its sealed memfd.
    pub(crate) fd: BorrowedFd<'fd>,
}

/// A segment that a peer has passed; map it with `MappedSegment::map`.
#[derive(Debug)]
pub(crate) struct ReceivedSegment {
    /// The segment's number, as the peer says.
    pub(crate) id: u128,
    /// Usable bytes, as the peer says; checked when it is mapped.
    pub(crate) segment_bytes: u64,
    /// The descriptor.
    pub(crate) fd: OwnedFd,
}

/// Sends `segments` in one message.
pub(crate) fn send_segments(
    stream: &UnixStream,
    segments: &[OfferedSegment<'_>],
    deadline: Instant,
) -> Result<(), RendezvousError> {
    verify_peer(stream)?;
    if segments.len() > RENDEZVOUS_SEGMENTS_MAX {
        return Err(RendezvousError::Count { count: segments.len() as u64 });
    }
    for &OfferedSegment { id, segment_bytes, .. } in segments {
        check_length(id, segment_bytes)?;
    }
    let body = message::encode(segments);
    transport::send(stream, &body, segments, deadline)
}

/// Receives the segments of one message. After an error the stream is in an unknown state: drop it.
pub(crate) fn recv_segments(
    stream: &UnixStream,
    deadline: Instant,
) -> Result<Vec<ReceivedSegment>, RendezvousError> {
    verify_peer(stream)?;
    let mut descriptors = Vec::new();
    let mut header = [0; message::HEADER_BYTES];
    transport::recv(stream, &mut header, &mut descriptors, deadline)?;
    let count = message::decode_count(&header)?;
    let mut body = vec![0; count * message::ENTRY_BYTES];
    transport::recv(stream, &mut body, &mut descriptors, deadline)?;
    if descriptors.len() != count {
        return Err(RendezvousError::Descriptors { count, descriptors: descriptors.len() });
    }
    let entries = message::decode_entries(&body);
    let mut segments = Vec::with_capacity(count);
    for ((id, segment_bytes), fd) in entries.zip(descriptors) {
        check_length(id, segment_bytes)?;
        segments.push(ReceivedSegment { id, segment_bytes, fd });
    }
    Ok(segments)
}

fn check_length(id: u128, segment_bytes: u64) -> Result<(), RendezvousError> {
    if (1..=SEGMENT_BYTES_MAX).contains(&segment_bytes) {
        return Ok(());
    }
    Err(RendezvousError::Length { id, segment_bytes })
}

/// Waits until `stream` is ready for `wanted`.
fn wait(stream: &UnixStream, wanted: PollFlags, deadline: Instant) -> Result<(), RendezvousError> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(RendezvousError::Deadline);
        }
        // Rounded up: a wait of zero milliseconds would spin.
        let left = left.saturating_add(Duration::from_millis(1));
        let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
        match poll(&mut [PollFd::new(stream.as_fd(), wanted)], timeout) {
            Ok(0) | Err(nix::errno::Errno::EINTR) => {}
            Ok(_) => return Ok(()),
            Err(errno) => return Err(errno.into()),
        }
    }
}
