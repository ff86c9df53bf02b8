//! 64 bytes a step: 32-byte loads and stores, four 128-bit remainders folded by PCLMULQDQ.
//! Invariant: the four remainders, read in order as the last 64 bytes of the message, are congruent
//! to everything summed so far.

use std::arch::x86_64::{
    __m128i, __m256i, _mm_cvtsi32_si128, _mm_set_epi64x, _mm_xor_si128, _mm256_castsi256_si128,
    _mm256_extracti128_si256, _mm256_loadu_si256, _mm256_storeu_si256, _mm256_stream_si256,
};

use super::lane::{fold_lane, reduce_lane};
use super::{COPY, KernelMode, STREAM, bytes_to_line, prefetch, words};
use crate::checksum::polynomial::fold_factors;

const LINE_BYTES: usize = 64;
const VECTOR_BYTES: usize = 32;
const STEP_BYTES: usize = LINE_BYTES;
/// How far ahead of the loads to prefetch: the folds fill the scheduler before the loads fill the
/// memory system, so the hardware alone is not enough.
const LEAD_BYTES: usize = 4096;
const LANES: usize = STEP_BYTES / 16;

const BY_STEP: (i64, i64) = fold_factors(8 * STEP_BYTES as u64);
const BY_LANE: (i64, i64) = fold_factors(128);

/// Sums and, as `MODE` says, copies `len` bytes.
///
/// # Safety
/// As `Kernel::run`; AVX2, PCLMULQDQ and SSE4.2 must be present.
#[target_feature(enable = "avx2,pclmulqdq,sse4.2")]
pub(super) unsafe fn run<const MODE: KernelMode>(
    dst: *mut u8,
    src: *const u8,
    len: usize,
    state: u32,
) -> u32 {
    let head = if MODE == STREAM { bytes_to_line(dst, LINE_BYTES, len) } else { 0 };
    let steps = (len - head) / STEP_BYTES * STEP_BYTES;
    if steps == 0 {
        // SAFETY: the caller's promises.
        return unsafe { words::run::<MODE>(dst, src, len, state) };
    }
    let body = head + steps;
    // SAFETY: the three runs lie side by side within `len`; the destination of the second is
    // aligned when streaming.
    unsafe {
        let state = words::run::<MODE>(dst, src, head, state);
        let state = fold_steps::<MODE>(dst.wrapping_add(head), src.add(head), steps, state);
        words::run::<MODE>(dst.wrapping_add(body), src.add(body), len - body, state)
    }
}

/// Copies `len` bytes with streaming stores.
///
/// # Safety
/// As [`run`].
#[target_feature(enable = "avx2")]
pub(super) unsafe fn copy_only(dst: *mut u8, src: *const u8, len: usize) {
    let head = bytes_to_line(dst, LINE_BYTES, len);
    let body = head + (len - head) / VECTOR_BYTES * VECTOR_BYTES;
    debug_assert!(head == body || dst.wrapping_add(head).addr().is_multiple_of(VECTOR_BYTES));
    // SAFETY: the three runs lie side by side within `len`, and the second is aligned.
    unsafe {
        dst.copy_from_nonoverlapping(src, head);
        let mut at = head;
        while at < body {
            let vector = _mm256_loadu_si256(src.add(at).cast());
            _mm256_stream_si256(dst.add(at).cast(), vector);
            at += VECTOR_BYTES;
        }
        dst.add(body).copy_from_nonoverlapping(src.add(body), len - body);
    }
}

/// # Safety
/// `steps` is a multiple of the step and not zero; `dst` is line-aligned when streaming.
#[target_feature(enable = "avx2,pclmulqdq,sse4.2")]
#[inline]
unsafe fn fold_steps<const MODE: KernelMode>(
    dst: *mut u8,
    src: *const u8,
    steps: usize,
    state: u32,
) -> u32 {
    debug_assert!(steps > 0 && steps.is_multiple_of(STEP_BYTES));
    debug_assert!(MODE != STREAM || dst.addr().is_multiple_of(LINE_BYTES));
    // SAFETY: every offset below is less than `steps`.
    unsafe {
        let mut lanes = take_step::<MODE>(dst, src, 0);
        lanes[0] = _mm_xor_si128(lanes[0], _mm_cvtsi32_si128(state.cast_signed()));
        let by_step = _mm_set_epi64x(BY_STEP.1, BY_STEP.0);
        let mut at = STEP_BYTES;
        while at < steps {
            if at + LEAD_BYTES < steps {
                prefetch(src.add(at + LEAD_BYTES));
            }
            let next = take_step::<MODE>(dst, src, at);
            for (lane, next) in lanes.iter_mut().zip(next) {
                *lane = fold_lane(*lane, by_step, next);
            }
            at += STEP_BYTES;
        }
        reduce(lanes)
    }
}

/// The raw state congruent to the remainders.
#[target_feature(enable = "avx2,pclmulqdq,sse4.2")]
#[inline]
fn reduce(lanes: [__m128i; LANES]) -> u32 {
    let by_lane = _mm_set_epi64x(BY_LANE.1, BY_LANE.0);
    let [mut sum, rest @ ..] = lanes;
    for lane in rest {
        sum = fold_lane(sum, by_lane, lane);
    }
    reduce_lane(sum)
}

/// # Safety
/// One step at `at` must lie within both runs; `dst + at` is line-aligned when streaming.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn take_step<const MODE: KernelMode>(
    dst: *mut u8,
    src: *const u8,
    at: usize,
) -> [__m128i; LANES] {
    // SAFETY: the caller's promises.
    unsafe {
        let a = take::<MODE>(dst, src, at);
        let b = take::<MODE>(dst, src, at + VECTOR_BYTES);
        let (a, b) = (halves(a), halves(b));
        [a.0, a.1, b.0, b.1]
    }
}

/// # Safety
/// As [`take_step`], for 32 bytes.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn take<const MODE: KernelMode>(dst: *mut u8, src: *const u8, at: usize) -> __m256i {
    // SAFETY: the caller's promises.
    unsafe {
        let vector = _mm256_loadu_si256(src.add(at).cast());
        if MODE == STREAM {
            _mm256_stream_si256(dst.add(at).cast(), vector);
        } else if MODE == COPY {
            _mm256_storeu_si256(dst.add(at).cast(), vector);
        }
        vector
    }
}

#[target_feature(enable = "avx2")]
#[inline]
fn halves(vector: __m256i) -> (__m128i, __m128i) {
    (_mm256_castsi256_si128(vector), _mm256_extracti128_si256::<1>(vector))
}
