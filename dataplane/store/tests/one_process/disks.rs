//! A disk as its owner and the master speak of it, call by call.
//! Invariant: no file is written here; the test says what the log of the disk would say.

use crate::cluster::{ANY, data, get, master, on, put, store, until};
use perigee_rpc::{
    ClientOptions, EndedDemotion, FoundCopy, LentSegments, Location, LookupPurpose, MasterClient,
    SegmentOffer,
};
use perigee_schemas::disk_address::DiskAddress;
use perigee_schemas::{Identity, SegmentKind, Status};
use perigee_service::Cluster;
use perigee_store::Store;

const DISK: Identity = Identity(77);
const OBJECT_BYTES: usize = 4096;

fn caller(cluster: &Cluster, identity: Identity) -> MasterClient {
    MasterClient::new(ClientOptions::new(&cluster.address().to_string(), identity))
}

/// A cluster whose only lender has a disk, and calls in the lender's name.
fn lender_with_disk(cluster: &Cluster) -> (Store, MasterClient) {
    let store = store(cluster, ANY, 16 << 20, true);
    let lender = caller(cluster, Identity(1)).segments(&[]).unwrap()[0].segment.client;
    let caller = caller(cluster, lender);
    // Its heartbeats say nothing about a mount without a number.
    assert_eq!(caller.mount(&[disk()], false, 0).unwrap(), [Status::Ok]);
    assert!(caller.announce_copies(DISK, &[], true).unwrap().is_empty(), "the log is empty");
    (store, caller)
}

fn disk() -> SegmentOffer {
    SegmentOffer {
        id: DISK,
        bytes: 1 << 40,
        base: 0,
        name: "host/disk".to_owned(),
        endpoint: "127.0.0.1:1".to_owned(),
        host_id: "host".to_owned(),
        rendezvous: String::new(),
        protocol: "tcp".to_owned(),
        kind: SegmentKind::Disk,
    }
}

fn at(sequence: u32, offset: u32) -> u64 {
    DiskAddress { sequence, offset }.pack()
}

/// The places of a key: segment and what it is, packed address or offset, generation.
fn places(caller: &MasterClient, key: &str) -> Vec<(SegmentKind, Location)> {
    let found = caller.get_replicas(&[key], true, LookupPurpose::Peek).unwrap();
    let kind = |place: &Location| found.places.segments[place.segment as usize].kind.unwrap();
    found.places.locations_of(0).iter().map(|place| (kind(place), *place)).collect()
}

/// A key that a disk has.
struct Demoted {
    key: String,
    hash: u64,
    generation: u64,
}

/// Takes the demotion of each key and says that its copy lies at `sequence`, one behind the other.
fn demote(caller: &MasterClient, keys: usize, sequence: u32) -> Vec<Demoted> {
    let mut taken = Vec::new();
    until("the last demotion", || {
        let tasks = caller.fetch_demotions(64, false).unwrap();
        for (at, key) in tasks.keys.iter().enumerate() {
            let disk = &tasks.segments[tasks.disks[at] as usize];
            assert_eq!((disk.id, disk.kind), (DISK, Some(SegmentKind::Disk)));
            let (hash, generation) = (tasks.hash[at], tasks.sources[at].generation);
            taken.push(Demoted { key: key.clone(), hash, generation });
        }
        (taken.len() == keys).then_some(())
    });
    let ended: Vec<EndedDemotion<'_>> = taken
        .iter()
        .enumerate()
        .map(|(rank, one)| EndedDemotion {
            key: &one.key,
            generation: one.generation,
            status: Status::Ok,
            address: at(sequence, 4096 * rank as u32),
        })
        .collect();
    let verdicts = caller.end_demotions(&ended).unwrap();
    assert!(verdicts.iter().all(|verdict| *verdict == Status::Ok), "{verdicts:?}");
    taken
}

fn put_some(store: &Store, keys: usize) {
    for number in 0..keys {
        let bytes = data(number, OBJECT_BYTES);
        assert_eq!(put(store, &format!("k{number}"), &bytes, &on(ANY, false)), Status::Ok);
    }
}

const EAGER: [&str; 3] = ["--rpc_shards=2", "--verify_segments=false", "--enable_offload"];

#[test]
fn what_is_put_is_taken_to_the_disk_and_shown_behind_the_memory() {
    let cluster = master(&EAGER);
    let (store, caller) = lender_with_disk(&cluster);
    assert!(caller.knows_disks());
    assert!(!caller.ping(&LentSegments::default()).unwrap().has_disk_work);
    put_some(&store, 9);
    assert!(caller.ping(&LentSegments::default()).unwrap().has_disk_work);
    let taken = demote(&caller, 9, 3);
    for Demoted { key, generation, .. } in &taken {
        let places = places(&caller, key);
        let kinds: Vec<SegmentKind> = places.iter().map(|(kind, _)| *kind).collect();
        assert_eq!(kinds, [SegmentKind::Memory, SegmentKind::Disk]);
        assert_eq!(places[1].1.generation, *generation);
        assert_eq!(DiskAddress::unpack(places[1].1.offset).sequence, 3);
    }
    assert!(!caller.ping(&LentSegments::default()).unwrap().has_disk_work);
    assert_eq!(get(&store, "k4").unwrap(), data(4, OBJECT_BYTES));
}

#[test]
fn a_disk_is_no_memory_and_is_listed_apart() {
    let cluster = master(&EAGER);
    let (store, caller) = lender_with_disk(&cluster);
    put_some(&store, 3);
    demote(&caller, 3, 0);
    let (memory, disks) = (caller.segments(&[]).unwrap(), caller.disks().unwrap().disks);
    assert!(memory.iter().all(|one| one.segment.kind == Some(SegmentKind::Memory)));
    assert_eq!(disks.len(), 1);
    assert_eq!((disks[0].segment.id, disks[0].used_bytes), (DISK, 3 * OBJECT_BYTES as u64));
    assert_eq!(disks[0].segment.bytes, 1 << 40);
}

#[test]
fn what_is_removed_goes_to_the_owner_until_it_confirms() {
    let cluster = master(&EAGER);
    let (store, caller) = lender_with_disk(&cluster);
    put_some(&store, 5);
    let taken = demote(&caller, 5, 0);
    for one in &taken[..3] {
        assert_eq!(store.remove(&[one.key.as_str()], true), [Status::Ok]);
    }
    let heard = caller.fetch_tombstones(DISK, 100).unwrap().unwrap();
    let mut generations: Vec<u64> = heard.iter().map(|one| one.generation).collect();
    generations.sort_unstable();
    let mut removed: Vec<u64> = taken[..3].iter().map(|one| one.generation).collect();
    removed.sort_unstable();
    assert_eq!(generations, removed);
    let is_named = |one: &perigee_rpc::Tombstone| one.hash == taken[0].hash;
    assert_eq!(heard.iter().find(|one| is_named(one)).unwrap().generation, taken[0].generation);
    assert_eq!(caller.fetch_tombstones(DISK, 2).unwrap().unwrap().len(), 2);
    let numbers: Vec<u64> = heard.iter().map(|one| one.number).collect();
    assert_eq!(caller.confirm_tombstones(DISK, &numbers).unwrap(), Status::Ok);
    assert_eq!(caller.fetch_tombstones(DISK, 100).unwrap(), Ok(Vec::new()));
    let stranger = self::caller(&cluster, Identity(5));
    assert_eq!(stranger.fetch_tombstones(DISK, 9).unwrap(), Err(Status::SegmentNotFound));
}

#[test]
fn a_disk_that_comes_back_is_believed_but_for_what_has_changed() {
    let cluster = master(&EAGER);
    let (store, caller) = lender_with_disk(&cluster);
    put_some(&store, 6);
    let taken = demote(&caller, 6, 0);
    assert_eq!(caller.unmount(&[DISK], 0).unwrap(), [Status::Ok]);
    assert_eq!(store.remove(&["k2"], true), [Status::Ok]);
    // Only the disk has them now, and not even the master knows.
    store.unmount_segments(&[caller.segments(&[]).unwrap()[0].segment.id], 0);
    assert_eq!(caller.mount(&[disk()], false, 0).unwrap(), [Status::Ok]);
    let copies: Vec<FoundCopy<'_>> = taken
        .iter()
        .enumerate()
        .map(|(rank, one)| FoundCopy {
            key: &one.key,
            group: "",
            generation: one.generation,
            payload_bytes: OBJECT_BYTES as u64,
            checksum: 1,
            address: at(0, 4096 * rank as u32),
        })
        .collect();
    let mut learnt = caller.announce_copies(DISK, &copies[..2], false).unwrap();
    learnt.extend(caller.announce_copies(DISK, &copies[2..], true).unwrap());
    for (Demoted { key, .. }, status) in taken.iter().zip(learnt) {
        let is_gone = key == "k2";
        let wanted = if is_gone { Status::ObjectNotFound } else { Status::Ok };
        assert_eq!(status, wanted, "{key}");
        assert_eq!(places(&caller, key).is_empty(), is_gone, "{key}");
    }
    assert_eq!(caller.tell_recycled(DISK, 1).unwrap(), Status::Ok);
    assert!(taken.iter().all(|one| places(&caller, &one.key).is_empty()), "their place is used");
    let stranger = self::caller(&cluster, Identity(5));
    assert_eq!(stranger.tell_recycled(DISK, 2).unwrap(), Status::IllegalClient);
}
