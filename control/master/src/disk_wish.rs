//! What is to become of a replica that goes, as far as disks are concerned.

use crate::write_budget::AdmissionLevel;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DiskWish {
    /// No disk need have it, or none can.
    None,
    /// This disk is to have a copy first.
    To(u32),
    /// A disk is to have a copy, and takes none before its owner has answered for it.
    Soon,
    /// Its owner's disks have room, but no budget for it; what they take instead.
    Refused(AdmissionLevel),
}
