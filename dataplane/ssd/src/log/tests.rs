//! What the log places where, and what it refuses.

use super::*;
use crate::limits::SEGMENT_BYTES_MIN;
use crate::platter::{append, format, format_encrypted, object, reads, salt, seal, start};

#[test]
fn images_lie_apart_behind_the_summary_and_inside_the_batch() {
    for (mut platter, mut log) in [format(4), format_encrypted(4)] {
        start(&mut platter, &mut log);
        let objects = [object(1, 1, 100), object(2, 2, 300_000), object(3, 3, 70_000)];
        let batch = log.append(&objects, &[]).unwrap();
        let mut end = batch.offset + batch.summary.len() as u32;
        for image in &batch.images {
            assert!(image.offset >= end);
            end = image.offset + image.bytes;
        }
        assert!(end <= batch.offset + batch.bytes);
        let block = log.superblock().room().bytes();
        assert_eq!(batch.images[1].offset % block, 0, "a large image is read without neighbours");
        log.check();
    }
}

#[test]
fn nothing_is_announced_before_all_earlier_batches_are_written() {
    let (mut platter, mut log) = format(4);
    start(&mut platter, &mut log);
    let first = log.append(&[object(1, 1, 100)], &[]).unwrap();
    let second = log.append(&[object(2, 2, 100)], &[]).unwrap();
    assert!(log.complete(&second).is_empty());
    let announced = log.complete(&first);
    assert_eq!(announced.iter().map(|object| object.hash).collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn a_full_segment_is_refused_and_has_room_for_its_end() {
    for (mut platter, mut log) in [format(2), format_encrypted(2)] {
        start(&mut platter, &mut log);
        let mut hash = 0;
        let refused = loop {
            hash += 1;
            match log.append(&[object(hash, 1, 700_000)], &[]) {
                Ok(batch) => drop(log.complete(&batch)),
                Err(error) => break error,
            }
            log.check();
        };
        assert_eq!(refused, LogError::Full);
        let (end, room) = (log.seal().unwrap(), log.superblock().room());
        let on_disk = |log: &[u8]| room.on_disk(log.len() as u32);
        assert!(end.footer_offset + on_disk(&end.footer) <= end.trailer_offset);
        assert_eq!(end.trailer_offset + on_disk(&end.trailer), SEGMENT_BYTES_MIN);
    }
}

#[test]
fn an_object_larger_than_a_segment_is_refused_for_good() {
    let (mut platter, mut log) = format(2);
    start(&mut platter, &mut log);
    let too_large = object(1, 1, SEGMENT_BYTES_MIN);
    let refused = log.append(std::slice::from_ref(&too_large), &[]).unwrap_err();
    assert_eq!(refused, LogError::TooLarge(SEGMENT_BYTES_MIN));
    let nameless = NewObject { labels: Default::default(), ..object(1, 1, 10) };
    assert_eq!(log.append(&[nameless], &[]).unwrap_err(), LogError::Labels);
}

#[test]
fn segments_are_used_again_oldest_first_and_not_while_they_are_read() {
    let (mut platter, mut log) = format(2);
    let mut addresses = Vec::new();
    for generation in 0..2 {
        assert_eq!(start(&mut platter, &mut log), None);
        let written = append(&mut platter, &mut log, &[object(7, generation, 5000)], &[]);
        addresses.push(written[0].address);
        seal(&mut platter, &mut log);
    }
    let read = log.read(addresses[0], 64).unwrap();
    assert_eq!(log.start(salt()).unwrap_err(), LogError::Busy);
    log.end_read(read.sequence);
    assert_eq!(start(&mut platter, &mut log), Some(addresses[0].sequence));
    assert!(!reads(&platter, &mut log, addresses[0], 0, 5000), "its segment has gone");
    assert!(reads(&platter, &mut log, addresses[1], 1, 5000));
    log.check();
}

#[test]
fn a_segment_whose_batch_is_still_being_written_is_not_used_again() {
    let (mut platter, mut log) = format(1);
    start(&mut platter, &mut log);
    let late = log.append(&[object(1, 1, 100)], &[]).unwrap();
    let failed = log.append(&[object(2, 2, 100)], &[]).unwrap();
    log.fail(&failed);
    assert_eq!(log.start(salt()).unwrap_err(), LogError::Busy);
    assert!(log.complete(&late).is_empty());
    start(&mut platter, &mut log);
}

#[test]
fn a_tombstone_is_safe_after_a_sync_that_began_behind_its_write() {
    let (mut platter, mut log) = format(4);
    start(&mut platter, &mut log);
    let tombstone = |hash| Tombstone { hash, generation: 1, sequence: 0 };
    append(&mut platter, &mut log, &[], &[tombstone(1)]);
    let (slot, count) = log.sync_point().unwrap();
    append(&mut platter, &mut log, &[], &[tombstone(2)]);
    assert_eq!(log.synced(slot, count), [tombstone(1)]);
    assert_eq!(seal(&mut platter, &mut log), [tombstone(2)]);
    assert!(log.sync_point().is_none());
}
