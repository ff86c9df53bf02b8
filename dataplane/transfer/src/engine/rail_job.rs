//! One job on its way over rails: what is asked of the devices first, and what after that has
//! arrived.
//!
//! A write brings the payload first and the footer when all of that has arrived. A read takes the
//! generation from the footer after the payload has arrived. Small objects travel in one message
//! with their footer.

use super::rail_route::RailRoute;
use crate::client::{Content, FarJob};
use crate::error::TransferError;
use crate::extent::footer;
use crate::limits::{RAIL_COPIED_BYTES, RAIL_MESSAGE_BYTES};
use perigee_memory::copy::{checksum_pieces, gather_blocks, scatter_blocks};
use perigee_memory::limits::BLOCK_BYTES;
use perigee_memory::{ByteRange, ByteRangeMut};
use perigee_rails::{RailRequest, Registration};
use perigee_rdma::{Rdma, StageLoan, StageSlot};
use perigee_schemas::Direction;
use perigee_schemas::extent::{extent_bytes, footer_bytes, footer_offset, generation_offset};
use std::sync::Arc;

/// Where the bytes of a job lie on this side.
enum JobMemory {
    /// In the caller's registered memory.
    InPlace(Vec<(Arc<Registration>, ByteRangeMut)>),
    /// Copied to or from a stage.
    Copied(StageSlot),
}

/// One job on its way.
pub(super) struct RailJob {
    /// Number of the job in the call.
    pub(super) index: usize,
    pub(super) route: RailRoute,
    pub(super) bytes: u64,
    writes: bool,
    /// First byte of the extent, at the peer.
    extent: u64,
    payload_bytes: u64,
    generation: u64,
    /// First byte that is moved, counted from the start of the extent.
    start: u64,
    memory: Vec<ByteRangeMut>,
    local: JobMemory,
    /// Where the footer of a write, or the generation that was read, lies; nothing if all travels
    /// in one message.
    tail: Option<StageSlot>,
    checksum: u32,
    blocks: Vec<u32>,
}

impl RailJob {
    /// Prepares a job. Nothing if it cannot go over rails: its memory is not registered and too
    /// large to be copied, or no stage is free.
    pub(super) fn new(
        rdma: &Rdma,
        loan: &mut StageLoan,
        (index, job): (usize, &FarJob),
        route: RailRoute,
    ) -> Option<Self> {
        let place = &job.place;
        let payload_bytes = place.payload_bytes;
        let bytes: u64 = job.memory.iter().map(|range| range.bytes()).sum();
        let (writes, start) = match job.content {
            Content::Write => (true, 0),
            Content::Read(first) => (false, first),
            Content::ReadChecksums => (false, footer_offset(payload_bytes)),
        };
        let whole = extent_bytes(payload_bytes);
        debug_assert!(start + bytes <= whole, "nothing lies behind the extent");
        debug_assert!(!writes || bytes == payload_bytes, "an object is written whole");
        let is_object = start == 0 && bytes == payload_bytes;
        let in_place = || registered(rdma, &job.memory);
        let in_place = (whole > RAIL_COPIED_BYTES).then(in_place).flatten();
        let in_one = is_object && in_place.is_none() && whole <= RAIL_MESSAGE_BYTES;
        let engine = rdma.engine();
        let local = match in_place {
            Some(ranges) => JobMemory::InPlace(ranges),
            None => JobMemory::Copied(loan.slot(engine, if in_one { whole } else { bytes })?),
        };
        let tail_bytes = if writes { footer_bytes(payload_bytes) } else { GENERATION_BYTES };
        let tail = match in_one {
            true => None,
            false => Some(loan.slot(engine, tail_bytes)?),
        };
        Some(Self {
            index,
            extent: route.region.base + place.offset,
            route,
            bytes,
            writes,
            payload_bytes,
            generation: place.generation,
            start,
            memory: job.memory.clone(),
            local,
            tail,
            checksum: 0,
            blocks: Vec::new(),
        })
    }

    pub(super) fn is_write(&self) -> bool {
        self.writes
    }

    /// Copies what is to be written to the stage.
    pub(super) fn load(&mut self) {
        let (true, JobMemory::Copied(slot)) = (self.writes, &self.local) else {
            return;
        };
        let target = slot.pointer();
        let pieces = self.pieces();
        let mut blocks = Vec::new();
        // SAFETY: the slot has room for the payload; the caller of the batch keeps its pieces
        // valid.
        self.checksum = unsafe { gather_blocks(target, &pieces, BLOCK_BYTES, &mut blocks) };
        self.blocks = blocks;
        if self.tail.is_none() {
            let (end, at) = (self.payload_bytes, footer_offset(self.payload_bytes));
            let padding = target.wrapping_add(end as usize);
            // SAFETY: the slot has room for the whole extent. What was there before must not leave
            // this process.
            unsafe { padding.write_bytes(0, (at - end) as usize) };
            self.write_footer(target.wrapping_add(at as usize));
        }
    }

    /// What is moved first.
    pub(super) fn first(&self, requests: &mut Vec<RailRequest>, tag: u64) {
        let mut remote = self.extent + self.start;
        match &self.local {
            JobMemory::InPlace(ranges) => {
                for (registration, range) in ranges {
                    let range = (range.address(), range.bytes());
                    requests.push(self.request(registration, range, remote, tag));
                    remote += range.1;
                }
                debug_assert_eq!(remote, self.extent + self.start + self.bytes);
            }
            JobMemory::Copied(slot) => {
                let bytes = match self.tail {
                    Some(_) => self.bytes,
                    None => extent_bytes(self.payload_bytes),
                };
                let range = (slot.address, bytes);
                requests.push(self.request(&slot.registration, range, remote, tag));
            }
        }
    }

    /// Sums what is written in place, while devices read it.
    pub(super) fn sum_source(&mut self) {
        if self.writes && matches!(self.local, JobMemory::InPlace(_)) {
            self.sum_memory();
        }
    }

    /// What is moved when all of the first has arrived.
    pub(super) fn last(&self, requests: &mut Vec<RailRequest>, tag: u64) {
        let Some(slot) = &self.tail else {
            return;
        };
        let (offset, bytes) = if self.writes {
            self.write_footer(slot.pointer());
            (footer_offset(self.payload_bytes), footer_bytes(self.payload_bytes))
        } else {
            (generation_offset(self.payload_bytes), GENERATION_BYTES)
        };
        let range = (slot.address, bytes);
        requests.push(self.request(&slot.registration, range, self.extent + offset, tag));
    }

    /// Hands what was read to the caller and sums it, while the generation is on its way.
    pub(super) fn unload(&mut self) {
        if self.writes {
            return;
        }
        match &self.local {
            JobMemory::InPlace(_) => self.sum_memory(),
            JobMemory::Copied(slot) => {
                let source = slot.pointer();
                let mut blocks = Vec::new();
                // SAFETY: the slot holds as many bytes as the pieces, which the caller of the batch
                // keeps valid.
                self.checksum =
                    unsafe { scatter_blocks(&self.memory, source, BLOCK_BYTES, &mut blocks) };
            }
        }
    }

    /// The checksum of what was moved.
    ///
    /// # Errors
    /// What was read belongs to another object.
    pub(super) fn finish(&self) -> Result<u32, TransferError> {
        if self.writes || self.generation_read() == self.generation {
            Ok(self.checksum)
        } else {
            Err(TransferError::Stale)
        }
    }

    fn generation_read(&self) -> u64 {
        let at = match (&self.tail, &self.local) {
            (Some(slot), _) => slot.pointer(),
            (None, JobMemory::Copied(slot)) => {
                let offset = generation_offset(self.payload_bytes);
                slot.pointer().wrapping_add(offset as usize)
            }
            (None, JobMemory::InPlace(_)) => return 0,
        };
        // SAFETY: the slot holds the generation, and the request that read it is over.
        u64::from_le(unsafe { at.cast::<u64>().read_unaligned() })
    }

    fn write_footer(&self, at: *mut u8) {
        let bytes = footer(self.payload_bytes, &self.blocks, self.generation);
        // SAFETY: the slot has room for the footer at this address, and no device touches it yet.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), at, bytes.len()) };
    }

    fn sum_memory(&mut self) {
        let pieces = self.pieces();
        let mut blocks = Vec::new();
        // SAFETY: the caller of the batch keeps its pieces valid, and nothing else writes them.
        self.checksum = unsafe { checksum_pieces(&pieces, BLOCK_BYTES, &mut blocks) };
        self.blocks = blocks;
    }

    fn pieces(&self) -> Vec<ByteRange> {
        self.memory.iter().map(|range| range.cast_const()).collect()
    }

    fn request(
        &self,
        local: &Arc<Registration>,
        (local_address, bytes): (u64, u64),
        remote_address: u64,
        tag: u64,
    ) -> RailRequest {
        debug_assert!(local.contains(local_address, bytes), "the device knows all of it");
        RailRequest {
            direction: if self.writes { Direction::Write } else { Direction::Read },
            local: local.clone(),
            local_address,
            keys: self.route.region.keys.clone(),
            remote_address,
            bytes,
            tag,
        }
    }
}

const GENERATION_BYTES: u64 = 8;

/// The registrations of all ranges, if each has one.
pub(super) fn registered(
    rdma: &Rdma,
    memory: &[ByteRangeMut],
) -> Option<Vec<(Arc<Registration>, ByteRangeMut)>> {
    let one = |range: &ByteRangeMut| {
        let found = rdma.registered(range.address(), range.bytes());
        Some((found?, *range))
    };
    memory.iter().map(one).collect()
}
