//! A few registered bytes per queue pair that the two ends use to prove that the pair works.
//!
//! A slot of 64 bytes: 0 the peer writes here, 8 what we write to the peer, 16 what we read back.

use crate::descriptor::ProofDescriptor;
use crate::error::RailError;
use crate::limits::PROOF_SLOT_BYTES;
use crate::rail::Rail;
use perigee_memory::HostBuffer;
use perigee_verbs::{Region, RegionAccess, Sge, VerbsError};
use std::sync::Arc;

const SOURCE: u64 = 8;
const BACK: u64 = 16;
const WORD_BYTES: u32 = 8;
const _: () = assert!(BACK + WORD_BYTES as u64 <= PROOF_SLOT_BYTES);

/// The proving memory of one shard, registered with all its rails.
#[derive(Debug)]
pub(crate) struct ProofMemory {
    /// By rail. Declared first, so that it is revoked before the memory goes.
    regions: Vec<Arc<dyn Region>>,
    buffer: HostBuffer,
    free: Vec<u32>,
}

/// One slot of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProofSlot(u32);

impl ProofMemory {
    pub(crate) fn new(rails: &[Arc<Rail>], slots: usize) -> Result<Self, RailError> {
        let bytes = slots as u64 * PROOF_SLOT_BYTES;
        let buffer = HostBuffer::allocate(bytes as usize)
            .map_err(|error| RailError::Shard { reason: error.to_string() })?;
        let address = buffer.base() as u64;
        let register = |rail: &Arc<Rail>| {
            // SAFETY: the buffer lives as long as the regions, which are dropped first.
            unsafe { rail.device().register(address, bytes, RegionAccess::ALL) }
        };
        let regions = rails.iter().map(register).collect::<Result<Vec<_>, VerbsError>>()?;
        Ok(Self { regions, buffer, free: (0..slots as u32).rev().collect() })
    }

    pub(crate) fn take(&mut self) -> Option<ProofSlot> {
        self.free.pop().map(ProofSlot)
    }

    pub(crate) fn give_back(&mut self, slot: ProofSlot) {
        debug_assert!(!self.free.contains(&slot.0), "a slot has one user");
        self.free.push(slot.0);
    }

    /// What the peer needs to write here over `rail`.
    pub(crate) fn descriptor(&self, slot: ProofSlot, rail: usize) -> ProofDescriptor {
        ProofDescriptor {
            address: self.address(slot, 0),
            remote_key: self.regions[rail].remote_key(),
        }
    }

    /// Puts a word in place to be written to the peer, and clears the place it is read back to.
    pub(crate) fn prepare(&self, slot: ProofSlot, rail: usize, word: u64) -> (Sge, Sge) {
        let source = self.address(slot, SOURCE) as *mut u64;
        let back = self.address(slot, BACK) as *mut u64;
        // SAFETY: both words lie in the buffer and are aligned; no device uses them before the next
        // post.
        unsafe {
            source.write_volatile(word);
            back.write_volatile(!word);
        }
        let piece =
            |address| Sge { address, bytes: WORD_BYTES, local_key: self.regions[rail].local_key() };
        (piece(source as u64), piece(back as u64))
    }

    /// The word that was read back.
    pub(crate) fn word_back(&self, slot: ProofSlot) -> u64 {
        let back = self.address(slot, BACK) as *const u64;
        // SAFETY: the word lies in the buffer and is aligned; the read that wrote it has completed.
        unsafe { back.read_volatile() }
    }

    /// Panics unless each slot has one user, or is free.
    #[cfg(test)]
    pub(crate) fn check(&self, used: impl Iterator<Item = ProofSlot>) {
        let mut slots: Vec<u32> = self.free.iter().copied().chain(used.map(|it| it.0)).collect();
        slots.sort_unstable();
        let all = 0..slots.len() as u32;
        assert!(slots.iter().copied().eq(all), "no slot is lost, and none used twice");
    }

    fn address(&self, slot: ProofSlot, offset: u64) -> u64 {
        let end = (u64::from(slot.0) + 1) * PROOF_SLOT_BYTES;
        debug_assert!(end <= self.buffer.len() as u64, "the slot lies in the buffer");
        self.buffer.base() as u64 + u64::from(slot.0) * PROOF_SLOT_BYTES + offset
    }
}
