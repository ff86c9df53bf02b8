//! Any machine: a memory copy in small steps, each summed by look-ups while it is in the cache.
//! Invariant: when copying, the sum is taken of the destination, so it covers what was really
//! stored.

use super::{KernelMode, SUM};
use crate::checksum::polynomial::POLYNOMIAL;

/// Bytes copied before they are summed: stays in the first-level cache.
const STEP_BYTES: usize = 4096;

/// Remainder of one byte followed by `place` zero bytes.
static TABLES: [[u32; 256]; 8] = {
    let mut tables = [[0u32; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = (crc >> 1) ^ (POLYNOMIAL & (crc & 1).wrapping_neg());
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut place = 1;
    while place < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[place - 1][byte];
            tables[place][byte] = (before >> 8) ^ tables[0][(before & 0xFF) as usize];
            byte += 1;
        }
        place += 1;
    }
    tables
};

/// Sums and, unless `MODE` is `SUM`, copies `len` bytes.
///
/// # Safety
/// As `Kernel::run`.
pub(super) unsafe fn run<const MODE: KernelMode>(
    dst: *mut u8,
    src: *const u8,
    len: usize,
    mut state: u32,
) -> u32 {
    let mut at = 0;
    while at < len {
        let step = STEP_BYTES.min(len - at);
        // SAFETY: `at + step <= len`, and the caller vouches for both runs.
        unsafe {
            let mut summed = src.add(at);
            if MODE != SUM {
                dst.add(at).copy_from_nonoverlapping(summed, step);
                summed = dst.add(at);
            }
            state = sum(summed, step, state);
        }
        at += step;
    }
    state
}

/// # Safety
/// `src` must be readable for `len` bytes.
unsafe fn sum(src: *const u8, len: usize, mut state: u32) -> u32 {
    let mut at = 0;
    while len - at >= 8 {
        // SAFETY: `at + 8 <= len`.
        let word = unsafe { src.add(at).cast::<[u8; 8]>().read() };
        let word = u64::from_le_bytes(word) ^ u64::from(state);
        let mut next = 0;
        for (place, byte) in word.to_le_bytes().into_iter().enumerate() {
            next ^= TABLES[7 - place][byte as usize];
        }
        state = next;
        at += 8;
    }
    while at < len {
        // SAFETY: `at < len`.
        let byte = unsafe { src.add(at).read() };
        state = (state >> 8) ^ TABLES[0][((state ^ u32::from(byte)) & 0xFF) as usize];
        at += 1;
    }
    state
}
