//! Why bytes did not move, naming peer, rail and cause. The first cause of a request is the one
//! that is reported.

use perigee_verbs::{CompletionStatus, VerbsError};

/// Why a request, a registration or the engine itself failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RailError {
    /// No device can be used.
    #[error("No RDMA rail can be used: {reason}")]
    NoRail {
        /// What is the matter with each.
        reason: String,
    },
    /// A device refused.
    #[error(transparent)]
    Device(#[from] VerbsError),
    /// A shard could not be started or does not answer.
    #[error("Rails cannot run: {reason}")]
    Shard {
        /// What happened.
        reason: String,
    },
    /// The engine is closed.
    #[error("The transfer engine is closed")]
    Closed,
    /// Too much is in flight.
    #[error(
        "{waiting} requests are in flight, at most {limit} are possible; wait for some of them"
    )]
    Full {
        /// Requests waiting or in flight.
        waiting: usize,
        /// The bound.
        limit: usize,
    },
    /// The peer was forgotten, or never opened.
    #[error("Peer {peer} is not open")]
    UnknownPeer {
        /// Its name, or number.
        peer: String,
    },
    /// The peer does not answer the handshake.
    #[error("Peer {peer} cannot be reached: {reason}")]
    Unreachable {
        /// Its name.
        peer: String,
        /// What the handshake met.
        reason: String,
    },
    /// The peer answers the handshake, but no write over any pair of rails came through.
    #[error("No pair of rails to peer {peer} works: {reason}; see `perigee topology --explain`")]
    NoRoute {
        /// Its name.
        peer: String,
        /// What the last proof met.
        reason: String,
    },
    /// Another process runs under the peer's name now.
    #[error("Peer {peer} was restarted: its memory is gone; look its segment up again")]
    PeerRestarted {
        /// Its name.
        peer: String,
    },
    /// A slice failed on its last try.
    #[error("Transfer with peer {peer} over {rail} failed: {cause}")]
    Failed {
        /// Its name.
        peer: String,
        /// The local device.
        rail: String,
        /// What the device reported.
        cause: CompletionStatus,
    },
    /// The peer's device let us not in.
    #[error(
        "Peer {peer} refused access to {bytes} B at {address:#x} over {rail} ({cause}): not registered, \
         revoked, or out of bounds"
    )]
    Refused {
        /// Its name.
        peer: String,
        /// The local device.
        rail: String,
        /// First byte at the peer.
        address: u64,
        /// Length.
        bytes: u64,
        /// What the device reported.
        cause: CompletionStatus,
    },
    /// Our device may not use the local memory.
    #[error("Local memory of {bytes} B at {address:#x} is not registered with {rail} ({cause})")]
    LocalMemory {
        /// The local device.
        rail: String,
        /// First byte.
        address: u64,
        /// Length.
        bytes: u64,
        /// What the device reported.
        cause: CompletionStatus,
    },
    /// A range lies outside of its registration.
    #[error(
        "Range of {bytes} B at {address:#x} lies outside of what was registered; register it first"
    )]
    OutOfBounds {
        /// First byte.
        address: u64,
        /// Length.
        bytes: u64,
    },
    /// The descriptor of remote memory may not be used any more.
    #[error("The lease on the memory of peer {peer} has run out; look its segment up again")]
    Expired {
        /// Its name.
        peer: String,
    },
    /// A descriptor or offer that makes no sense.
    #[error("Peer {peer} sent a descriptor that cannot be used: {reason}")]
    BadDescriptor {
        /// Its name.
        peer: String,
        /// What is wrong.
        reason: String,
    },
    /// The time is up.
    #[error("Peer {peer} did not finish in time; the last fault was: {last_fault}")]
    Deadline {
        /// Its name.
        peer: String,
        /// What the request met before.
        last_fault: String,
    },
    /// A queue pair broke, and the peer did not confirm that its end is gone: bytes of this request
    /// may still land.
    #[error(
        "Peer {peer} did not confirm in time that a broken queue pair is gone ({last_fault}): bytes of this \
         request may still arrive; do not reuse the target's memory before the peer is fenced or restarted"
    )]
    Unfenced {
        /// Its name.
        peer: String,
        /// What the request met before.
        last_fault: String,
    },
    /// The caller gave it up.
    #[error("Canceled")]
    Canceled,
}
