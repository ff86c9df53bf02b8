//! Disks in the space of a shard: which of them take copies, and from where on their logs can be
//! read. Invariant: their owners hand out what lies there; the shard only counts it.

use perigee_schemas::disk_address::DiskAddress;

use super::Space;
use crate::share::SegmentShare;

impl Space {
    /// Disks that are mounted, in order.
    pub(crate) fn disks(&self) -> &[u32] {
        &self.disks
    }

    /// The disks of a client that take a copy of so many bytes, with their shares.
    pub(crate) fn disks_for(
        &self,
        client: u128,
        bytes: u64,
    ) -> impl Iterator<Item = (u32, &SegmentShare)> {
        let disks = self.disks.iter().filter_map(|disk| Some((*disk, self.get(*disk)?)));
        disks.filter(move |(_, share)| share.spec.client == client && share.takes_copies(bytes))
    }

    /// Whether a client has a disk that is going to take a copy of so many bytes.
    pub(crate) fn has_disk_soon(&self, client: u128, bytes: u64, now_ms: u64) -> bool {
        let mut disks = self.disks.iter().filter_map(|disk| self.get(*disk));
        disks.any(|share| share.spec.client == client && share.takes_copies_soon(bytes, now_ms))
    }

    /// Identity of a disk; 0 if it is not known.
    pub(crate) fn disk_id(&self, disk: u32) -> u128 {
        self.get(disk).map_or(0, |share| share.spec.id)
    }

    /// Bytes are on their way to a disk, or no more if they are negative.
    pub(crate) fn count_coming(&mut self, disk: u32, bytes: i64) {
        if let Some(share) = self.get_mut(disk) {
            share.coming_bytes = share.coming_bytes.saturating_add_signed(bytes);
        }
    }

    /// The log of a disk begins at this segment now; its numbers only grow.
    pub(crate) fn recycle(&mut self, disk: u32, oldest: u32) {
        if let Some(share) = self.get_mut(disk).filter(|share| share.is_disk()) {
            share.oldest_sequence = share.oldest_sequence.max(oldest);
        }
    }

    /// A copy of so many bytes is on a disk, or no more if they are negative.
    pub(crate) fn count_copy(&mut self, disk: u32, payload_bytes: i64) {
        if let Some(share) = self.get_mut(disk) {
            debug_assert!(share.is_disk(), "memory is counted by its allocator");
            share.copied_bytes = share.copied_bytes.saturating_add_signed(payload_bytes);
        }
    }

    /// Whether what lies at an address of a disk can be read.
    pub(crate) fn has_address(&self, disk: u32, address: DiskAddress) -> bool {
        let share = self.readable(disk);
        share.is_some_and(|share| address.sequence >= share.oldest_sequence)
    }

    /// The owner of a disk has said all that lies there.
    pub(crate) fn note_heard(&mut self, disk: u32) {
        if let Some(share) = self.get_mut(disk) {
            share.is_unheard = false;
        }
    }
}
