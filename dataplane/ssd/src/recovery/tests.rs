//! The crash rules of the log, named as the book names them; `model.rs` plays all of them together.

mod model;

use super::*;
use crate::format::{FormatError, SUPERBLOCK_FILE_BYTES, SegmentHeader, SuperblockError};
use crate::limits::{BLOCK_BYTES, SEGMENT_BYTES_MIN};
use crate::log::{Log, Tombstone, Written};
use crate::platter::{
    CLUSTER, Chance, Platter, append, format, format_encrypted, object, reads, recover, salt, seal,
    start, superblock, write_end,
};

/// A sealed segment with objects 1 and 2 and an open one with object 3 and a safe tombstone of 1.
fn two_segments() -> (Platter, Vec<Written>) {
    two_segments_of(format(4))
}

fn two_segments_of((mut platter, mut log): (Platter, Log)) -> (Platter, Vec<Written>) {
    start(&mut platter, &mut log);
    let objects = [object(1, 1, 5000), object(2, 2, 90_000)];
    let mut written = append(&mut platter, &mut log, &objects, &[]);
    seal(&mut platter, &mut log);
    start(&mut platter, &mut log);
    let tombstone = Tombstone { hash: 1, generation: 1, sequence: 0 };
    written.extend(append(&mut platter, &mut log, &[object(3, 3, 100)], &[tombstone]));
    platter.sync(1);
    (platter, written)
}

fn hashes(platter: &Platter) -> Vec<u128> {
    recover(platter).1.iter().map(|object| object.hash).collect()
}

#[test]
fn rule_1_a_flipped_bit_of_an_image_is_a_miss() {
    let (mut platter, written) = two_segments();
    let (mut log, ..) = recover(&platter);
    assert!(reads(&platter, &mut log, written[1].address, 2, 90_000));
    platter.flip(0, written[1].address.offset + 70_000, 3);
    assert!(!reads(&platter, &mut log, written[1].address, 2, 90_000));
}

#[test]
fn rule_1_a_flipped_bit_of_any_structure_brings_nothing_back() {
    for (platter, _) in [two_segments(), two_segments_of(format_encrypted(4))] {
        assert_eq!(hashes(&platter), [2, 3]);
        let last = SEGMENT_BYTES_MIN - BLOCK_BYTES;
        let blocks = [0, BLOCK_BYTES, 2 * BLOCK_BYTES, 3 * BLOCK_BYTES, last];
        let mut chance = Chance(1);
        for slot in [0, 1] {
            for block in blocks {
                for _ in 0..40 {
                    let mut damaged = platter.clone();
                    damaged.flip(slot, block + chance.below(120) as u32, chance.below(8) as u8);
                    let alive = hashes(&damaged);
                    assert!(!alive.contains(&1), "slot {slot}, block {block}");
                    assert_eq!(alive, [2, 3], "one damaged block loses nothing");
                }
            }
        }
    }
}

#[test]
fn rule_1_a_segment_without_its_two_first_blocks_voids_what_it_may_have_removed() {
    let (mut platter, mut log) = format(4);
    start(&mut platter, &mut log);
    append(&mut platter, &mut log, &[object(1, 1, 5000)], &[]);
    seal(&mut platter, &mut log);
    start(&mut platter, &mut log);
    let tombstone = Tombstone { hash: 1, generation: 1, sequence: 0 };
    append(&mut platter, &mut log, &[], &[tombstone]);
    seal(&mut platter, &mut log);
    start(&mut platter, &mut log);
    append(&mut platter, &mut log, &[object(2, 2, 5000)], &[]);
    platter.flip(1, 30, 0);
    platter.flip(1, BLOCK_BYTES + 30, 0);
    assert_eq!(hashes(&platter), [2]);
}

#[test]
fn rule_2_only_what_verifies_is_found() {
    let (mut platter, mut log) = format(4);
    start(&mut platter, &mut log);
    append(&mut platter, &mut log, &[object(1, 1, 100)], &[]);
    let objects = [object(2, 2, 100)];
    let torn = log.append(&objects, &[]).unwrap();
    let (offset, blocks) = platter.blocks_of(&log, &torn, &objects);
    platter.write(torn.slot, offset, &blocks[..64].repeat(8));
    assert_eq!(hashes(&platter), [1]);
}

#[test]
fn rule_3_a_segment_without_a_trailer_is_read_from_its_summaries() {
    for steps in 0..=4 {
        let (mut platter, mut log) = format(4);
        start(&mut platter, &mut log);
        for hash in 1..=5 {
            append(&mut platter, &mut log, &[object(hash, 1, 3000)], &[]);
        }
        let end = log.seal().unwrap();
        write_end(&mut platter, &log, &end, steps);
        assert_eq!(hashes(&platter), [1, 2, 3, 4, 5], "after {steps} steps of the end");
    }
}

#[test]
fn rule_4_a_removed_object_stays_removed_when_the_segment_of_its_tombstone_goes() {
    let (platter, _) = two_segments();
    let (mut platter, (mut log, ..)) = (platter.clone(), recover(&platter));
    for generation in 10..14 {
        start(&mut platter, &mut log);
        append(&mut platter, &mut log, &[object(generation.into(), generation, 100)], &[]);
        seal(&mut platter, &mut log);
        assert!(!hashes(&platter).contains(&1));
    }
}

#[test]
fn rule_4_a_recycled_segment_is_reported_when_it_cannot_come_back() {
    let (mut platter, mut log) = format(1);
    start(&mut platter, &mut log);
    append(&mut platter, &mut log, &[object(1, 1, 100)], &[]);
    seal(&mut platter, &mut log);
    let next = log.start(salt()).unwrap();
    platter.write(next.slot, 0, &next.header);
    platter.sync(next.slot);
    assert_eq!(log.started(), Some(0));
    for seed in 0..50 {
        let mut after = platter.clone();
        after.lose_power(&mut Chance(seed));
        assert!(hashes(&after).is_empty());
    }
}

#[test]
fn rule_5_after_everything_was_removed_nothing_is_found_and_numbers_go_on() {
    let (mut platter, written) = two_segments();
    let (mut log, ..) = recover(&platter);
    platter.write_superblock(log.remove_all());
    platter.sync_superblock();
    assert!(!reads(&platter, &mut log, written[1].address, 2, 90_000));
    let (mut log, survivors, _) = recover(&platter);
    assert!(survivors.is_empty());
    assert!(log.start(salt()).unwrap().sequence > written[2].address.sequence);
}

#[test]
fn rule_5_a_removal_of_everything_that_was_not_answered_leaves_all_or_nothing() {
    let (platter, _) = two_segments();
    for seed in 0..50 {
        let (mut platter, (mut log, ..)) = (platter.clone(), recover(&platter));
        platter.write_superblock(log.remove_all());
        platter.lose_power(&mut Chance(seed));
        let alive = hashes(&platter);
        assert!(alive.is_empty() || alive == [2, 3], "{alive:?}");
    }
}

#[test]
fn rule_7_of_a_key_that_was_written_again_the_later_copy_is_announced_with_its_generation() {
    let (mut platter, mut log) = format(4);
    start(&mut platter, &mut log);
    append(&mut platter, &mut log, &[object(1, 8, 100)], &[]);
    append(&mut platter, &mut log, &[object(1, 5, 200)], &[]);
    let (_, survivors, _) = recover(&platter);
    assert_eq!(survivors.len(), 1);
    assert_eq!((survivors[0].generation, survivors[0].payload_bytes), (5, 200));
    assert_eq!(survivors[0].labels.key, b"key1");
}

#[test]
fn rule_8_a_failed_write_closes_its_segment_and_makes_void_what_was_not_announced() {
    let (mut platter, mut log) = format(4);
    start(&mut platter, &mut log);
    append(&mut platter, &mut log, &[object(1, 1, 100)], &[]);
    let tombstone = Tombstone { hash: 9, generation: 9, sequence: 0 };
    let failed = log.append(&[object(2, 2, 100)], &[tombstone]).unwrap();
    let later = log.append(&[object(3, 3, 100)], &[]).unwrap();
    // All of it has reached the disk, whatever the kernel says.
    platter.write_batch(&log, &failed, &[object(2, 2, 100)]);
    let lost = log.fail(&failed);
    let void = |hash, generation| Tombstone { hash, generation, sequence: 0 };
    assert_eq!(lost, [tombstone, void(2, 2), void(3, 3)], "they are to be written");
    assert!(log.complete(&later).is_empty(), "it lies behind a gap");
    assert!(!log.is_open());
    start(&mut platter, &mut log);
    append(&mut platter, &mut log, &[object(4, 4, 100), object(3, 3, 100)], &lost);
    assert_eq!(hashes(&platter), [1, 4, 3], "what was written again is there");
}

#[test]
fn rule_8_after_a_header_that_failed_nothing_is_written_any_more() {
    let (_, mut log) = format(1);
    log.start(salt()).unwrap();
    log.start_failed();
    assert_eq!(log.start(salt()).unwrap_err(), crate::log::LogError::Closed);
}

#[test]
fn rule_10_another_version_another_cluster_and_damage_are_refused_each_by_name() {
    let (platter, _) = two_segments();
    let file = platter.superblock_file();
    let other = Superblock::choose(&file, "other").unwrap_err();
    assert!(matches!(other, SuperblockError::Cluster { .. }), "{other}");
    let mut newer = file.clone();
    newer[8] = 3;
    let body = u32::from_le_bytes([newer[12], newer[13], newer[14], newer[15]]) as usize;
    let sum = perigee_memory::crc32c(&[&newer[..16], &newer[20..20 + body]].concat());
    newer[16..20].copy_from_slice(&sum.to_le_bytes());
    assert_eq!(Superblock::choose(&newer, CLUSTER), Err(SuperblockError::Version(3)));
    let nothing = vec![0; SUPERBLOCK_FILE_BYTES as usize];
    let damaged = Superblock::choose(&nothing, CLUSTER);
    assert_eq!(damaged, Err(SuperblockError::Damaged(FormatError::Magic)));
}

#[test]
fn rule_10_a_superblock_that_was_torn_leaves_the_one_before_it() {
    let (mut platter, mut log) = format(4);
    platter.write_superblock(log.remove_all());
    let whole = platter.superblock_file();
    for kept in (0..BLOCK_BYTES as usize).step_by(512) {
        let mut torn = whole.clone();
        torn[BLOCK_BYTES as usize + kept..].fill(0);
        let chosen = Superblock::choose(&torn, CLUSTER).unwrap();
        assert_eq!(chosen.serial, u64::from(kept > 0));
    }
}

#[test]
fn rule_11_files_that_do_not_verify_as_ours_are_left_alone() {
    let (mut platter, _) = two_segments();
    let foreign = SegmentHeader {
        disk: perigee_schemas::Identity(1),
        sequence: 0,
        segment_bytes: SEGMENT_BYTES_MIN,
        salt: None,
    };
    platter.write(2, 0, &foreign.encode());
    let (mut log, _, left_alone) = recover(&platter);
    assert_eq!(left_alone, [2]);
    let slots: Vec<u32> = (0..4)
        .map(|_| {
            let start = log.start(salt()).unwrap();
            log.started();
            log.remove_all();
            start.slot
        })
        .collect();
    assert!(!slots.contains(&2), "{slots:?}");
}

#[test]
fn a_segment_that_is_begun_again_under_its_number_has_another_key() {
    let (platter, _) = format_encrypted(1);
    let blocks_of_a_life = || {
        // The disk is put back to where it was, by a loss of power or by another hand.
        let (mut platter, mut log) = (platter.clone(), recover(&platter).0);
        start(&mut platter, &mut log);
        append(&mut platter, &mut log, &[object(1, 1, 9000)], &[]);
        (log.newest(), platter.read(0, 2 * BLOCK_BYTES, 4 * BLOCK_BYTES))
    };
    let (first, second) = (blocks_of_a_life(), blocks_of_a_life());
    assert_eq!(first.0, second.0);
    let differs = |block| first.1[block..block + 4096] != second.1[block..block + 4096];
    assert!((0..4).all(|block| differs(block * 4096)), "the same bytes under the same nonce");
}

#[test]
fn nothing_that_names_an_object_is_readable_on_an_encrypted_disk() {
    let (platter, _) = two_segments_of(format_encrypted(4));
    for slot in platter.slots() {
        let bytes = platter.read(slot, 0, SEGMENT_BYTES_MIN);
        let names = [b"key1".as_slice(), b"key2", b"key3", b"PRGBATCH", b"PRGFOOTR", b"PRGTRAIL"];
        for name in names {
            assert!(!bytes.windows(name.len()).any(|part| part == name), "{name:?}");
        }
    }
}

#[test]
fn restarts_without_writes_use_no_files_up() {
    let (mut platter, mut log) = format(2);
    for _ in 0..5 {
        start(&mut platter, &mut log);
        log = recover(&platter).0;
    }
    assert_eq!(platter.slots(), [0]);
    assert_eq!(superblock(2).offset(), 0);
}
