//! How blocks of a log are encrypted: AES-256-GCM, each with a tag of its own behind it.
//!
//! The key of a segment is derived (HKDF-SHA-256) from the key of the user's file, the identity of
//! the disk, the number of the segment and a random salt that its header has. So nothing on the
//! disk is secret, and a segment that is begun again, after a crash or with files that another hand
//! has put back, has another key than the one before it. The invariant: under one key no block is
//! encrypted twice, because a block is written at most once between two begins of its segment; so
//! the number of the block alone makes a nonce that never repeats.

use crate::format::{BlockRoom, TAG_BYTES};
use crate::limits::BLOCK_BYTES;
use crate::storage_key::StorageKey;
use perigee_schemas::Identity;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};

const BLOCK: usize = BLOCK_BYTES as usize;
const ROOM: usize = BlockRoom::BesideTag.bytes() as usize;

/// What the keys of the segments of one disk are derived from.
#[derive(Clone)]
pub(crate) struct LogKey(Prk);

/// The key of one segment.
pub(crate) struct SegmentCipher(LessSafeKey);

impl std::fmt::Debug for LogKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("LogKey")
    }
}

impl std::fmt::Debug for SegmentCipher {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("SegmentCipher")
    }
}

struct CheckBytes;

impl KeyType for CheckBytes {
    fn len(&self) -> usize {
        size_of::<u128>()
    }
}

impl LogKey {
    pub(crate) fn new(key: &StorageKey, disk: Identity) -> Self {
        Self(Salt::new(HKDF_SHA256, &disk.0.to_le_bytes()).extract(key.bytes()))
    }

    /// What the key is known by, which says nothing else about it.
    pub(crate) fn check(&self) -> u128 {
        let mut check = [0; size_of::<u128>()];
        let expanded = self.0.expand(&[b"perigee log check"], CheckBytes);
        expanded.and_then(|okm| okm.fill(&mut check)).expect("HKDF gives sixteen bytes");
        u128::from_le_bytes(check)
    }

    /// The key of a segment.
    pub(crate) fn segment(&self, sequence: u32, salt: u128) -> SegmentCipher {
        let (sequence, salt) = (sequence.to_le_bytes(), salt.to_le_bytes());
        let info = [b"perigee log segment".as_slice(), &sequence, &salt];
        let expanded = self.0.expand(&info, &AES_256_GCM).expect("HKDF gives a key");
        SegmentCipher(LessSafeKey::new(UnboundKey::from(expanded)))
    }
}

fn nonce(block: u32) -> Nonce {
    let mut bytes = [0; NONCE_LEN];
    bytes[..4].copy_from_slice(&block.to_le_bytes());
    Nonce::assume_unique_for_key(bytes)
}

impl SegmentCipher {
    /// Encrypts whole blocks of a log that lie at the start of `memory`, which has room for what
    /// they become: as many blocks of the disk, from `first` of the segment on.
    pub(crate) fn encrypt(&self, first: u32, memory: &mut [u8]) {
        assert!(memory.len().is_multiple_of(BLOCK), "whole blocks");
        // From the last to the first, because what they become is longer.
        for index in (0..memory.len() / BLOCK).rev() {
            memory.copy_within(index * ROOM..(index + 1) * ROOM, index * BLOCK);
            let (bytes, tag_place) = memory[index * BLOCK..(index + 1) * BLOCK].split_at_mut(ROOM);
            let sealing =
                self.0.seal_in_place_separate_tag(nonce(first + index as u32), Aad::empty(), bytes);
            tag_place.copy_from_slice(sealing.expect("a block is short").as_ref());
        }
    }

    /// Decrypts the blocks that lie in `memory` from `start` on, of the segment's block `first` on.
    /// What they have of the log lies at the start of `memory` then, with zeros for blocks that do
    /// not verify: they are not what was written in their place under this key. Returns those.
    #[must_use = "zeros are not what was written"]
    pub(crate) fn decrypt(&self, first: u32, memory: &mut [u8], start: usize) -> Vec<u32> {
        assert!((memory.len() - start).is_multiple_of(BLOCK), "whole blocks");
        let mut forged = Vec::new();
        for index in 0..(memory.len() - start) / BLOCK {
            let (from, to) = (start + index * BLOCK, index * ROOM);
            let (number, place) = (first + index as u32, &mut memory[to..from + BLOCK]);
            let opening = self.0.open_within(nonce(number), Aad::empty(), place, from - to..);
            if opening.is_err() {
                memory[to..to + ROOM].fill(0);
                forged.push(number);
            }
        }
        forged
    }

    /// What whole blocks of a disk have of the log, with zeros for those that do not verify.
    pub(crate) fn decrypted(&self, first: u32, blocks: &[u8]) -> Vec<u8> {
        let mut log = blocks[..blocks.len() / BLOCK * BLOCK].to_vec();
        let _forged = self.decrypt(first, &mut log, 0);
        log.truncate(log.len() / BLOCK * ROOM);
        log
    }

    /// Blocks of a disk of whole blocks of a log.
    pub(crate) fn encrypted(&self, first: u32, log: &[u8]) -> Vec<u8> {
        debug_assert!(log.len().is_multiple_of(ROOM), "whole blocks");
        let mut blocks = log.to_vec();
        blocks.resize(log.len() / ROOM * BLOCK, 0);
        self.encrypt(first, &mut blocks);
        blocks
    }
}

const _: () = assert!(BLOCK == ROOM + TAG_BYTES as usize && TAG_BYTES == 16);

#[cfg(test)]
mod tests {
    use super::*;

    fn key(byte: u8, disk: u128) -> LogKey {
        LogKey::new(&StorageKey::new([byte; 32]), Identity(disk))
    }

    fn log() -> Vec<u8> {
        (0..5 * ROOM).map(|at| (at / 7) as u8).collect()
    }

    #[test]
    fn blocks_come_back_in_their_place_wherever_they_lie_in_memory() {
        let cipher = key(1, 1).segment(3, 4);
        let blocks = cipher.encrypted(9, &log());
        assert_eq!(blocks.len(), 5 * BLOCK);
        assert!(blocks.windows(16).all(|part| part != &log()[100..116]), "nothing is readable");
        for start in [0, 16, ROOM, 3 * BLOCK] {
            let mut memory = vec![7; start];
            memory.extend_from_slice(&blocks);
            assert!(cipher.decrypt(9, &mut memory, start).is_empty());
            assert_eq!(memory[..5 * ROOM], log(), "from {start} on");
        }
        assert_eq!(cipher.decrypted(9, &blocks), log());
    }

    #[test]
    fn a_changed_bit_another_place_and_another_key_are_noticed() {
        let cipher = key(1, 1).segment(3, 4);
        let block = cipher.encrypted(9, &log()[..ROOM]);
        let opens = |cipher: &SegmentCipher, first: u32, block: &[u8]| {
            cipher.decrypt(first, &mut block.to_vec(), 0).is_empty()
        };
        assert!(opens(&cipher, 9, &block));
        for at in [0, 100, ROOM - 1, ROOM, BLOCK - 1] {
            let mut changed = block.clone();
            changed[at] ^= 1;
            assert!(!opens(&cipher, 9, &changed), "byte {at}");
        }
        assert!(!opens(&cipher, 10, &block), "another place");
        let others = [key(2, 1).segment(3, 4), key(1, 2).segment(3, 4)];
        let segments = [key(1, 1).segment(2, 4), key(1, 1).segment(3, 5)];
        assert!(others.iter().chain(&segments).all(|other| !opens(other, 9, &block)));
    }

    #[test]
    fn of_several_blocks_only_the_changed_one_is_lost() {
        let cipher = key(1, 1).segment(3, 4);
        let mut blocks = cipher.encrypted(0, &log());
        blocks[2 * BLOCK + 5] ^= 1;
        let found = cipher.decrypted(0, &blocks);
        assert_eq!(found[..2 * ROOM], log()[..2 * ROOM]);
        assert!(found[2 * ROOM..3 * ROOM].iter().all(|byte| *byte == 0));
        assert_eq!(found[3 * ROOM..], log()[3 * ROOM..]);
        assert_eq!(cipher.decrypt(0, &mut blocks, 0), [2]);
    }

    #[test]
    fn a_key_is_known_by_its_check_and_no_two_blocks_look_alike() {
        assert_eq!(key(1, 1).check(), key(1, 1).check());
        assert_ne!(key(1, 1).check(), key(2, 1).check());
        assert_ne!(key(1, 1).check(), key(1, 2).check(), "disks of one key cannot be linked");
        let zeros = vec![0; 2 * ROOM];
        let first = key(1, 1).segment(3, 4).encrypted(0, &zeros);
        let second = key(1, 1).segment(3, 5).encrypted(0, &zeros);
        let blocks: std::collections::BTreeSet<&[u8]> =
            first.chunks(BLOCK).chain(second.chunks(BLOCK)).collect();
        assert_eq!(blocks.len(), 4);
    }
}
