//! The process of a client as the threads of its disks see it. Invariant: a wait here blocks the
//! thread that waits, which does nothing else, so no wait is ever left unfinished.

use super::context::{DiskContext, OwnedDisk};
use super::owner::{DiskCalls, DiskOwner};
use super::saving::SavedRound;
use crate::donation::Donation;
use crate::ledger::VoidCopies;
use perigee_rpc::{CallError, DemotionBatch, EndedDemotion, FoundCopy, MasterClient, Tombstone};
use perigee_schemas::{Identity, Status};
use perigee_ssd::{Answer, Unanswered};
use perigee_transfer::SegmentTable;
use std::sync::Arc;
use std::sync::MutexGuard;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// What a thread of the disks works with.
#[derive(Clone, Debug)]
pub(super) struct OnThread(pub(super) Arc<DiskContext>);

impl OnThread {
    fn donation(&self) -> &Donation {
        &self.0.donation
    }
}

impl DiskOwner for OnThread {
    type Master = MasterClient;
    type Order<'a> = MutexGuard<'a, ()>;

    fn master(&self) -> &MasterClient {
        &self.0.master
    }

    fn table(&self) -> &SegmentTable {
        self.donation().table()
    }

    fn mounts(&self) -> u64 {
        self.0.mounts.load(Ordering::Acquire)
    }

    fn void(&self) -> &VoidCopies {
        &self.0.void
    }

    fn withdraw(&self, disk: Identity) {
        self.donation().remove(disk);
    }

    fn must_leave(&self, disk: Identity) -> bool {
        self.0.must_leave(disk)
    }

    fn note_left(&self, disk: Identity) {
        self.0.note_left(disk);
    }

    fn take_returned(&self) -> Vec<OwnedDisk> {
        self.0.take_returned()
    }

    fn leaves(&self) -> bool {
        self.0.saving.is_wanted()
    }

    fn note_saved(&self, round: SavedRound) {
        self.0.saving.note(round);
    }

    async fn in_order(&self) -> MutexGuard<'_, ()> {
        self.0.in_order()
    }

    fn now(&self) -> Duration {
        self.0.began.elapsed()
    }

    async fn sleep(&self, length: Duration) {
        std::thread::sleep(length);
    }

    async fn notified(&self, heard: &mut u64, pause: Duration) -> bool {
        self.0.signal.wait(heard, pause)
    }

    async fn answered<T: Send + 'static>(
        &self,
        answer: Answer<T>,
        limit: Duration,
    ) -> Result<T, Unanswered> {
        answer.wait(limit)
    }
}

impl DiskCalls for MasterClient {
    async fn fetch_demotions(&self, limit: u32, leaves: bool) -> Result<DemotionBatch, CallError> {
        Self::fetch_demotions(self, limit, leaves)
    }

    async fn end_demotions(&self, ended: &[EndedDemotion<'_>]) -> Result<Vec<Status>, CallError> {
        Self::end_demotions(self, ended)
    }

    async fn fetch_tombstones(
        &self,
        disk: Identity,
        limit: u32,
    ) -> Result<Result<Vec<Tombstone>, Status>, CallError> {
        Self::fetch_tombstones(self, disk, limit)
    }

    async fn confirm_tombstones(
        &self,
        disk: Identity,
        numbers: &[u64],
    ) -> Result<Status, CallError> {
        Self::confirm_tombstones(self, disk, numbers)
    }

    async fn announce_copies(
        &self,
        disk: Identity,
        copies: &[FoundCopy<'_>],
        is_last: bool,
    ) -> Result<Vec<Status>, CallError> {
        Self::announce_copies(self, disk, copies, is_last)
    }

    async fn tell_recycled(&self, disk: Identity, oldest: u32) -> Result<Status, CallError> {
        Self::tell_recycled(self, disk, oldest)
    }

    async fn unmount_disk(&self, disk: Identity) -> Result<(), CallError> {
        self.unmount(&[disk], 0).map(drop)
    }
}
