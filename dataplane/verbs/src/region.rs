//! Registered memory.
//! Invariant: after [`Region::revoke`] returns, no peer reads or writes the memory through this
//! region's keys, whatever was in flight.

use std::fmt;

use crate::error::VerbsError;

/// What a region allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RegionAccess {
    /// The own device may write: needed for the target of a READ, and for `remote_write`.
    pub local_write: bool,
    /// Peers may read.
    pub remote_read: bool,
    /// Peers may write.
    pub remote_write: bool,
}

impl RegionAccess {
    /// Source and target of own requests; nothing for peers.
    pub const LOCAL: RegionAccess =
        RegionAccess { local_write: true, remote_read: false, remote_write: false };
    /// Own requests, and peers may read and write.
    pub const ALL: RegionAccess =
        RegionAccess { local_write: true, remote_read: true, remote_write: true };
    /// Peers may read; no device writes. Fits memory that is mapped without write permission.
    pub const REMOTE_READ: RegionAccess =
        RegionAccess { local_write: false, remote_read: true, remote_write: false };
}

/// One registration with one device. Dropping it revokes it.
pub trait Region: Send + Sync + fmt::Debug {
    /// First byte.
    fn address(&self) -> u64;

    /// Length.
    fn bytes(&self) -> u64;

    /// Key for [`crate::work::Sge::local_key`].
    fn local_key(&self) -> u32;

    /// Key that lets a peer in, as far as `access` allows.
    fn remote_key(&self) -> u32;

    /// What it was registered for.
    fn access(&self) -> RegionAccess;

    /// Ends the registration now. Work in flight on it fails with an error completion, here or at
    /// the peer. Doing it twice is fine.
    fn revoke(&self) -> Result<(), VerbsError>;

    /// Whether it was revoked.
    fn revoked(&self) -> bool;
}
