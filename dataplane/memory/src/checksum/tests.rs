//! Checksums against the published check values and a bitwise definition.
//! Invariant: the reference below shares no code with what it tests.

use proptest::prelude::*;

use super::{BlockAppender, crc32c, crc32c_combine};

/// CRC-32C, one bit at a time, straight from the definition.
pub(crate) fn bitwise(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for &byte in bytes {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0x82F6_3B78 } else { crc >> 1 };
        }
    }
    !crc
}

#[test]
fn check_values_of_rfc_3720_hold() {
    let ascending: Vec<u8> = (0..32).collect();
    let descending: Vec<u8> = (0..32).rev().collect();
    assert_eq!(crc32c(b""), 0);
    assert_eq!(crc32c(b"123456789"), 0xE306_9283);
    assert_eq!(crc32c(&[0; 32]), 0x8A91_36AA);
    assert_eq!(crc32c(&[0xFF; 32]), 0x62A8_AB43);
    assert_eq!(crc32c(&ascending), 0x46DD_794E);
    assert_eq!(crc32c(&descending), 0x113F_DB5C);
}

#[test]
fn combining_block_sized_parts_equals_the_whole() {
    let bytes: Vec<u8> = (0..3 * 65536u32).map(|i| ((i * 31) >> 3) as u8).collect();
    let (a, rest) = bytes.split_at(65536);
    let (b, c) = rest.split_at(65536);
    let ab = crc32c_combine(crc32c(a), crc32c(b), 65536);
    assert_eq!(crc32c_combine(ab, crc32c(c), 65536), bitwise(&bytes));
}

#[test]
fn appending_an_empty_part_changes_nothing() {
    assert_eq!(crc32c_combine(0xDEAD_BEEF, 0, 0), 0xDEAD_BEEF);
}

#[test]
fn combining_over_a_terabyte_equals_combining_its_halves() {
    let half = 1u64 << 39;
    let zeros = |first: u32, bytes: u64| crc32c_combine(first, 0, bytes);
    assert_eq!(zeros(zeros(7, half), half), zeros(7, 2 * half));
}

proptest! {
    #[test]
    fn combining_any_two_parts_equals_the_whole(
        bytes in proptest::collection::vec(any::<u8>(), 0..4000),
        cut in any::<proptest::sample::Index>(),
    ) {
        let (a, b) = bytes.split_at(cut.index(bytes.len() + 1));
        prop_assert_eq!(crc32c_combine(crc32c(a), crc32c(b), b.len() as u64), bitwise(&bytes));
    }

    #[test]
    fn appender_of_any_block_length_agrees_with_combine(
        whole in any::<u32>(), block in any::<u32>(), block_bytes in 1usize..200_000,
    ) {
        let expected = crc32c_combine(whole, block, block_bytes as u64);
        prop_assert_eq!(BlockAppender::new(block_bytes).append(whole, block), expected);
    }
}
