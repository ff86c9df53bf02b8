//! What is asked of a disk. Invariant: a call whose disk has gone learns it, because its promise is
//! dropped.

use super::error::{ListError, ReadError, WriteError};
use super::listing::{ListCursor, ListedPage};
use super::shared_reads::ReadSource;
use crate::answer::AnswerPromise;
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
    /// Generation of the copy, as the master allocated it.
    pub generation: u64,
}

/// A copy that a reader could not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExaminedCopy {
    /// Hash of its key.
    pub hash: u64,
    /// Generation of the copy.
    pub generation: u64,
    /// Where it lies.
    pub address: DiskAddress,
    /// Length of the object.
    pub payload_bytes: u32,
}

/// What a disk has where a copy was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyFinding {
    /// The copy as it was written.
    Intact,
    /// Other bytes.
    Damaged,
    /// It could not be read, or its segment has gone.
    Unread,
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

pub(super) type WritePromise = AnswerPromise<Vec<Result<DiskAddress, WriteError>>>;
pub(super) type VoidPromise = AnswerPromise<Result<(), WriteError>>;
pub(super) type ReadPromise = AnswerPromise<Vec<Result<StagedBytes, ReadError>>>;
pub(super) type ExaminePromise = AnswerPromise<Vec<CopyFinding>>;
pub(super) type ListPromise = AnswerPromise<Result<ListedPage, ListError>>;

/// What the door asks.
pub(super) enum DiskCommand {
    Write(Vec<Outgoing>, WritePromise),
    Bury(Vec<VoidCopy>, VoidPromise),
    Read(Vec<DiskPiece>, ReadSource, ReadPromise),
    Examine(Vec<ExaminedCopy>, ExaminePromise),
    List(Option<ListCursor>, ListPromise),
    RemoveAll(VoidPromise),
    Close(Option<AnswerPromise<()>>),
}
