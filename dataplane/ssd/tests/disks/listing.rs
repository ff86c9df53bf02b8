//! What a disk has, asked for again.

use crate::host::{Host, LONG, MIB, list_from};
use perigee_ssd::{ListError, OpenedDisk, VoidCopy};

#[test]
fn live_objects_are_listed_in_pages_without_those_made_void() {
    let (host, folder) = (Host::new(), tempfile::tempdir().unwrap());
    let OpenedDisk { disk, .. } = host.open(folder.path(), 128 * MIB);
    assert_eq!(list_from(&disk, None), [], "an empty disk");
    let write = |hashes: std::ops::Range<u64>, generation: u64, bytes: u32, step: u64| {
        let objects = hashes.clone().map(|hash| {
            let offset = (hash - hashes.start) * step;
            host.outgoing(hash.into(), generation + hash, bytes, offset)
        });
        host.write(&disk, objects.collect());
    };
    (0..10).for_each(|part| write(part * 2000..(part + 1) * 2000, 1, 100, 4096));
    write(0..200, 100_000, 70_000, 128 << 10);
    write(0..1, 200_000, 5000, 4096);
    let bury = |hash: u64, generation: u64| {
        let copy = VoidCopy { hash: hash.into(), generation };
        disk.bury(vec![copy]).wait(LONG).unwrap().unwrap();
    };
    bury(7000, 7001);
    bury(8000, 1);
    let first = disk.list(None).wait(LONG).unwrap().unwrap();
    let next = first.next.expect("there are more than fit into a page");
    let listed: Vec<_> = first.objects.iter().map(|it| (it.hash, it.generation)).collect();
    let second = disk.list(Some(next)).wait(LONG).unwrap().unwrap();
    let again = disk.list(Some(next)).wait(LONG).unwrap().unwrap();
    assert_eq!(second.objects, again.objects, "an answer that was lost is had again");
    let third = second.next.expect("and more");
    let is_listed = |hash: u64| {
        let objects = first.objects.iter().chain(&second.objects);
        objects.into_iter().any(|it| it.hash == hash.into())
    };
    let late = (1000..20_000).find(|hash| *hash != 7000 && !is_listed(*hash)).unwrap();
    bury(late, late + 1);
    let mut all = [listed, list_from(&disk, Some(third))].concat();
    all.extend(second.objects.iter().map(|it| (it.hash, it.generation)));
    all.sort_unstable();
    let generation = |hash: u64| match hash {
        0 => 200_000,
        1..200 => 100_000 + hash,
        _ => hash + 1,
    };
    let expected = (0..20_000).filter(|hash| ![7000, late].contains(hash));
    let expected: Vec<_> = expected.map(|hash| (u128::from(hash), generation(hash))).collect();
    assert!(all == expected, "{} listed, {} expected", all.len(), expected.len());
    let ended = disk.list(Some(third)).wait(LONG).unwrap().unwrap_err();
    assert_eq!(ended, ListError::Ended);
    disk.remove_all().wait(LONG).unwrap().unwrap();
    assert_eq!(list_from(&disk, None), []);
    disk.close().wait(LONG).unwrap();
}

#[test]
fn the_next_life_lists_what_it_has_found() {
    let (host, folder) = (Host::new(), tempfile::tempdir().unwrap());
    let opened = host.open(folder.path(), 64 * MIB);
    let objects =
        (1..=100).map(|hash| host.outgoing(hash, hash as u64, 300_000, hash as u64 * 400_000));
    host.write(&opened.disk, objects.collect());
    let OpenedDisk { disk, survivors, .. } = {
        opened.disk.close().wait(LONG).unwrap();
        host.open(folder.path(), 64 * MIB)
    };
    let mut found: Vec<_> = survivors.iter().map(|it| (it.hash, it.generation)).collect();
    let mut listed = list_from(&disk, None);
    found.sort_unstable();
    listed.sort_unstable();
    assert_eq!(listed, found);
    assert!(found.len() > 50, "{}", found.len());
    disk.close().wait(LONG).unwrap();
}

#[test]
fn a_copy_that_is_written_again_after_its_tombstone_is_listed() {
    let (host, folder) = (Host::new(), tempfile::tempdir().unwrap());
    let OpenedDisk { disk, .. } = host.open(folder.path(), 64 * MIB);
    let write = || host.write(&disk, vec![host.outgoing(7, 70, 5000, 0)]);
    write();
    let copy = VoidCopy { hash: 7, generation: 70 };
    disk.bury(vec![copy]).wait(LONG).unwrap().unwrap();
    assert_eq!(list_from(&disk, None), []);
    // The same bytes in memory were copied again, into the same segment.
    write();
    assert_eq!(list_from(&disk, None), [(7, 70)]);
    disk.close().wait(LONG).unwrap();
    let OpenedDisk { disk, survivors, .. } = host.open(folder.path(), 64 * MIB);
    assert_eq!(survivors.len(), 1);
    assert_eq!(list_from(&disk, None), [(7, 70)]);
    disk.close().wait(LONG).unwrap();
}
