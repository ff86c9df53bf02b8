//! One 128-bit remainder: moving it along the message and reducing it to a checksum state.
//! Invariant: low quadword first, as memory has it; a lane's bytes are the end of the message so
//! far.

use std::arch::x86_64::{
    __m128i, _mm_clmulepi64_si128, _mm_crc32_u64, _mm_cvtsi128_si64, _mm_unpackhi_epi64,
    _mm_xor_si128,
};

/// Moves a 128-bit `remainder` by the distance of `factors` and adds `next`.
#[target_feature(enable = "pclmulqdq,sse4.2")]
#[inline]
pub(super) fn fold_lane(remainder: __m128i, factors: __m128i, next: __m128i) -> __m128i {
    let low = _mm_clmulepi64_si128::<0x00>(remainder, factors);
    let high = _mm_clmulepi64_si128::<0x11>(remainder, factors);
    _mm_xor_si128(_mm_xor_si128(low, high), next)
}

/// The raw state congruent to one 128-bit remainder: its 16 bytes summed from nothing.
#[target_feature(enable = "sse4.2")]
#[inline]
pub(super) fn reduce_lane(lane: __m128i) -> u32 {
    let low = _mm_cvtsi128_si64(lane).cast_unsigned();
    let high = _mm_cvtsi128_si64(_mm_unpackhi_epi64(lane, lane)).cast_unsigned();
    _mm_crc32_u64(_mm_crc32_u64(0, low), high) as u32
}
