//! What owners say of their disks.
//! Invariant: the health decides whether a disk takes copies; the texts are only shown.

use perigee_schemas::DiskHealth;

/// How a disk is, as its owner sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskReport {
    /// Identity of the disk; 0 if it could not be opened.
    pub disk: u128,
    /// How far it can be used.
    pub health: DiskHealth,
    /// The folder that its user has named.
    pub path: String,
    /// Why it is not healthy.
    pub reason: String,
}
