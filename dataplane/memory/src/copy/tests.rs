//! Copies by blocks and by pieces against one bytewise sum of the flat bytes.
//! Invariant: expectations are computed from slices of the source, never by the copier.

use std::num::NonZeroUsize;

use proptest::prelude::*;

use super::*;
use crate::kernel::tests::{bytewise, noise};
use crate::limits::STREAM_MIN_BYTES;

fn block_sums(bytes: &[u8], block_bytes: usize) -> Vec<u32> {
    bytes.chunks(block_bytes).map(bytewise).collect()
}

/// Cuts `0..len` at the given places.
fn lengths(len: usize, cuts: &[usize]) -> Vec<usize> {
    let mut borders: Vec<usize> = cuts.iter().map(|cut| cut % (len + 1)).collect();
    borders.extend([0, len]);
    borders.sort_unstable();
    borders.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

#[test]
fn copying_nothing_gives_the_checksum_of_nothing() {
    let mut blocks = vec![1, 2, 3];
    // SAFETY: zero bytes are copied.
    unsafe {
        assert_eq!(copy_with_checksum(std::ptr::dangling_mut(), std::ptr::dangling(), 0), 0);
        let (dst, src) = (std::ptr::dangling_mut(), std::ptr::dangling());
        assert_eq!(copy_blocks(dst, src, 0, BLOCK_BYTES, &mut blocks), Ok(0));
    }
    assert!(blocks.is_empty());
}

#[test]
fn an_object_of_whole_blocks_has_no_empty_last_block() {
    let bytes = noise(2 * 65536, 9);
    let mut blocks = Vec::new();
    assert_eq!(checksum_slice_blocks(&bytes, &mut blocks), bytewise(&bytes));
    assert_eq!(blocks, block_sums(&bytes, 65536));
}

#[test]
fn short_and_long_copies_agree_on_both_sides_of_the_threshold() {
    for len in [STREAM_MIN_BYTES - 1, STREAM_MIN_BYTES, STREAM_MIN_BYTES + 1, 300_001] {
        let source = noise(len, 1);
        let mut copied = vec![0; len];
        // SAFETY: both have `len` bytes.
        let sum = unsafe { copy_with_checksum(copied.as_mut_ptr(), source.as_ptr(), len) };
        assert_eq!(sum, bytewise(&source));
        assert_eq!(copied, source);
        copied.fill(0);
        // SAFETY: as above.
        unsafe { copy_streaming(copied.as_mut_ptr(), source.as_ptr(), len) }.unwrap();
        assert_eq!(copied, source);
    }
}

#[test]
fn a_flipped_bit_changes_its_block_and_the_whole_only() {
    let mut bytes = noise(200_000, 4);
    let (mut before, mut after) = (Vec::new(), Vec::new());
    let whole = checksum_slice_blocks(&bytes, &mut before);
    bytes[70_000] ^= 0x10;
    assert_ne!(checksum_slice_blocks(&bytes, &mut after), whole);
    let changed: Vec<usize> = (0..before.len()).filter(|&i| before[i] != after[i]).collect();
    assert_eq!(changed, [1]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn blocks_of_any_length_are_summed_and_copied(
        len in 0usize..200_000, block_bytes in 1usize..80_000, at in 0usize..64,
    ) {
        let source = noise(len, 77);
        let mut room = vec![0; len + at];
        let block = NonZeroUsize::new(block_bytes.max(len / 500 + 1)).unwrap();
        let mut blocks = Vec::new();
        // SAFETY: the room has `len` bytes behind `at`.
        let whole = unsafe {
            copy_blocks(room[at..].as_mut_ptr(), source.as_ptr(), len, block, &mut blocks)
        };
        prop_assert_eq!(whole, Ok(bytewise(&source)));
        prop_assert_eq!(&blocks, &block_sums(&source, block.get()));
        prop_assert_eq!(&room[at..], &source[..]);
    }

    #[test]
    fn gathering_ignores_the_borders_of_pieces(
        len in 0usize..200_000, cuts in proptest::collection::vec(any::<usize>(), 0..40),
    ) {
        let source = noise(len, 5);
        let mut rest = &source[..];
        let mut pieces = Vec::new();
        for piece_len in lengths(len, &cuts) {
            let (piece, behind) = rest.split_at(piece_len);
            pieces.push(ByteRange::from(piece));
            rest = behind;
        }
        let mut copied = vec![0; len];
        let (mut blocks, mut summed) = (Vec::new(), Vec::new());
        // SAFETY: the pieces are parts of `source`, `copied` is as long as it.
        let (whole, again) = unsafe {
            (gather_blocks(copied.as_mut_ptr(), &pieces, BLOCK_BYTES, &mut blocks),
             checksum_pieces(&pieces, BLOCK_BYTES, &mut summed))
        };
        prop_assert_eq!(whole, Ok(bytewise(&source)));
        prop_assert_eq!(again, whole);
        prop_assert_eq!(&blocks, &block_sums(&source, BLOCK_BYTES.get()));
        prop_assert_eq!(&summed, &blocks);
        prop_assert_eq!(&copied, &source);
    }

    #[test]
    fn scattering_fills_pieces_in_order_with_every_kernel(
        len in 0usize..150_000, cuts in proptest::collection::vec(any::<usize>(), 0..20),
    ) {
        let source = noise(len, 6);
        for kernel in Kernel::ALL {
            let cuts = lengths(len, &cuts);
            let mut parts: Vec<Vec<u8>> = cuts.into_iter().map(|n| vec![0; n]).collect();
            let mut blocks = Vec::new();
            let mut copier =
                ChecksumCopier::new(len, BLOCK_BYTES, &mut blocks).with_kernel(kernel);
            let mut at = 0;
            for part in &mut parts {
                // SAFETY: the parts together are as long as the source.
                unsafe { copier.copy(part.as_mut_ptr(), source[at..].as_ptr(), part.len()) };
                at += part.len();
            }
            let whole = copier.finish();
            let pieces = parts.iter_mut().map(|p| ByteRangeMut::from(&mut p[..]));
            let pieces: Vec<ByteRangeMut> = pieces.collect();
            let mut again = Vec::new();
            // SAFETY: as above.
            let same = unsafe {
                scatter_blocks(&pieces, source.as_ptr(), BLOCK_BYTES, &mut again)
            };
            prop_assert_eq!(whole, Ok(bytewise(&source)));
            prop_assert_eq!(same, whole);
            prop_assert_eq!(&again, &blocks);
            prop_assert_eq!(parts.concat(), source.clone());
        }
    }
}

/// Proof that the sanitizer looks at what the kernels write: `tests/sanitizer.sh` sees to it that
/// this test fails.
#[test]
#[ignore = "must fail, and only under AddressSanitizer: make asan"]
fn a_copy_past_the_end_of_its_target() {
    if std::env::var_os("PERIGEE_SANITIZER").is_none() {
        return;
    }
    let source = [7u8; 101];
    let mut target = vec![0u8; 100];
    // SAFETY: there is none: the target is a byte too short.
    unsafe { copy_with_checksum(target.as_mut_ptr(), source.as_ptr(), source.len()) };
    assert_eq!(target[99], 7);
}
