//! The sectors of one file: those that are safe, and the writes that a loss of power may take.
//! Invariant: a read sees the latest write of each sector, safe or not.

use super::SECTOR_BYTES;
use crate::random::Random;
use std::collections::BTreeMap;

type Sector = [u8; SECTOR_BYTES as usize];

/// One file.
#[derive(Debug, Default)]
pub(crate) struct StoredFile {
    pub(crate) length: u64,
    /// Writes that have ended.
    pub(crate) written: u64,
    /// Whether its name survives a loss of power.
    pub(crate) has_safe_name: bool,
    /// The open file that has its lock.
    pub(crate) locked_by: Option<u64>,
    safe: BTreeMap<u64, Sector>,
    /// Number of the write, sector, bytes; oldest first.
    at_risk: Vec<(u64, u64, Sector)>,
    /// What a read sees of the sectors that are at risk.
    latest: BTreeMap<u64, Sector>,
}

impl StoredFile {
    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) {
        debug_assert!(offset.is_multiple_of(SECTOR_BYTES));
        for (index, part) in bytes.chunks(SECTOR_BYTES as usize).enumerate() {
            let mut sector = [0; SECTOR_BYTES as usize];
            sector[..part.len()].copy_from_slice(part);
            let at = offset / SECTOR_BYTES + index as u64;
            self.at_risk.push((self.written, at, sector));
            self.latest.insert(at, sector);
        }
        self.written += 1;
        self.length = self.length.max(offset + bytes.len() as u64);
    }

    pub(super) fn read(&self, offset: u64, bytes: u64) -> Vec<u8> {
        debug_assert!(offset.is_multiple_of(SECTOR_BYTES));
        let end = self.length.min(offset + bytes);
        let mut found = Vec::with_capacity(bytes as usize);
        for sector in offset / SECTOR_BYTES..end.div_ceil(SECTOR_BYTES).max(offset / SECTOR_BYTES) {
            let known = self.latest.get(&sector).or_else(|| self.safe.get(&sector));
            found.extend_from_slice(known.unwrap_or(&[0; SECTOR_BYTES as usize]));
        }
        found.truncate(end.saturating_sub(offset) as usize);
        found
    }

    /// Makes the writes below a number safe.
    pub(super) fn sync(&mut self, covered: u64) {
        for (number, sector, bytes) in std::mem::take(&mut self.at_risk) {
            if number < covered {
                self.safe.insert(sector, bytes);
            } else {
                self.at_risk.push((number, sector, bytes));
            }
        }
        self.see_again();
    }

    /// Of the writes below a number some are lost, unknown which.
    pub(super) fn lose_unsafe(&mut self, covered: u64, random: &Random) {
        self.at_risk.retain(|(number, ..)| *number >= covered || random.one_in(2));
        self.see_again();
    }

    /// Of each sector that is at risk one of the writes or none has reached the disk.
    pub(super) fn lose_power(&mut self, random: &Random) {
        let keep = random.below(101);
        for (_, sector, bytes) in std::mem::take(&mut self.at_risk) {
            if random.below(100) < keep {
                self.safe.insert(sector, bytes);
            }
        }
        self.see_again();
    }

    pub(super) fn flip_a_bit(&mut self, random: &Random) {
        let sectors: Vec<u64> = self.safe.keys().copied().collect();
        if sectors.is_empty() {
            return;
        }
        let sector = *random.pick(&sectors);
        if let Some(bytes) = self.safe.get_mut(&sector) {
            bytes[random.below(SECTOR_BYTES) as usize] ^= 1 << random.below(8);
        }
    }

    fn see_again(&mut self) {
        self.latest = self.at_risk.iter().map(|(_, sector, bytes)| (*sector, *bytes)).collect();
    }
}
