//! Reads that use what another call reads or has read.

use crate::host::{Host, LONG, MIB, payload, whole};
use perigee_schemas::disk_address::DiskAddress;
use perigee_ssd::{CopyFinding, Disk, DiskEvent, DiskPiece, ExaminedCopy, ReadError};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

const BYTES: u32 = 300_000;

/// A disk with two objects that are far from each other.
fn two_objects(host: &Host, path: &Path) -> (Disk, [DiskAddress; 2]) {
    let disk = host.open(path, 64 * MIB).disk;
    let outgoing = (0..3).map(|at| host.outgoing(at.into(), 10 + at, BYTES, at * MIB));
    let places = host.write(&disk, outgoing.collect());
    (disk, [places[0], places[2]])
}

/// How many reads its files have had.
fn file_reads(disk: &Disk) -> u64 {
    let (_, powers) = disk.status().reads.powers::<64>();
    powers.iter().sum()
}

fn bytes_of(read: Vec<Result<perigee_ssd::StagedBytes, ReadError>>) -> Vec<u8> {
    let read = read.into_iter().next().unwrap().unwrap();
    read.as_slice()[..BYTES as usize].to_vec()
}

fn segment_file(path: &Path) -> PathBuf {
    let folder = std::fs::read_dir(path).unwrap().next().unwrap().unwrap().path();
    let mut files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    files.find(|file| file.extension().is_some_and(|it| it == "seg")).unwrap()
}

#[test]
fn two_reads_of_one_object_at_once_read_the_disk_once() {
    for host in [Host::new(), Host::with_key(7)] {
        let folder = tempfile::tempdir().unwrap();
        let (disk, [first, other]) = two_objects(&host, folder.path());
        let part = DiskPiece { bytes: 1000, guard: None, ..whole(first, BYTES, 10) };
        let before = file_reads(&disk);
        let answers = host.at_once(|| {
            let pieces = [whole(first, BYTES, 10), whole(first, BYTES, 10), part];
            pieces.map(|piece| disk.read(vec![piece]))
        });
        let [one, two, part] = answers.map(|answer| answer.wait(LONG).unwrap());
        assert!(bytes_of(one) == payload(10, BYTES) && bytes_of(two) == payload(10, BYTES));
        assert_eq!(part[0].as_ref().unwrap().as_slice(), &payload(10, BYTES)[..1000]);
        assert_eq!(file_reads(&disk) - before, 1);
        assert_eq!(
            (disk.status().counters.joined_pieces, disk.status().counters.read_pieces),
            (2, 3)
        );
        let answers = host.at_once(|| {
            [(first, 10), (other, 12)]
                .map(|(at, generation)| disk.read(vec![whole(at, BYTES, generation)]))
        });
        let [one, two] = answers.map(|answer| bytes_of(answer.wait(LONG).unwrap()));
        assert!(one == payload(10, BYTES) && two == payload(12, BYTES));
        assert_eq!(file_reads(&disk) - before, 3, "different objects are read each");
        assert_eq!(disk.status().counters.joined_pieces, 2);
    }
}

#[test]
fn a_read_that_has_joined_another_looks_at_its_own_guard() {
    let (host, folder) = (Host::new(), tempfile::tempdir().unwrap());
    let (disk, [first, _]) = two_objects(&host, folder.path());
    let answers = host
        .at_once(|| [10, 11].map(|generation| disk.read(vec![whole(first, BYTES, generation)])));
    let [right, wrong] = answers.map(|answer| answer.wait(LONG).unwrap().remove(0));
    assert!(right.is_ok());
    assert_eq!(wrong.unwrap_err(), ReadError::Gone);
}

#[test]
fn a_failure_is_one_for_all_that_have_waited_and_for_no_later_read() {
    let (host, folder) = (Host::new(), tempfile::tempdir().unwrap());
    let (disk, [first, _]) = two_objects(&host, folder.path());
    let file = segment_file(folder.path());
    let whole_file = std::fs::read(&file).unwrap();
    std::fs::File::options().write(true).open(&file).unwrap().set_len(4096).unwrap();
    let read = || disk.read(vec![whole(first, BYTES, 10)]);
    let before = file_reads(&disk);
    let answers = host.at_once(|| [read(), read()]);
    for answer in answers {
        let failed = answer.wait(LONG).unwrap().remove(0);
        assert!(matches!(failed, Err(ReadError::Io(_))), "{failed:?}");
    }
    assert_eq!((file_reads(&disk) - before, disk.status().counters.errors), (1, 1));
    std::fs::write(&file, whole_file).unwrap();
    assert!(bytes_of(read().wait(LONG).unwrap()) == payload(10, BYTES));
}

#[test]
fn a_disk_says_whether_a_copy_is_what_was_written() {
    for host in [Host::new(), Host::with_key(7)] {
        let folder = tempfile::tempdir().unwrap();
        let (disk, [first, other]) = two_objects(&host, folder.path());
        let copy = |address, generation| ExaminedCopy {
            hash: 5,
            generation,
            address,
            payload_bytes: BYTES,
        };
        let examine = || {
            let gone = DiskAddress { sequence: 99, ..first };
            let copies = vec![copy(first, 10), copy(other, 12), copy(gone, 10)];
            disk.examine(copies).wait(LONG).unwrap()
        };
        assert_eq!(examine(), [CopyFinding::Intact, CopyFinding::Intact, CopyFinding::Unread]);
        let file = segment_file(folder.path());
        let mut bytes = std::fs::read(&file).unwrap();
        bytes[other.offset as usize + BYTES as usize / 2] ^= 1;
        std::fs::write(&file, bytes).unwrap();
        assert_eq!(examine(), [CopyFinding::Intact, CopyFinding::Damaged, CopyFinding::Unread]);
        assert_eq!(disk.status().counters.damaged, 1);
    }
}

#[test]
fn a_promotion_takes_what_was_read_lately() {
    let (host, folder) = (Host::new(), tempfile::tempdir().unwrap());
    let (disk, [first, other]) = two_objects(&host, folder.path());
    let pieces = || vec![whole(first, BYTES, 10)];
    let promoted = || {
        let counters = disk.status().counters;
        (counters.promotions_read, counters.promotions_joined)
    };
    disk.read(pieces()).wait(LONG).unwrap();
    let before = file_reads(&disk);
    assert!(bytes_of(disk.read_for_memory(pieces()).wait(LONG).unwrap()) == payload(10, BYTES));
    assert_eq!((file_reads(&disk) - before, promoted()), (1, (1, 0)), "nothing was kept");
    assert!(!host.events.lock().unwrap().contains(&DiskEvent::Read));
    host.promotes.store(true, Ordering::Relaxed);
    disk.read(pieces()).wait(LONG).unwrap();
    assert!(host.events.lock().unwrap().contains(&DiskEvent::Read));
    let before = file_reads(&disk);
    assert!(bytes_of(disk.read_for_memory(pieces()).wait(LONG).unwrap()) == payload(10, BYTES));
    assert_eq!((file_reads(&disk) - before, promoted()), (0, (1, 1)));
    let wrong = disk.read_for_memory(vec![whole(first, BYTES, 11)]).wait(LONG).unwrap();
    assert_eq!(wrong[0].as_ref().unwrap_err(), &ReadError::Gone);
    let before = file_reads(&disk);
    disk.reread_for_memory(pieces()).wait(LONG).unwrap();
    disk.read_for_memory(vec![whole(other, BYTES, 12)]).wait(LONG).unwrap();
    assert_eq!((file_reads(&disk) - before, promoted()), (2, (3, 1)));
    let pieces_read = disk.status().counters.read_pieces;
    assert_eq!(pieces_read, 2, "only clients are counted there");
    disk.read(pieces()).wait(LONG).unwrap();
    assert_eq!(
        file_reads(&disk) - before,
        3,
        "clients read the disk, so that damage is found twice"
    );
}

#[test]
fn what_is_kept_for_promotions_makes_way_for_reads() {
    let (host, folder) = (Host::new(), tempfile::tempdir().unwrap());
    host.promotes.store(true, Ordering::Relaxed);
    let disk = host.open(folder.path(), 256 * MIB).disk;
    const LARGE: u32 = 7 << 20;
    let places: Vec<DiskAddress> = (0..19)
        .flat_map(|at| host.write(&disk, vec![host.outgoing(at, 10 + at as u64, LARGE, 0)]))
        .collect();
    let piece = |at: usize| whole(places[at], LARGE, 10 + at as u64);
    for at in 0..4 {
        assert!(disk.read(vec![piece(at)]).wait(LONG).unwrap()[0].is_ok());
    }
    // All memory for reads, but a little.
    let all = disk.read((4..19).map(piece).collect()).wait(LONG).unwrap();
    assert!(all.iter().all(Result::is_ok), "{all:?}");
}
