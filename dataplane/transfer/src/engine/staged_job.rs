//! One job that reads a disk of an owner over rails: memory that devices know, and what has come of
//! it.
//! Invariant: its sum is taken when all of its bytes are in place, and of all of them.
#![expect(unsafe_code, reason = "it sums memory that the caller vouches for")]

use super::rail_batch::Passed;
use super::rail_job::registered;
use super::rail_route::RailRoute;
use crate::client::{FarJob, StagedPart};
use crate::error::TransferError;
use perigee_memory::copy::{checksum_pieces, scatter_blocks};
use perigee_memory::limits::BLOCK_BYTES;
use perigee_memory::{ByteRange, ByteRangeMut};
use perigee_mover::PeerError;
use perigee_rails::{RailRequest, Registration};
use perigee_rdma::{Rdma, StageLoan, StageSlot};
use perigee_schemas::{Direction, Route};
use std::sync::Arc;

/// Where the bytes come to on this side.
enum StagedMemory {
    /// The caller's registered memory.
    InPlace(Vec<(Arc<Registration>, ByteRangeMut)>),
    /// A stage of ours, from where they are copied.
    Copied(StageSlot),
}

/// Why a job ends without its bytes.
#[derive(Clone, Copy)]
enum StageFault {
    /// It goes over TCP.
    Divert,
    /// The caller has broken off.
    Canceled,
}

/// One job on its way.
pub(super) struct StagedJob {
    /// Number of the job in the call.
    index: usize,
    pub(super) route: RailRoute,
    pub(super) bytes: u64,
    /// What the owner is asked for: the job with memory that devices know.
    pub(super) asked: FarJob,
    memory: Vec<ByteRangeMut>,
    local: StagedMemory,
    /// Bytes that have come over rails; the others came with the answer.
    landed: u64,
    fault: Option<StageFault>,
    checksum: Option<u32>,
}

impl StagedJob {
    /// Prepares a job. Nothing if its memory is not registered and too large to be copied, or no
    /// stage is free.
    pub(super) fn new(
        rdma: &Rdma,
        loan: &mut StageLoan,
        (index, job): (usize, &FarJob),
        route: RailRoute,
    ) -> Option<Self> {
        let bytes = job.bytes();
        let mut asked = job.clone();
        let local = match registered(rdma, &job.memory) {
            Some(ranges) => StagedMemory::InPlace(ranges),
            None => {
                let slot = loan.slot(rdma.engine(), bytes)?;
                asked.memory = vec![ByteRangeMut::at(slot.address, bytes)];
                StagedMemory::Copied(slot)
            }
        };
        debug_assert_eq!(asked.bytes(), bytes, "as much memory as the caller has");
        Some(Self {
            index,
            route,
            bytes,
            asked,
            memory: job.memory.clone(),
            local,
            landed: 0,
            fault: None,
            checksum: None,
        })
    }

    /// Appends what reads a part from where it was staged; false if it does not lie where the owner
    /// may let others read.
    pub(super) fn requests(&self, part: &StagedPart, requests: &mut Vec<RailRequest>) -> bool {
        let keys = &self.route.region.keys;
        if !keys.contains(part.address, part.bytes) {
            return false;
        }
        let mut remote_address = part.address;
        for range in &part.memory {
            let (local_address, bytes) = (range.address(), range.bytes());
            let Some(local) = self.registration(local_address, bytes) else {
                debug_assert!(false, "a part lies in the memory of its job");
                return false;
            };
            requests.push(RailRequest {
                direction: Direction::Read,
                local: local.clone(),
                local_address,
                keys: keys.clone(),
                remote_address,
                bytes,
                tag: part.job as u64,
            });
            remote_address += bytes;
        }
        debug_assert_eq!(remote_address, part.address + part.bytes, "all of the part");
        true
    }

    fn registration(&self, address: u64, bytes: u64) -> Option<&Arc<Registration>> {
        let known = match &self.local {
            StagedMemory::Copied(slot) => return Some(&slot.registration),
            StagedMemory::InPlace(known) => known,
        };
        let mut known = known.iter().map(|(registration, _)| registration);
        known.find(|registration| registration.contains(address, bytes))
    }

    /// It goes over TCP.
    pub(super) fn divert(&mut self) {
        self.fault.get_or_insert(StageFault::Divert);
    }

    /// Its caller has broken off.
    pub(super) fn cancel(&mut self) {
        self.fault = Some(StageFault::Canceled);
    }

    /// A part of it is in place.
    pub(super) fn land(&mut self, bytes: u64) {
        self.landed += bytes;
        assert!(self.landed <= self.bytes, "each part comes once");
        if self.landed == self.bytes && self.fault.is_none() {
            self.checksum = Some(self.unload());
        }
    }

    /// Hands the bytes to the caller; their sum.
    fn unload(&self) -> u32 {
        let mut blocks = Vec::new();
        match &self.local {
            StagedMemory::InPlace(_) => {
                let pieces: Vec<ByteRange> =
                    self.memory.iter().map(|range| range.cast_const()).collect();
                // SAFETY: the caller of the batch keeps its pieces valid, and nothing writes them.
                unsafe { checksum_pieces(&pieces, BLOCK_BYTES, &mut blocks) }
            }
            StagedMemory::Copied(slot) => {
                let source = slot.pointer();
                // SAFETY: the slot holds as many bytes as the pieces, which the caller of the batch
                // keeps valid.
                unsafe { scatter_blocks(&self.memory, source, BLOCK_BYTES, &mut blocks) }
            }
        }
    }

    /// What became of it, after the owner's answers and what was read since.
    pub(super) fn end(&mut self, answered: Result<u32, TransferError>) -> (usize, Route, Passed) {
        let route = if self.landed == self.bytes { Route::Rdma } else { Route::Tcp };
        let passed = match (answered, self.fault) {
            (Err(error), _) => Passed::Through(Err(error)),
            (Ok(_), Some(StageFault::Divert)) => Passed::Divert,
            (Ok(_), Some(StageFault::Canceled)) => Passed::Through(Err(PeerError::Canceled.into())),
            (Ok(_), None) => {
                let checksum = self.checksum.unwrap_or_else(|| self.unload());
                Passed::Through(Ok(checksum))
            }
        };
        (self.index, route, passed)
    }
}
