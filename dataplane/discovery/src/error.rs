//! Why a peer or a document could not be found or used. Invariant: every text names the request and
//! the server or peer.

use crate::limits::FRAME_BYTES_MAX;
use perigee_settings::SettingError;
use std::time::Duration;

/// Why a document or a message is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DocumentError {
    /// It is not JSON, or a field has the wrong type.
    #[error("Not a valid {what}: {reason}")]
    Malformed {
        /// Kind of document.
        what: &'static str,
        /// What the parser says.
        reason: String,
    },
    /// A field holds more than is allowed.
    #[error("{field} has {found}, more than the {limit} that are allowed")]
    TooLarge {
        /// Name of the field in the document.
        field: &'static str,
        /// What it has: bytes or entries.
        found: usize,
        /// Most that is allowed.
        limit: usize,
    },
    /// A required text is empty.
    #[error("{field} is empty")]
    Empty {
        /// Name of the field in the document.
        field: &'static str,
    },
    /// A buffer reaches past the end of the address space.
    #[error("Buffer at {address:#x} of {bytes} bytes wraps around")]
    Wraps {
        /// First byte.
        address: u64,
        /// Length.
        bytes: u64,
    },
}

/// Why one exchange with a peer failed. The peer is `host:port`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HandshakeError {
    /// The peer's name has no address.
    #[error("Name of peer {peer} cannot be resolved: {reason}")]
    Unresolved {
        /// Name of the peer, as the caller wrote it.
        peer: String,
        /// What the resolver says.
        reason: String,
    },
    /// The peer cannot be reached.
    #[error(
        "Peer {peer} cannot be reached: {reason}; check that it runs and that the port is open"
    )]
    Unreachable {
        /// Name of the peer, as the caller wrote it.
        peer: String,
        /// What kind of answer the kernel gave.
        kind: std::io::ErrorKind,
        /// The kernel's answer.
        reason: String,
    },
    /// The connection broke.
    #[error("Peer {peer} broke off the handshake: {reason}")]
    Broken {
        /// Name of the peer, as the caller wrote it.
        peer: String,
        /// What happened.
        reason: String,
    },
    /// The peer did not answer in time.
    #[error("Peer {peer} did not answer within {deadline:?}")]
    Deadline {
        /// Name of the peer, as the caller wrote it.
        peer: String,
        /// The time it had.
        deadline: Duration,
    },
    /// The peer answered that it will not.
    #[error("Peer {peer} refused: {reason}")]
    Refused {
        /// Name of the peer, as the caller wrote it.
        peer: String,
        /// Its words.
        reason: String,
    },
    /// What came is not a frame of the handshake.
    #[error("{0}")]
    Frame(#[from] HandshakeFrameError),
    /// The answer is a frame, but not one that fits the question.
    #[error("Peer {peer} sent an unusable answer: {error}")]
    Answer {
        /// Name of the peer, as the caller wrote it.
        peer: String,
        /// What is wrong with it.
        error: DocumentError,
    },
}

/// Why bytes are not a frame of the handshake.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HandshakeFrameError {
    /// Longer than allowed.
    #[error(
        "Handshake frame of {bytes} bytes is longer than {limit}; MC_HANDSHAKE_MAX_LENGTH raises \
         the limit up to {FRAME_BYTES_MAX}"
    )]
    TooLong {
        /// Length announced.
        bytes: u64,
        /// Most that is allowed.
        limit: usize,
    },
    /// No content.
    #[error("Handshake frame is empty")]
    Empty,
    /// The type byte is none of ours.
    #[error("Handshake frame has the unknown type {0}")]
    UnknownKind(u8),
}

/// Why discovery failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DiscoveryError {
    /// The metadata server string names no backend.
    #[error(
        "Metadata server {given:?} is not understood; write P2PHANDSHAKE, http://host:port/metadata, \
         https://…, etcd://host:2379[,host:2379…] or redis://host:6379"
    )]
    UnknownScheme {
        /// What was given.
        given: String,
    },
    /// A setting has an impossible value.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// The metadata server cannot be used.
    #[error(
        "Metadata server {server} failed: {reason}; check that it runs and that metadata_server is right"
    )]
    Backend {
        /// Its address, without a password.
        server: String,
        /// What happened.
        reason: String,
    },
    /// The name is not registered.
    #[error(
        "{name} is not registered at {server}; check that the peer runs and uses the same metadata server and MC_METADATA_CLUSTER_ID"
    )]
    NotFound {
        /// The name asked for.
        name: String,
        /// Where it was looked for.
        server: String,
    },
    /// A living engine has this name.
    #[error(
        "Name {name} is taken by a running engine at {holder}; give this one another local name or port"
    )]
    NameTaken {
        /// Name under which the engine is registered.
        name: String,
        /// `host:port` of the engine that answered.
        holder: String,
    },
    /// It cannot be determined from here whether the engine with this name is alive.
    #[error(
        "Name {name} is registered for an engine at {holder} that may be running: {reason}; give this one another local \
         name, or remove that entry if the engine is gone for good"
    )]
    NameUnclear {
        /// Name under which the engine is registered.
        name: String,
        /// `host:port` that is registered.
        holder: String,
        /// Why its liveness is unclear.
        reason: String,
    },
    /// Another engine took the name while this one did not answer.
    #[error(
        "Entry {key} now belongs to another engine, which took the name while this one did not \
         answer; restart this engine under another name"
    )]
    Lost {
        /// The entry.
        key: String,
    },
    /// The handshake port cannot be had.
    #[error("Handshake port {address} cannot be used: {reason}; free it or give another port")]
    Port {
        /// Address and port.
        address: String,
        /// The kernel's answer.
        reason: String,
    },
    /// No port of the range is free.
    #[error(
        "No port from {first} to {last} is free on {address}; widen MC_MIN_RPC_PORT and MC_MAX_RPC_PORT"
    )]
    NoFreePort {
        /// Address that cannot be listened on, `IP:PORT`.
        address: String,
        /// First port tried.
        first: u16,
        /// Last port tried.
        last: u16,
    },
    /// The operating system refused something.
    #[error("{what} failed: {reason}")]
    System {
        /// What was tried.
        what: &'static str,
        /// The kernel's answer.
        reason: String,
    },
    /// A document is not usable.
    #[error("Document of {name} is not usable: {error}")]
    Document {
        /// Whose document.
        name: String,
        /// What is wrong with it.
        error: DocumentError,
    },
    /// A peer did not answer, or not usefully.
    #[error(transparent)]
    Handshake(#[from] HandshakeError),
    /// The directory was closed.
    #[error("The directory is closed")]
    Closed,
}
