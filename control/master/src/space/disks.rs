//! Disks in the space of a shard: which of them take copies, and from where on their logs can be
//! read. Invariant: their owners hand out what lies there; the shard only counts it.

use perigee_schemas::disk_address::DiskAddress;
use perigee_schemas::{DiskHealth, Status};

use crate::limits::{DISK_TRIAL_MS, DISK_TURN_BYTES_MAX};
use crate::share::{SegmentShare, ShareState};

use super::Space;

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

    /// Whether a client has a disk, whatever that takes.
    pub(crate) fn has_disk(&self, client: u128) -> bool {
        let mut disks = self.disks.iter().filter_map(|disk| self.get(*disk));
        disks.any(|share| share.spec.client == client)
    }

    /// Disks that take no copies because of what their owners say of them.
    pub(crate) fn ailing_disks(&self) -> u64 {
        let disks = self.disks.iter().filter_map(|disk| self.get(*disk));
        disks.filter(|share| share.health != DiskHealth::Healthy).count() as u64
    }

    /// The owner of a disk has said how it is.
    pub(crate) fn note_health(&mut self, disk: u32, health: DiskHealth, now_ms: u64) {
        if let Some(share) = self.get_mut(disk) {
            share.health = health;
            share.trial_ms = now_ms.saturating_add(DISK_TRIAL_MS);
        }
    }

    /// What the owner of a disk has said last.
    pub(crate) fn health(&self, disk: u32) -> DiskHealth {
        self.get(disk).map_or(DiskHealth::Healthy, |share| share.health)
    }

    /// Disks whose owners say that nothing can be written, and find out by writing: those that are
    /// due to be tried.
    pub(crate) fn disks_to_try(&self, now_ms: u64) -> impl Iterator<Item = u32> {
        self.disks.iter().copied().filter(move |disk| {
            self.get(*disk).is_some_and(|share| {
                let finds_out = matches!(share.health, DiskHealth::Full | DiskHealth::ReadOnly);
                finds_out && share.state == ShareState::Live && share.trial_ms <= now_ms
            })
        })
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

    /// A disk of a client gets bytes: the others are nearer to their turn by their size.
    pub(crate) fn count_turn(&mut self, client: u128, disk: u32, bytes: u64) {
        let of_client = |space: &Self, disk: &u32| {
            let share = space.get(*disk).filter(|share| share.spec.client == client);
            share.map_or(0, |share| u128::from(share.segment_usable_bytes))
        };
        let all: u128 = self.disks.iter().map(|disk| of_client(self, disk)).sum();
        for other in self.disks.clone() {
            let part = of_client(self, &other) * u128::from(bytes) / all.max(1);
            let taken = if other == disk { bytes } else { 0 };
            if let Some(share) = self.get_mut(other).filter(|share| share.spec.client == client) {
                let turn = i128::from(share.turn_bytes) + part as i128 - i128::from(taken);
                let bound = i128::from(DISK_TURN_BYTES_MAX);
                share.turn_bytes = turn.clamp(-bound, bound) as i64;
            }
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

    /// Whether the owner of a disk is still to say what lies there.
    pub(crate) fn is_unheard(&self, disk: u32) -> bool {
        self.get(disk).is_some_and(|share| share.is_unheard)
    }

    /// Whether a client has mounted a disk.
    ///
    /// # Errors
    /// `SegmentNotFound` if not.
    pub(crate) fn own_disk(&self, client: u128, disk: u32) -> Result<(), Status> {
        let share = self.readable(disk).filter(|share| share.is_disk());
        match share {
            Some(share) if share.spec.client == client => Ok(()),
            _ => Err(Status::SegmentNotFound),
        }
    }
}
