//! Who has which memory, and where: segment documents, the metadata servers that keep them, and
//! the handshake between two peers.
//!
//! Invariant: every call ends by a deadline, and nothing that a metadata server or a peer sends
//! can make this crate panic, hang, or take more memory than [`limits`] allows.
#![forbid(unsafe_code)]

mod address;
pub mod directory;
pub mod document;
mod error;
pub mod handshake;
pub mod limits;
pub mod message;
mod own_address;
pub mod settings;

pub use address::{resolve, service_addresses};
pub use directory::{Compose, Directory};
pub use document::{BufferEntry, DeviceEntry, Extra, SegmentDocument, new_epoch};
pub use error::{DiscoveryError, DocumentError, HandshakeError};
pub use handshake::handler::Handler;
pub use handshake::{BoundServer, HandshakeClient, HandshakeServer};
pub use message::{ConnectionMessage, NotifyMessage, RpcMeta};
pub use own_address::{OwnAddress, interface_addresses, routable};
pub use settings::DiscoverySettings;
