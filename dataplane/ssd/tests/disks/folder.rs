//! Disks on folders of this host: what is written, read, refused, used again and found again.

use crate::host::{Host, LONG, MIB, disk_read, is_read, whole};
use perigee_schemas::DiskHealth;
use perigee_ssd::log::LogError;
use perigee_ssd::{Disk, DiskEvent, DiskOptions, OpenedDisk, ReadError, VoidCopy, WriteError};

#[test]
fn objects_are_read_as_written_and_found_again_in_the_next_life() {
    are_read_as_written_and_found_again(&Host::new());
}

#[test]
fn encrypted_objects_are_read_as_written_and_found_again_in_the_next_life() {
    are_read_as_written_and_found_again(&Host::with_key(1));
}

fn are_read_as_written_and_found_again(host: &Host) {
    let folder = tempfile::tempdir().unwrap();
    let opened = host.open(folder.path(), 64 * MIB);
    assert!(opened.survivors.is_empty());
    assert_eq!((opened.spec.segment_bytes, opened.spec.capacity_bytes), (16 << 20, 64 * MIB));
    let sizes = [1, 4095, 70_000, 1 << 20, 9 << 20];
    let objects = sizes.iter().zip(1..).map(|(bytes, number)| {
        host.outgoing(number, 100 + number as u64, *bytes, number as u64 * 10 * MIB)
    });
    let addresses = host.write(&opened.disk, objects.collect());
    let check = |disk: &Disk| {
        for ((bytes, number), address) in sizes.iter().zip(1..).zip(&addresses) {
            assert!(is_read(disk, *address, *bytes, 100 + number), "{bytes} bytes");
        }
        let pieces = sizes.iter().zip(1..).zip(&addresses);
        let pieces = pieces.map(|((bytes, number), at)| whole(*at, *bytes, 100 + number));
        let read = disk.read(pieces.collect()).wait(LONG).unwrap();
        assert!(read.iter().all(Result::is_ok), "all at once: {read:?}");
    };
    check(&opened.disk);
    let wrong = disk_read(&opened.disk, whole(addresses[2], 70_000, 7));
    assert_eq!(wrong, Err(ReadError::Gone), "another generation");
    opened.disk.bury(vec![VoidCopy { hash: 2, generation: 102 }]).wait(LONG).unwrap().unwrap();
    let status = opened.disk.status();
    assert_eq!((status.counters.written_objects, status.counters.buried), (5, 1));
    opened.disk.close().wait(LONG).unwrap();
    let again = host.open(folder.path(), 64 * MIB);
    assert_eq!((again.spec.id, &again.spec.folder), (opened.spec.id, &opened.spec.folder));
    let found: Vec<_> = again.survivors.iter().map(|it| (it.hash, it.address)).collect();
    let expected: Vec<_> = (1..).zip(addresses.clone()).filter(|(hash, _)| *hash != 2).collect();
    assert_eq!(found, expected, "what was buried is not found");
    assert_eq!((again.survivors[0].flags, again.survivors[0].frequency), (3, 4));
    check(&again.disk);
    again.disk.close().wait(LONG).unwrap();
}

#[test]
fn the_oldest_segment_is_used_again_and_its_objects_are_misses() {
    the_oldest_goes(&Host::new());
    the_oldest_goes(&Host::with_key(1));
}

fn the_oldest_goes(host: &Host) {
    let folder = tempfile::tempdir().unwrap();
    let OpenedDisk { disk, .. } = host.open(folder.path(), 48 * MIB);
    let mut places = Vec::new();
    for round in 1..=20_u64 {
        let bytes = 5 << 20;
        let object = host.outgoing(u128::from(round), round, bytes, 0);
        places.push((host.write(&disk, vec![object])[0], bytes, round));
    }
    assert!(disk.oldest() > 0, "segments went");
    for (address, bytes, generation) in places {
        let is_old = address.sequence < disk.oldest();
        let read = disk_read(&disk, whole(address, bytes, generation));
        assert_eq!(read, if is_old { Err(ReadError::Gone) } else { Ok(()) }, "{address:?}");
    }
    let heard = host.events.lock().unwrap().clone();
    assert!(heard.contains(&DiskEvent::Recycled { oldest: disk.oldest() }), "{heard:?}");
    let files = std::fs::read_dir(
        std::fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path(),
    );
    assert_eq!(files.unwrap().count(), 3 + 1, "as many files as the capacity allows");
    disk.close().wait(LONG).unwrap();
}

#[test]
fn rule_9_a_second_process_takes_the_next_folder() {
    let (host, folder) = (Host::new(), tempfile::tempdir().unwrap());
    let first = host.open(folder.path(), 64 * MIB);
    let second = host.open(folder.path(), 64 * MIB);
    assert_ne!(first.spec.folder, second.spec.folder);
    first.disk.close().wait(LONG).unwrap();
    let third = host.open(folder.path(), 64 * MIB);
    assert_eq!(third.spec.folder, first.spec.folder, "it is free again");
    second.disk.close().wait(LONG).unwrap();
    third.disk.close().wait(LONG).unwrap();
}

#[test]
fn rule_10_a_folder_of_another_cluster_or_one_that_does_not_verify_is_left_alone() {
    let (host, folder) = (Host::new(), tempfile::tempdir().unwrap());
    let opened = host.open(folder.path(), 64 * MIB);
    opened.disk.close().wait(LONG).unwrap();
    let other =
        DiskOptions { cluster: "other".to_owned(), ..host.options(folder.path(), 64 * MIB) };
    let error = host.try_open(other).unwrap_err().to_string();
    assert!(error.contains("belongs to cluster \"tests\""), "{error}");
    let superblock = opened.spec.folder.join("superblock");
    let before = std::fs::read(&superblock).unwrap();
    std::fs::write(&superblock, vec![0xff; before.len()]).unwrap();
    let error = host.try_open(host.options(folder.path(), 64 * MIB)).unwrap_err().to_string();
    assert!(error.contains("does not verify"), "{error}");
    assert_eq!(std::fs::read(&superblock).unwrap(), vec![0xff; before.len()]);
}

#[test]
fn rule_5_after_everything_was_removed_nothing_is_found() {
    let (host, folder) = (Host::new(), tempfile::tempdir().unwrap());
    let opened = host.open(folder.path(), 64 * MIB);
    let address = host.write(&opened.disk, vec![host.outgoing(1, 11, 5000, 0)])[0];
    opened.disk.remove_all().wait(LONG).unwrap().unwrap();
    let gone = disk_read(&opened.disk, whole(address, 5000, 11));
    assert_eq!(gone, Err(ReadError::Gone));
    let kept = host.write(&opened.disk, vec![host.outgoing(1, 12, 5000, 0)])[0];
    opened.disk.close().wait(LONG).unwrap();
    let again = host.open(folder.path(), 64 * MIB);
    let found: Vec<_> = again.survivors.iter().map(|it| (it.generation, it.address)).collect();
    assert_eq!(found, [(12, kept)]);
    again.disk.close().wait(LONG).unwrap();
}

#[test]
fn what_cannot_be_written_is_refused_one_by_one() {
    let (host, folder) = (Host::new(), tempfile::tempdir().unwrap());
    let error = host.try_open(host.options(folder.path(), 20 * MIB)).unwrap_err().to_string();
    assert!(error.contains("a log needs at least"), "{error}");
    let OpenedDisk { disk, .. } = host.open(folder.path(), 64 * MIB);
    let mut nameless = host.outgoing(1, 11, 100, 0);
    nameless.object.labels.key.clear();
    let mut changed = host.outgoing(2, 12, 100, MIB);
    changed.object.generation = 13;
    let large = host.outgoing(3, 14, 16 << 20, 2 * MIB);
    let good = host.outgoing(4, 15, 100, 40 * MIB);
    let written = disk.write(vec![nameless, changed, large, good]).wait(LONG).unwrap();
    assert_eq!(written[0], Err(WriteError::Log(LogError::Labels)));
    assert_eq!(written[1], Err(WriteError::Changed));
    assert_eq!(written[2], Err(WriteError::Log(LogError::TooLarge(16 << 20))));
    assert!(written[3].is_ok());
    assert_eq!(disk.status().state.health, DiskHealth::Healthy);
    disk.close().wait(LONG).unwrap();
    assert!(disk.write(Vec::new()).wait(LONG).is_err(), "it is closed");
}

#[test]
fn what_is_made_void_before_it_is_written_is_never_written() {
    let (host, folder) = (Host::new(), tempfile::tempdir().unwrap());
    let opened = host.open(folder.path(), 64 * MIB);
    // So many that some of them still wait when the burial comes.
    let objects: Vec<_> = (1..=40)
        .map(|hash| host.outgoing(hash, hash as u64, 1 << 20, (hash as u64 - 1) * 1_100_000))
        .collect();
    let writing = opened.disk.write(objects);
    let voids = (1..=40).map(|hash| VoidCopy { hash, generation: hash as u64 });
    let buried = opened.disk.bury(voids.collect());
    let written = writing.wait(LONG).unwrap();
    buried.wait(LONG).unwrap().unwrap();
    assert!(written.contains(&Err(WriteError::Removed)), "{written:?}");
    opened.disk.close().wait(LONG).unwrap();
    let again = host.open(folder.path(), 64 * MIB);
    assert_eq!(again.survivors, []);
    again.disk.close().wait(LONG).unwrap();
}
