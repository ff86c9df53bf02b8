//! Short runs: the CRC32 instruction on eight bytes at a time, ordinary stores.
//! Invariant: handles any length and alignment, so the wide kernels leave their edges to it.

use std::arch::x86_64::{_mm_crc32_u8, _mm_crc32_u64};

use super::{KernelMode, SUM};

/// Sums and (unless `MODE` is `SUM`) copies `len` bytes.
///
/// # Safety
/// As `Kernel::run`.
#[target_feature(enable = "sse4.2")]
#[inline]
pub(super) unsafe fn run<const MODE: KernelMode>(
    dst: *mut u8,
    src: *const u8,
    len: usize,
    state: u32,
) -> u32 {
    let mut wide = u64::from(state);
    let mut at = 0;
    while len - at >= 8 {
        // SAFETY: `at + 8 <= len`, and the caller vouches for both runs.
        unsafe {
            let word = src.add(at).cast::<u64>().read_unaligned();
            if MODE != SUM {
                dst.add(at).cast::<u64>().write_unaligned(word);
            }
            wide = _mm_crc32_u64(wide, word);
        }
        at += 8;
    }
    // The instruction leaves the upper half zero.
    let mut state = wide as u32;
    while at < len {
        // SAFETY: `at < len`.
        unsafe {
            let byte = src.add(at).read();
            if MODE != SUM {
                dst.add(at).write(byte);
            }
            state = _mm_crc32_u8(state, byte);
        }
        at += 1;
    }
    state
}
