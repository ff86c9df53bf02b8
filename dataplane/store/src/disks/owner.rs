//! What the code for disks needs of the process around it: the master, a clock, the segments, and
//! a notice. A client has threads for it, the simulation has tasks.
//! Invariant: it decides nothing about a copy; that is done by what uses it.

use super::context::OwnedDisk;
use super::saving::SavedRound;
use crate::ledger::VoidCopies;
use perigee_rpc::{CallError, DemotionBatch, EndedDemotion, FoundCopy, Tombstone};
use perigee_schemas::{Identity, Status};
use perigee_ssd::{Answer, Unanswered};
use perigee_transfer::SegmentTable;
use std::future::Future;
use std::time::Duration;

/// Calls to the master about disks, as `MasterClient` has them.
pub trait DiskCalls {
    /// Takes objects that are to be written to disks.
    fn fetch_demotions(
        &self,
        limit: u32,
        leaves: bool,
    ) -> impl Future<Output = Result<DemotionBatch, CallError>>;

    /// Tells how demotions went; one verdict per demotion.
    fn end_demotions(
        &self,
        ended: &[EndedDemotion<'_>],
    ) -> impl Future<Output = Result<Vec<Status>, CallError>>;

    /// Copies on a disk that are void.
    fn fetch_tombstones(
        &self,
        disk: Identity,
        limit: u32,
    ) -> impl Future<Output = Result<Result<Vec<Tombstone>, Status>, CallError>>;

    /// Tells that void copies never come back.
    fn confirm_tombstones(
        &self,
        disk: Identity,
        numbers: &[u64],
    ) -> impl Future<Output = Result<Status, CallError>>;

    /// Announces objects that a disk has; one verdict per object.
    fn announce_copies(
        &self,
        disk: Identity,
        copies: &[FoundCopy<'_>],
        is_last: bool,
    ) -> impl Future<Output = Result<Vec<Status>, CallError>>;

    /// Tells that copies below a segment of the log are gone.
    fn tell_recycled(
        &self,
        disk: Identity,
        oldest: u32,
    ) -> impl Future<Output = Result<Status, CallError>>;

    /// Takes a disk out of use.
    fn unmount_disk(&self, disk: Identity) -> impl Future<Output = Result<(), CallError>>;
}

/// The process that has disks, as its [`super::Writer`] and [`super::Keeper`] see it.
pub trait DiskOwner {
    /// The way to the master.
    type Master: DiskCalls;
    /// Kept while objects are on their way to a disk and while one is announced: a copy must not
    /// be announced before the master has heard of its demotion.
    type Order<'a>
    where
        Self: 'a;

    /// The way to the master.
    fn master(&self) -> &Self::Master;

    /// The memory that is lent.
    fn table(&self) -> &SegmentTable;

    /// How often all was mounted; after each time all copies must be announced.
    fn mounts(&self) -> u64;

    /// Void copies that the master has named.
    fn void(&self) -> &VoidCopies;

    /// No peer reads a disk any more.
    fn withdraw(&self, disk: Identity);

    /// Whether a disk is to be taken out of use, so that it is opened again.
    fn must_leave(&self, disk: Identity) -> bool;

    /// The master does not have a disk any more: it may be opened again.
    fn note_left(&self, disk: Identity);

    /// Disks that are in use again since they were asked for last.
    fn take_returned(&self) -> Vec<OwnedDisk>;

    /// Whether the process is about to end, so that its disks are to have all that its memory has.
    fn leaves(&self) -> bool;

    /// What a round of a process that leaves has come to.
    fn note_saved(&self, round: SavedRound);

    /// Waits until no objects are on their way to a disk, and no disk is announced.
    fn in_order(&self) -> impl Future<Output = Self::Order<'_>>;

    /// Monotonic time.
    fn now(&self) -> Duration;

    /// Resolves after `length`.
    fn sleep(&self, length: Duration) -> impl Future<Output = ()>;

    /// Waits for a notice after those that were `heard`, no longer than `pause`; false when the
    /// process ends.
    fn notified(&self, heard: &mut u64, pause: Duration) -> impl Future<Output = bool>;

    /// The answer of a disk.
    fn answered<T: Send + 'static>(
        &self,
        answer: Answer<T>,
        limit: Duration,
    ) -> impl Future<Output = Result<T, Unanswered>>;
}
