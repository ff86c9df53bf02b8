//! CRC-32C of frames and records. Most have a few hundred bytes: for those the instruction of the
//! CPU is done before what is quick with long strings is set up.
#![cfg_attr(target_arch = "x86_64", expect(unsafe_code, reason = "it asks for the instruction"))]

/// Most bytes that are summed word by word.
#[cfg(target_arch = "x86_64")]
const SHORT_BYTES: usize = 1024;

/// CRC-32C of parts, one behind the other.
pub(crate) fn crc32c<const PARTS: usize>(parts: [&[u8]; PARTS]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    {
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        if bytes <= SHORT_BYTES && std::arch::is_x86_feature_detected!("sse4.2") {
            // SAFETY: the CPU has the instruction.
            return unsafe { by_words(parts) };
        }
    }
    by_digest(parts)
}

fn by_digest<const PARTS: usize>(parts: [&[u8]; PARTS]) -> u32 {
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
    parts.into_iter().for_each(|part| digest.update(part));
    digest.finalize() as u32
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse4.2")]
fn by_words<const PARTS: usize>(parts: [&[u8]; PARTS]) -> u32 {
    use std::arch::x86_64::{_mm_crc32_u8, _mm_crc32_u64};
    let mut state = u64::from(u32::MAX);
    for part in parts {
        let (words, rest) = part.as_chunks();
        for word in words {
            state = _mm_crc32_u64(state, u64::from_le_bytes(*word));
        }
        for byte in rest {
            state = u64::from(_mm_crc32_u8(state as u32, *byte));
        }
    }
    !(state as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_sum_of_the_standards_example_is_the_one_it_names() {
        assert_eq!(crc32c([b"123456789"]), 0xe306_9283);
        assert_eq!(crc32c([]), 0);
    }

    proptest! {
        #[test]
        fn short_and_long_strings_have_the_same_sums_however_they_are_cut(
            bytes in proptest::collection::vec(any::<u8>(), 0..2500), at: usize,
        ) {
            let (head, tail) = bytes.split_at(at % (bytes.len() + 1));
            let whole = by_digest([&bytes]);
            prop_assert_eq!(crc32c([&bytes]), whole);
            prop_assert_eq!(crc32c([head, tail]), whole);
            prop_assert_eq!(by_digest([head, &[], tail]), whole);
        }
    }
}
