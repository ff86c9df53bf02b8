//! Passing segments to a process of the same user on the same host, over a Unix socket.
//! Invariant: a descriptor is sent to or taken from nobody but our own user, and nothing a peer says
//! about lengths or counts is believed before it is compared with a limit.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};

use crate::limits::{RENDEZVOUS_SEGMENTS_MAX, SEGMENT_BYTES_MAX};

mod address;
mod message;
mod process;
#[cfg(test)]
mod tests;
mod transport;

pub use address::{connect, listen};
pub(crate) use process::peer_process;

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

/// The process at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerIdentity {
    /// Its process id when it connected.
    pub pid: i32,
    /// Its user.
    pub uid: u32,
}

/// Why segments were not passed.
#[derive(Debug, thiserror::Error)]
pub enum RendezvousError {
    /// Another user's process.
    #[error(
        "The peer (process {pid}) runs as user {theirs} and this one as {ours}; run both as one user"
    )]
    ForeignUser {
        /// Its process.
        pid: i32,
        /// Its user.
        theirs: u32,
        /// Our user.
        ours: u32,
    },
    /// The deadline came first.
    #[error("The peer did not answer in time")]
    Deadline,
    /// The peer closed the socket in the middle.
    #[error("The peer closed the connection after {received_bytes} bytes of a message")]
    Closed {
        /// Bytes of the message that had come.
        received_bytes: usize,
    },
    /// Something else than a rendezvous message.
    #[error("The peer does not speak the rendezvous protocol (it began with {magic:#018x})")]
    Magic {
        /// What stood where the magic number belongs.
        magic: u64,
    },
    /// More segments than a message may hold.
    #[error("{count} segments in one message are more than the {RENDEZVOUS_SEGMENTS_MAX} allowed")]
    Count {
        /// Segments announced or offered.
        count: u64,
    },
    /// As many descriptors as segments must come.
    #[error("{count} segments came with {descriptors} descriptors")]
    Descriptors {
        /// Segments announced.
        count: usize,
        /// Descriptors that came.
        descriptors: usize,
    },
    /// A length that no segment has.
    #[error("Segment {id:#034x} cannot have {segment_bytes} bytes")]
    Length {
        /// The segment.
        id: u128,
        /// The length announced or offered.
        segment_bytes: u64,
    },
    /// A name that no abstract socket can have.
    #[error(
        "The socket name {name:?} must have 1 to {} bytes",
        crate::limits::ABSTRACT_NAME_BYTES_MAX
    )]
    Name {
        /// The name.
        name: String,
    },
    /// The socket failed.
    #[error("The rendezvous socket failed: {0}")]
    Socket(#[from] io::Error),
}

impl From<nix::errno::Errno> for RendezvousError {
    fn from(errno: nix::errno::Errno) -> RendezvousError {
        RendezvousError::Socket(errno.into())
    }
}

/// Who is at the other end, if it is our own user.
pub fn verify_peer(stream: &UnixStream) -> Result<PeerIdentity, RendezvousError> {
    let credentials = getsockopt(stream, PeerCredentials)?;
    let peer = PeerIdentity {
        pid: credentials.pid(),
        uid: credentials.uid(),
    };
    require_user(peer, nix::unistd::geteuid().as_raw())
}

/// `peer`, if it runs as the user `ours`.
fn require_user(peer: PeerIdentity, ours: u32) -> Result<PeerIdentity, RendezvousError> {
    if peer.uid != ours {
        return Err(RendezvousError::ForeignUser {
            pid: peer.pid,
            theirs: peer.uid,
            ours,
        });
    }
    Ok(peer)
}

/// Sends `segments` in one message.
pub(crate) fn send_segments(
    stream: &UnixStream,
    segments: &[OfferedSegment<'_>],
    deadline: Instant,
) -> Result<(), RendezvousError> {
    verify_peer(stream)?;
    if segments.len() > RENDEZVOUS_SEGMENTS_MAX {
        return Err(RendezvousError::Count {
            count: segments.len() as u64,
        });
    }
    for &OfferedSegment {
        id, segment_bytes, ..
    } in segments
    {
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
        return Err(RendezvousError::Descriptors {
            count,
            descriptors: descriptors.len(),
        });
    }
    let entries = message::decode_entries(&body);
    let mut segments = Vec::with_capacity(count);
    for ((id, segment_bytes), fd) in entries.zip(descriptors) {
        check_length(id, segment_bytes)?;
        segments.push(ReceivedSegment {
            id,
            segment_bytes,
            fd,
        });
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
