//! Why segments were not passed to another process. Invariant: each error says what to do, or that
//! the peer is at fault.

use crate::limits::RENDEZVOUS_SEGMENTS_MAX;
use std::io;

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
        /// Name in the abstract namespace, without its leading zero byte.
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
