//! The handshake between two engines: one frame there, one frame back, on a TCP connection.
//!
//! Invariant: neither side waits without a deadline, and a peer that says nothing, says too much
//! or stops in the middle costs the other side one bounded entry in a table.

mod client;
pub mod frame;
mod listener;
mod server;
mod session;

pub use client::HandshakeClient;
pub use listener::BoundServer;
pub use server::HandshakeServer;

use crate::document::SegmentDocument;
use crate::message::{ConnectionMessage, NotifyMessage};

/// What an engine answers its peers. Calls come from up to
/// [`HANDLERS_MAX`](crate::limits::HANDLERS_MAX) threads of the server; each should end within
/// [`ANSWER_DEADLINE`](crate::limits::ANSWER_DEADLINE), after which the peer is sent away.
pub trait Handler: Send + Sync + 'static {
    /// A peer wants to connect queue pairs.
    ///
    /// # Errors
    /// The reason for a refusal, which the peer is told.
    fn connection(&self, message: ConnectionMessage) -> Result<ConnectionMessage, String>;

    /// A peer asks for this engine's document and, in P2P mode, sends its own. `None` = there is
    /// none yet. Answer in every mode: another engine that was given the same name asks this way
    /// whether the holder of the name lives.
    fn metadata(&self, peer: Option<SegmentDocument>) -> Option<SegmentDocument>;

    /// A peer's application sends a message.
    ///
    /// # Errors
    /// The reason for a refusal, which the peer is told.
    fn notify(&self, message: NotifyMessage) -> Result<(), String>;

    /// A peer asks whether this engine lives.
    fn probe(&self) -> bool {
        true
    }
}
