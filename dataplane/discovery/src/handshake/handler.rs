//! What an engine answers to handshakes.
//! Invariant: an answer blocks its own thread only.

use crate::document::SegmentDocument;
use crate::message::{ConnectionMessage, NotifyMessage};

/// What an engine answers its peers. Calls come from up to
/// [`HANDLERS_MAX`](crate::limits::HANDLERS_MAX) threads of the server; each should end within
/// [`ANSWER_DEADLINE`](crate::limits::ANSWER_DEADLINE), after which the peer is sent away.
pub trait Handler: Send + Sync + 'static {
    /// A peer wants to connect queue pairs.
    ///
    /// # Errors
    /// The reason for a refusal, which the peer gets.
    fn connection(&self, message: ConnectionMessage) -> Result<ConnectionMessage, String>;

    /// A peer asks for this engine's document and, in P2P mode, sends its own. `None` = there is
    /// none yet. Answer in every mode: another engine that was given the same name asks this way
    /// whether the holder of the name lives.
    fn metadata(&self, peer: Option<SegmentDocument>) -> Option<SegmentDocument>;

    /// A peer's application sends a message.
    ///
    /// # Errors
    /// The reason for a refusal, which the peer gets.
    fn notify(&self, message: NotifyMessage) -> Result<(), String>;

    /// A peer asks whether this engine lives.
    fn probe(&self) -> bool {
        true
    }
}
