//! Three stripes side by side, so that three CRC32 instructions are in flight; joined by look-ups.
//! Invariant: a group is three stripes of equal length in message order; a stripe is whole lines.

use std::arch::x86_64::{_mm_crc32_u64, _mm_stream_si64};

use super::{COPY, KernelMode, STREAM, bytes_to_line, prefetch, words};
use crate::checksum::polynomial::ShiftTable;

const LINE_BYTES: usize = 64;
const STRIPE_BYTES: usize = 1024;
const GROUP_BYTES: usize = 3 * STRIPE_BYTES;

const _: () = assert!(STRIPE_BYTES.is_multiple_of(LINE_BYTES));

static STRIPE_SHIFT: ShiftTable = ShiftTable::for_bytes(STRIPE_BYTES as u64);

/// Sums and, as `MODE` says, copies `len` bytes.
///
/// # Safety
/// As `Kernel::run`; SSE4.2 must be present.
#[target_feature(enable = "sse4.2")]
pub(super) unsafe fn run<const MODE: KernelMode>(
    dst: *mut u8,
    src: *const u8,
    len: usize,
    state: u32,
) -> u32 {
    let head = if MODE == STREAM { bytes_to_line(dst, LINE_BYTES, len) } else { 0 };
    // SAFETY: all runs lie side by side within `len`; groups start line-aligned when streaming.
    unsafe {
        let mut state = words::run::<MODE>(dst, src, head, state);
        let mut at = head;
        while len - at >= GROUP_BYTES {
            state = group::<MODE>(dst.wrapping_add(at), src.add(at), state);
            at += GROUP_BYTES;
        }
        words::run::<MODE>(dst.wrapping_add(at), src.add(at), len - at, state)
    }
}

/// Sums and copies one group.
///
/// # Safety
/// [`GROUP_BYTES`] must lie within both runs; `dst` is 8-aligned when streaming.
#[target_feature(enable = "sse4.2")]
#[inline]
unsafe fn group<const MODE: KernelMode>(dst: *mut u8, src: *const u8, state: u32) -> u32 {
    debug_assert!(MODE != STREAM || dst.addr().is_multiple_of(8));
    let (mut first, mut second, mut third) = (u64::from(state), 0, 0);
    let mut at = 0;
    while at < STRIPE_BYTES {
        // The next group, or what follows the run: three streams are more than the hardware
        // foresees.
        if at.is_multiple_of(LINE_BYTES) {
            for stripe in 0..3 {
                prefetch(src.wrapping_add(at + stripe * STRIPE_BYTES + GROUP_BYTES));
            }
        }
        // SAFETY: `at` is less than a stripe, and there are three of them.
        unsafe {
            first = _mm_crc32_u64(first, take::<MODE>(dst, src, at));
            second = _mm_crc32_u64(second, take::<MODE>(dst, src, at + STRIPE_BYTES));
            third = _mm_crc32_u64(third, take::<MODE>(dst, src, at + 2 * STRIPE_BYTES));
        }
        at += 8;
    }
    let both = STRIPE_SHIFT.apply(first as u32) ^ second as u32;
    STRIPE_SHIFT.apply(both) ^ third as u32
}

/// Loads the word at `src + at` and stores it as `MODE` says.
///
/// # Safety
/// The word must lie within both runs; `dst + at` is 8-aligned when streaming.
#[inline]
unsafe fn take<const MODE: KernelMode>(dst: *mut u8, src: *const u8, at: usize) -> u64 {
    // SAFETY: the caller's promises.
    unsafe {
        let word = src.add(at).cast::<u64>().read_unaligned();
        if MODE == STREAM {
            _mm_stream_si64(dst.add(at).cast(), word.cast_signed());
        } else if MODE == COPY {
            dst.add(at).cast::<u64>().write_unaligned(word);
        }
        word
    }
}
