//! Encrypted disks on folders of this host: what can be seen of them, and who may open them.

use crate::host::{Host, LONG, MIB, disk_read, is_read, list_from, payload, whole};
use perigee_schemas::disk_address::DiskAddress;
use perigee_ssd::{DiskPiece, OpenedDisk, ReadError};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// All that lies below a path, by its path.
fn files(path: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()) {
        match entry.is_dir() {
            true => found.extend(files(&entry)),
            false => drop(found.insert(entry.clone(), std::fs::read(&entry).unwrap())),
        }
    }
    found
}

fn has(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

/// A disk with one object in a sealed segment: the path, and where the object is.
fn one_object(host: &Host) -> (tempfile::TempDir, DiskAddress) {
    let folder = tempfile::tempdir().unwrap();
    let opened = host.open(folder.path(), 64 * MIB);
    let address = host.write(&opened.disk, vec![host.outgoing(77, 5, 300_000, 0)])[0];
    opened.disk.close().wait(LONG).unwrap();
    (folder, address)
}

#[test]
fn neither_bytes_nor_keys_of_objects_are_readable_on_an_encrypted_disk() {
    let right = payload(5, 300_000);
    for (host, is_readable) in [(Host::new(), true), (Host::with_key(1), false)] {
        let (folder, _) = one_object(&host);
        let all: Vec<u8> = files(folder.path()).into_values().flatten().collect();
        for part in [b"key77".as_slice(), &right[1000..1032], &right[290_000..290_032]] {
            assert_eq!(has(&all, part), is_readable, "{part:?}");
        }
    }
}

#[test]
fn a_wrong_missing_or_needless_key_is_refused_and_changes_nothing() {
    let cases = [
        (Host::with_key(1), Host::with_key(2), "encrypted with another key"),
        (Host::with_key(1), Host::new(), "are encrypted; name the file of their key"),
        (Host::new(), Host::with_key(1), "are not encrypted, and a key is set"),
    ];
    for (owner, other, sentence) in cases {
        let (folder, address) = one_object(&owner);
        let before = files(folder.path());
        let error = other.try_open(other.options(folder.path(), 64 * MIB)).unwrap_err().to_string();
        assert!(error.contains(sentence), "{error}");
        assert_eq!(files(folder.path()).len(), before.len(), "no other folder is made");
        assert!(files(folder.path()) == before, "nothing is written");
        let OpenedDisk { disk, survivors, .. } = owner.open(folder.path(), 64 * MIB);
        assert_eq!(survivors.len(), 1);
        assert!(is_read(&disk, address, 300_000, 5));
        disk.close().wait(LONG).unwrap();
    }
}

#[test]
fn a_block_that_was_changed_is_an_error_and_its_neighbours_are_read() {
    let host = Host::with_key(1);
    let (folder, address) = one_object(&host);
    let segment = files(folder.path()).into_keys().find(|path| path.ends_with("00000000.seg"));
    let segment = segment.unwrap();
    let mut bytes = std::fs::read(&segment).unwrap();
    // Deep in the object, which begins after 4 blocks: the header and the summary, each twice.
    bytes[40 * 4096 + 77] ^= 4;
    std::fs::write(&segment, &bytes).unwrap();
    let OpenedDisk { disk, survivors, .. } = host.open(folder.path(), 64 * MIB);
    assert_eq!(survivors.len(), 1, "its entry verifies");
    let image = whole(address, 300_000, 5);
    assert_eq!(disk_read(&disk, image), Err(ReadError::Forged));
    assert_eq!(disk.status().counters.errors, 1);
    let part = |skip: u32| DiskPiece {
        address: DiskAddress { offset: address.offset + skip, ..address },
        bytes: 5000,
        guard: image.guard,
    };
    let read = disk.read(vec![part(0), part(144_000), part(200_000)]).wait(LONG).unwrap();
    let right = payload(5, 300_000);
    assert_eq!(read[0].as_ref().unwrap().as_slice(), &right[..5000]);
    assert_eq!(read[1].as_ref().err(), Some(&ReadError::Forged));
    assert_eq!(read[2].as_ref().unwrap().as_slice(), &right[200_000..205_000]);
    disk.close().wait(LONG).unwrap();
}

#[test]
fn a_block_of_another_place_is_an_error() {
    let host = Host::with_key(1);
    let (folder, address) = one_object(&host);
    let segment = files(folder.path()).into_keys().find(|path| path.ends_with("00000000.seg"));
    let segment = segment.unwrap();
    let mut bytes = std::fs::read(&segment).unwrap();
    bytes.copy_within(50 * 4096..51 * 4096, 40 * 4096);
    std::fs::write(&segment, &bytes).unwrap();
    let opened = host.open(folder.path(), 64 * MIB);
    assert_eq!(disk_read(&opened.disk, whole(address, 300_000, 5)), Err(ReadError::Forged));
    opened.disk.close().wait(LONG).unwrap();
}

#[test]
fn ranges_at_any_border_of_blocks_and_large_objects_are_right() {
    let (host, folder) = (Host::with_key(3), tempfile::tempdir().unwrap());
    let OpenedDisk { disk, .. } = host.open(folder.path(), 64 * MIB);
    // Larger than one read, so that it is brought together from several.
    let bytes = 9 << 20;
    let address = host.write(&disk, vec![host.outgoing(1, 9, bytes, 0)])[0];
    let right = payload(9, bytes);
    let image = whole(address, bytes, 9);
    let starts = (0..40).map(|step| step * 4080 + step % 3).chain([1_112_000, 1_114_112, 8 << 20]);
    let pieces: Vec<_> = starts
        .map(|skip| DiskPiece {
            address: DiskAddress { offset: address.offset + skip, ..address },
            bytes: 1 + skip % 9000,
            guard: image.guard,
        })
        .collect();
    let read = disk.read(pieces.clone()).wait(LONG).unwrap();
    for (piece, read) in pieces.iter().zip(read) {
        let start = (piece.address.offset - address.offset) as usize;
        let expected = &right[start..start + piece.bytes as usize];
        assert!(read.unwrap().as_slice() == expected, "{piece:?}");
    }
    assert!(is_read(&disk, address, bytes, 9));
    assert_eq!(list_from(&disk, None), [(1, 9)]);
    let header = DiskPiece { address: DiskAddress { offset: 0, ..address }, ..image };
    assert_eq!(disk_read(&disk, header), Err(ReadError::Gone), "no image lies there");
    disk.close().wait(LONG).unwrap();
}
