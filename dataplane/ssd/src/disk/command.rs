//! What is asked of a disk. Invariant: a call whose disk has gone learns it, because its promise is
//! dropped.

use super::error::{ReadError, WriteError};
use crate::answer::Promise;
use crate::log::NewObject;
use crate::source::ImageSource;
use crate::stage::StagedBytes;
use perigee_schemas::disk_address::DiskAddress;

/// An object to write, and where its image is.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// What it is.
    pub object: NewObject,
    /// Its extent in memory.
    pub source: ImageSource,
}

/// A copy that must not come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VoidCopy {
    /// Hash that it was written under.
    pub hash: u128,
    /// Its generation.
    pub generation: u64,
}

/// Bytes of an image to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskPiece {
    /// Of the first byte.
    pub address: DiskAddress,
    /// How many.
    pub bytes: u32,
    /// Where in the same segment the generation of the image is, and which one it must be.
    pub guard: Option<(DiskAddress, u64)>,
}

pub(super) type WritePromise = Promise<Vec<Result<DiskAddress, WriteError>>>;
pub(super) type VoidPromise = Promise<Result<(), WriteError>>;
pub(super) type ReadPromise = Promise<Vec<Result<StagedBytes, ReadError>>>;

/// What the door asks.
pub(super) enum Command {
    Write(Vec<Outgoing>, WritePromise),
    Bury(Vec<VoidCopy>, VoidPromise),
    Read(Vec<DiskPiece>, ReadPromise),
    RemoveAll(VoidPromise),
    Close(Option<Promise<()>>),
}
