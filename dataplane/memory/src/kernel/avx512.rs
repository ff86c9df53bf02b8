//! 64 bytes a step: load, stream out, fold into one of four 512-bit remainders by VPCLMULQDQ.
//! Invariant: the four remainders, read in order as the last 256 bytes of the message, are
//! congruent to everything summed so far.

use std::arch::x86_64::{
    __m512i, _MM_HINT_T0, _mm_cvtsi32_si128, _mm_prefetch, _mm_set_epi64x,
    _mm512_clmulepi64_epi128, _mm512_extracti32x4_epi32, _mm512_loadu_si512, _mm512_set4_epi64,
    _mm512_storeu_si512, _mm512_stream_si512, _mm512_ternarylogic_epi64, _mm512_xor_si512,
    _mm512_zextsi128_si512,
};

use super::lane::{fold_lane, reduce_lane};
use super::{COPY, KernelMode, RunStart, STREAM, bytes_to_line, words};
use crate::checksum::polynomial::fold_factors;

const LINE_BYTES: usize = 64;
const STEP_BYTES: usize = 4 * LINE_BYTES;
/// How far ahead of the loads to prefetch: one page, because the hardware stops at page borders.
const LEAD_BYTES: usize = 4096;
/// How long to prefetch; longer only gets in the way of the hardware's own prefetching.
const RAMP_BYTES: usize = 16 << 10;
/// Truth table of a ^ b ^ c.
const XOR3: i32 = 0x96;

const BY_STEP: (i64, i64) = fold_factors(8 * STEP_BYTES as u64);
const BY_LINE: (i64, i64) = fold_factors(8 * LINE_BYTES as u64);
const BY_LANE: (i64, i64) = fold_factors(128);

/// Sums and, as `MODE` says, copies `len` bytes.
///
/// # Safety
/// As `Kernel::run`; AVX-512F, VPCLMULQDQ, PCLMULQDQ and SSE4.2 must be present.
#[target_feature(enable = "avx512f,vpclmulqdq,pclmulqdq,sse4.2")]
pub(super) unsafe fn run<const MODE: KernelMode>(
    dst: *mut u8,
    src: *const u8,
    len: usize,
    start: RunStart,
    state: u32,
) -> u32 {
    let head = if MODE == STREAM { bytes_to_line(dst, LINE_BYTES, len) } else { 0 };
    let lines = (len - head) / LINE_BYTES * LINE_BYTES;
    if lines < STEP_BYTES {
        // SAFETY: the caller's promises.
        return unsafe { words::run::<MODE>(dst, src, len, state) };
    }
    let body = head + lines;
    // SAFETY: the three runs lie side by side within `len`; the destination of the second is
    // aligned when streaming.
    unsafe {
        let state = words::run::<MODE>(dst, src, head, state);
        let state = fold_lines::<MODE>(dst.wrapping_add(head), src.add(head), lines, start, state);
        words::run::<MODE>(dst.wrapping_add(body), src.add(body), len - body, state)
    }
}

/// Copies `len` bytes with streaming stores.
///
/// # Safety
/// As [`run`].
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn copy_only(dst: *mut u8, src: *const u8, len: usize) {
    let head = bytes_to_line(dst, LINE_BYTES, len);
    let lines = (len - head) / LINE_BYTES * LINE_BYTES;
    let body = head + lines;
    // SAFETY: the three runs lie side by side within `len`, and the second is aligned.
    unsafe {
        dst.copy_from_nonoverlapping(src, head);
        copy_lines(dst.add(head), src.add(head), lines);
        dst.add(body).copy_from_nonoverlapping(src.add(body), len - body);
    }
}

/// # Safety
/// `lines` is a multiple of the line; `dst` is line-aligned.
#[target_feature(enable = "avx512f")]
#[inline]
unsafe fn copy_lines(dst: *mut u8, src: *const u8, lines: usize) {
    debug_assert!(lines.is_multiple_of(LINE_BYTES));
    debug_assert!(dst.addr().is_multiple_of(LINE_BYTES) || lines == 0);
    let mut at = 0;
    let ramp_end = ramp_end(lines, RunStart::Cold);
    // SAFETY: every offset below is less than `lines`.
    unsafe {
        while at < ramp_end {
            prefetch_step(src.add(at + LEAD_BYTES));
            take_step::<STREAM>(dst, src, at);
            at += STEP_BYTES;
        }
        while lines - at >= STEP_BYTES {
            take_step::<STREAM>(dst, src, at);
            at += STEP_BYTES;
        }
        while at < lines {
            take::<STREAM>(dst, src, at);
            at += LINE_BYTES;
        }
    }
}

/// # Safety
/// `lines` is a multiple of the line and at least one step; `dst` is line-aligned when streaming.
#[target_feature(enable = "avx512f,vpclmulqdq,pclmulqdq,sse4.2")]
#[inline]
unsafe fn fold_lines<const MODE: KernelMode>(
    dst: *mut u8,
    src: *const u8,
    lines: usize,
    start: RunStart,
    state: u32,
) -> u32 {
    debug_assert!(lines.is_multiple_of(LINE_BYTES) && lines >= STEP_BYTES);
    debug_assert!(MODE != STREAM || dst.addr().is_multiple_of(LINE_BYTES));
    // SAFETY: every offset below is less than `lines`.
    unsafe {
        let mut sums = take_step::<MODE>(dst, src, 0);
        let seed = _mm512_zextsi128_si512(_mm_cvtsi32_si128(state.cast_signed()));
        sums[0] = _mm512_xor_si512(sums[0], seed);
        let mut at = STEP_BYTES;
        let ramp_end = ramp_end(lines, start);
        while at < ramp_end {
            prefetch_step(src.add(at + LEAD_BYTES));
            sums = fold_step(sums, take_step::<MODE>(dst, src, at));
            at += STEP_BYTES;
        }
        while lines - at >= STEP_BYTES {
            sums = fold_step(sums, take_step::<MODE>(dst, src, at));
            at += STEP_BYTES;
        }
        let by_line = factors(BY_LINE);
        let [mut sum, rest @ ..] = sums;
        for next in rest {
            sum = fold(sum, by_line, next);
        }
        while at < lines {
            sum = fold(sum, by_line, take::<MODE>(dst, src, at));
            at += LINE_BYTES;
        }
        reduce(sum)
    }
}

/// How far into `lines` prefetching pays: until the hardware has seen the pattern, and only for
/// bytes that will be wanted.
fn ramp_end(lines: usize, start: RunStart) -> usize {
    if start == RunStart::Continued {
        return 0;
    }
    RAMP_BYTES.min(lines.saturating_sub(LEAD_BYTES)) / STEP_BYTES * STEP_BYTES
}

/// # Safety
/// One step must be readable at `src`.
#[target_feature(enable = "avx512f")]
#[inline]
unsafe fn prefetch_step(src: *const u8) {
    for part in 0..4 {
        // SAFETY: the caller's promise.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(src.add(part * LINE_BYTES).cast()) };
    }
}

/// # Safety
/// As [`take`], for one step.
#[target_feature(enable = "avx512f")]
#[inline]
unsafe fn take_step<const MODE: KernelMode>(
    dst: *mut u8,
    src: *const u8,
    at: usize,
) -> [__m512i; 4] {
    // SAFETY: the caller's promises.
    unsafe {
        [
            take::<MODE>(dst, src, at),
            take::<MODE>(dst, src, at + LINE_BYTES),
            take::<MODE>(dst, src, at + 2 * LINE_BYTES),
            take::<MODE>(dst, src, at + 3 * LINE_BYTES),
        ]
    }
}

/// Moves the four remainders one step on and adds the next step.
#[target_feature(enable = "avx512f,vpclmulqdq")]
#[inline]
fn fold_step([a, b, c, d]: [__m512i; 4], next: [__m512i; 4]) -> [__m512i; 4] {
    let by_step = factors(BY_STEP);
    [
        fold(a, by_step, next[0]),
        fold(b, by_step, next[1]),
        fold(c, by_step, next[2]),
        fold(d, by_step, next[3]),
    ]
}

/// Loads the line at `src + at` and stores it as `MODE` says.
///
/// # Safety
/// The line must lie within both runs; `dst + at` is line-aligned when streaming.
#[target_feature(enable = "avx512f")]
#[inline]
unsafe fn take<const MODE: KernelMode>(dst: *mut u8, src: *const u8, at: usize) -> __m512i {
    // SAFETY: the caller's promises.
    unsafe {
        let line = _mm512_loadu_si512(src.add(at).cast());
        if MODE == STREAM {
            _mm512_stream_si512(dst.add(at).cast(), line);
        } else if MODE == COPY {
            _mm512_storeu_si512(dst.add(at).cast(), line);
        }
        line
    }
}

#[target_feature(enable = "avx512f")]
#[inline]
fn factors((low, high): (i64, i64)) -> __m512i {
    _mm512_set4_epi64(high, low, high, low)
}

/// Moves `remainder` by the distance of `factors` and adds `next`.
#[target_feature(enable = "avx512f,vpclmulqdq")]
#[inline]
fn fold(remainder: __m512i, factors: __m512i, next: __m512i) -> __m512i {
    let low = _mm512_clmulepi64_epi128::<0x00>(remainder, factors);
    let high = _mm512_clmulepi64_epi128::<0x11>(remainder, factors);
    _mm512_ternarylogic_epi64::<XOR3>(low, high, next)
}

/// The raw state congruent to one 512-bit remainder.
#[target_feature(enable = "avx512f,pclmulqdq,sse4.2")]
#[inline]
fn reduce(line: __m512i) -> u32 {
    let by_lane = _mm_set_epi64x(BY_LANE.1, BY_LANE.0);
    let mut lane = _mm512_extracti32x4_epi32::<0>(line);
    lane = fold_lane(lane, by_lane, _mm512_extracti32x4_epi32::<1>(line));
    lane = fold_lane(lane, by_lane, _mm512_extracti32x4_epi32::<2>(line));
    lane = fold_lane(lane, by_lane, _mm512_extracti32x4_epi32::<3>(line));
    reduce_lane(lane)
}
