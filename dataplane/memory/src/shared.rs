//! Segments of one process used by another of the same user on the same host: handed out as
//! descriptors over a Unix socket, mapped, and taken back.
//!
//! The store and the transfer engine both stand on this: an [`Owner`] hands segments out, a
//! [`Guest`] maps those of all owners. The invariant: a guest copies only into and out of whole
//! segments that their owner lists, and no more once the owner has taken them back.

mod acceptor;
mod connection;
mod guest;
mod owner;
mod owner_memory;
mod revocation;
mod source;
#[cfg(test)]
mod tests;

pub use guest::Guest;
pub use owner::Owner;
pub use owner_memory::{OwnerMemory, SharedSegment};
pub use revocation::CopyPermit;
pub use source::SegmentSource;

/// Identity of this host's running kernel: processes with the same one may share memory. Empty if
/// it has none; then nothing is shared.
#[must_use]
pub fn host_id() -> String {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    boot.trim().to_owned()
}
