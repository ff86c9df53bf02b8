//! Objects on disks of this process that are brought to memory: their bytes go from the memory of
//! the disk to their new place, and what a client has read lately is not read again.
//! Invariant: a copy is good only if its bytes have the checksum of the object's writer; bytes that
//! do not are read from the disk once more.

use super::job::WriteJob;
use super::outcome::Outcome;
use crate::activity::trace_own_disk;
use crate::disk_piece::disk_piece;
use crate::error::TransferError;
use crate::limits::{DISK_READ_DEADLINE, PROMOTED_BYTES};
use crate::place::ReplicaAddress;
use crate::segments::SegmentTable;
use perigee_memory::ByteRange;
use perigee_mover::{Guard, Piece};
use perigee_schemas::extent::generation_offset;
use perigee_shard::monotonic;
use perigee_ssd::{Disk, DiskPiece, ReadError, StagedBytes};

/// One object on a disk of this process that gets a copy elsewhere.
#[derive(Clone, Copy, Debug)]
pub struct PromotionJob<'a> {
    /// Where it lies.
    pub source: &'a ReplicaAddress,
    /// Where the copy goes.
    pub target: &'a ReplicaAddress,
    /// CRC-32C of the object.
    pub checksum: u32,
}

/// Where bytes of an object to be promoted come from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Freshness {
    /// From a read of a client, if there was one lately.
    Lately,
    Disk,
}

impl PromotionJob<'_> {
    fn piece(&self) -> Option<DiskPiece> {
        let ReplicaAddress { offset, payload_bytes, generation, .. } = *self.source;
        let word = offset.checked_add(generation_offset(payload_bytes))?;
        let guard = Guard::new(word, generation);
        disk_piece(&Piece::new(offset, payload_bytes), Some(&guard))
    }
}

/// Brings objects from the disks of a process to other places.
pub(super) struct Promoter<'a, W> {
    pub(super) own: &'a SegmentTable,
    /// Writes objects whose bytes stay as they are until it returns.
    pub(super) write: W,
}

impl<W: Fn(&[WriteJob<'_>]) -> Outcome<u32>> Promoter<'_, W> {
    /// Copies objects from disks of this process to other places.
    pub(super) fn promote(&self, jobs: &[PromotionJob<'_>]) -> Outcome<()> {
        let mut outcome = self.promote_all(jobs, Freshness::Lately);
        let is_wrong = |at: &usize| matches!(outcome[*at], Err(TransferError::Checksum { .. }));
        let wrong: Vec<usize> = (0..jobs.len()).filter(is_wrong).collect();
        let again: Vec<_> = wrong.iter().map(|at| jobs[*at]).collect();
        for (at, result) in wrong.into_iter().zip(self.promote_all(&again, Freshness::Disk)) {
            outcome[at] = result;
        }
        outcome
    }

    /// In steps: what is read has the memory of its disk until it is copied.
    fn promote_all(&self, jobs: &[PromotionJob<'_>], freshness: Freshness) -> Outcome<()> {
        let mut outcome = Vec::with_capacity(jobs.len());
        while outcome.len() < jobs.len() {
            let left = &jobs[outcome.len()..];
            outcome.extend(self.promote_step(&left[..step_len(left)], freshness));
        }
        debug_assert_eq!(outcome.len(), jobs.len(), "one outcome per object");
        outcome
    }

    fn promote_step(&self, jobs: &[PromotionJob<'_>], freshness: Freshness) -> Outcome<()> {
        let read = self.read_own_disks(jobs, freshness);
        let good: Vec<usize> = (0..jobs.len()).filter(|at| read[*at].is_ok()).collect();
        let bytes: Vec<[ByteRange; 1]> =
            read.iter().flatten().map(|staged| [ByteRange::from(staged.as_slice())]).collect();
        let place = |(at, pieces): (&usize, &'_ [ByteRange; 1])| (jobs[*at].target, *pieces);
        let placed: Vec<_> = good.iter().zip(&bytes).map(place).collect();
        let writes: Vec<WriteJob<'_>> =
            placed.iter().map(|(place, pieces)| WriteJob { place, pieces }).collect();
        let written = (self.write)(&writes);
        assert_eq!(written.len(), good.len(), "one outcome per copy");
        let mut outcome: Outcome<()> = read.into_iter().map(|read| read.map(drop)).collect();
        for (at, written) in good.into_iter().zip(written) {
            let expected = jobs[at].checksum;
            outcome[at] = written.and_then(|found| match found == expected {
                true => Ok(()),
                false => Err(TransferError::Checksum { found, expected }),
            });
        }
        outcome
    }

    /// All disks are asked before the first one is waited for.
    fn read_own_disks(
        &self,
        jobs: &[PromotionJob<'_>],
        freshness: Freshness,
    ) -> Outcome<StagedBytes> {
        let gone = || Err(TransferError::Stale);
        let mut outcome: Outcome<StagedBytes> = jobs.iter().map(|_| gone()).collect();
        let mut calls: Vec<(Disk, Vec<usize>, Vec<DiskPiece>)> = Vec::new();
        for (at, job) in jobs.iter().enumerate().filter(|(_, job)| job.source.is_in_bounds()) {
            let id = job.source.segment.id;
            let (Some(disk), Some(piece)) = (self.own.disk(id), job.piece()) else { continue };
            match calls.iter_mut().find(|(_, ats, _)| jobs[ats[0]].source.segment.id == id) {
                Some((_, ats, pieces)) => {
                    ats.push(at);
                    pieces.push(piece);
                }
                None => calls.push((disk, vec![at], vec![piece])),
            }
        }
        let asked = monotonic();
        let ask = |(disk, ats, pieces): (Disk, Vec<usize>, Vec<DiskPiece>)| {
            let bytes: u64 = pieces.iter().map(|piece| u64::from(piece.bytes)).sum();
            let answer = match freshness {
                Freshness::Lately => disk.read_for_memory(pieces),
                Freshness::Disk => disk.reread_for_memory(pieces),
            };
            (ats, bytes, answer)
        };
        for (ats, bytes, answer) in calls.into_iter().map(ask).collect::<Vec<_>>() {
            let read = answer.wait(DISK_READ_DEADLINE);
            trace_own_disk(bytes, asked, read.is_ok());
            let late = || ats.iter().map(|_| Err(ReadError::Late)).collect();
            for (at, read) in ats.iter().zip(read.unwrap_or_else(|_| late())) {
                outcome[*at] = read.map_err(super::disk_jobs::error);
            }
        }
        outcome
    }
}

/// How many of the first objects are brought together: as many as fit, at least one.
fn step_len(jobs: &[PromotionJob<'_>]) -> usize {
    let mut bytes = 0u64;
    let fits = |job: &&PromotionJob<'_>| {
        bytes = bytes.saturating_add(job.source.payload_bytes);
        bytes <= PROMOTED_BYTES
    };
    jobs.iter().take_while(fits).count().max(1)
}
