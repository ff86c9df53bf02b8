//! Objects on a disk of another process that are read over rails, on a software fabric.
//! Invariant: every read gives the bytes that were put, whichever way they come.

use crate::cluster::{LONG, data, master, moved, until};
use crate::rails::{DEVICES, open_on, wishing_rails};
use crate::tier::{
    AT_EVICTION, MEMORY_BYTES, OBJECT_BYTES, OBJECTS, disks, get_all, is_only_on_disk, key,
    put_soon,
};
use perigee_rdma::TICKET_LIFE;
use perigee_schemas::Status;
use perigee_service::Cluster;
use perigee_store::{CallerRange, DiskSettings, GetRequest, RangeRequest, StorageKey, Store};
use perigee_verbs::software::{Clock, SoftwareNetwork};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Objects of one call: less than a reader may hold of a stage.
const GROUP: usize = 32;

struct Host {
    cluster: Arc<Cluster>,
    network: SoftwareNetwork,
    _node: Store,
    /// Objects that its disk alone has.
    on_disk: Vec<usize>,
    _folder: TempDir,
}

impl Host {
    fn start() -> Self {
        Self::with_disks(|disks| disks)
    }

    fn with_disks(with: impl FnOnce(DiskSettings) -> DiskSettings) -> Self {
        let (cluster, folder) = (master(&AT_EVICTION), TempDir::new().unwrap());
        let network = SoftwareNetwork::new(Clock::Real).unwrap();
        let mut config = wishing_rails(&cluster, MEMORY_BYTES);
        config.disks = Some(with(disks(folder.path())));
        let node = open_on(&network, "node", config);
        (0..OBJECTS).for_each(|number| put_soon(&node, number, number));
        let on_disk: Vec<_> = (0..OBJECTS).filter(|it| is_only_on_disk(&node, *it)).collect();
        assert!(on_disk.len() > OBJECTS / 3, "{} of {OBJECTS}", on_disk.len());
        Self { cluster, network, _node: node, on_disk, _folder: folder }
    }

    fn reader(&self, host: &str) -> Store {
        open_on(&self.network, host, wishing_rails(&self.cluster, 0))
    }

    /// Has every request of a host take longer.
    fn delay(&self, host: &str, delay: Duration) {
        for device in DEVICES {
            self.network.faults(host, device).unwrap().delay(delay);
        }
    }
}

/// Reads objects in one call and checks them; the bytes that came over rails and over TCP.
fn read(store: &Store, numbers: &[usize]) -> [u64; 2] {
    let before = ["rdma", "tcp"].map(|route| moved(store, route));
    let bytes = get_all(store, numbers);
    for (number, bytes) in numbers.iter().zip(bytes.chunks(OBJECT_BYTES)) {
        assert!(bytes == data(*number, OBJECT_BYTES), "{number}");
    }
    let after = ["rdma", "tcp"].map(|route| moved(store, route));
    assert_eq!(after[0] + after[1] - before[0] - before[1], (numbers.len() * OBJECT_BYTES) as u64);
    [after[0] - before[0], after[1] - before[1]]
}

/// Reads objects until all of them come over rails in one call.
#[track_caller]
fn until_all_over_rails(store: &Store, numbers: &[usize]) {
    until("a read over rails alone", || (read(store, numbers)[1] == 0).then_some(()));
}

/// Reads a part of an object.
fn range(store: &Store, number: usize) {
    let mut part = vec![0u8; 100_000];
    let target = CallerRange::owned(part.as_mut_ptr() as usize, part.len());
    let request = RangeRequest { key: &key(number), source_offset: 70_001, target };
    assert_eq!(store.read_ranges(&[request]), [Ok(100_000)]);
    assert!(part == data(number, OBJECT_BYTES)[70_001..170_001]);
}

#[test]
fn what_a_disk_of_another_process_has_comes_over_rails() {
    let host = Host::start();
    let client = host.reader("client");
    for group in host.on_disk.chunks(GROUP) {
        until_all_over_rails(&client, group);
    }
    // Memory that devices know is read into in place.
    let room = vec![0u8; OBJECT_BYTES];
    assert_eq!(client.register_buffer(room.as_ptr() as usize, room.len()), Status::Ok);
    until("a read in place over rails", || {
        let tcp = moved(&client, "tcp");
        assert!(get_into(&client, &host.on_disk[..1], &room));
        (moved(&client, "tcp") == tcp).then_some(())
    });
    assert_eq!(client.unregister_buffer(room.as_ptr() as usize), Status::Ok);
    until("a range over rails", || {
        let before = ["rdma", "tcp"].map(|route| moved(&client, route));
        range(&client, host.on_disk[0]);
        let after = ["rdma", "tcp"].map(|route| moved(&client, route));
        (after == [before[0] + 100_000, before[1]]).then_some(())
    });
}

#[test]
fn what_was_read_leaves_the_stage_to_the_next_read() {
    let host = Host::start();
    let client = host.reader("client");
    let group = &host.on_disk[..GROUP];
    until_all_over_rails(&client, group);
    // More than readers may hold, before a ticket ends by itself.
    until("reads one after the other over rails alone", || {
        let begun = Instant::now();
        let all = (0..7).all(|_| read(&client, group)[1] == 0);
        (all && begun.elapsed() < TICKET_LIFE).then_some(())
    });
}

#[test]
fn an_encrypted_disk_is_read_over_rails_as_any_other() {
    let with_key = |disks| DiskSettings { key: Some(StorageKey::new([7; 32])), ..disks };
    let host = Host::with_disks(with_key);
    let client = host.reader("client");
    until_all_over_rails(&client, &host.on_disk[..GROUP]);
    range(&client, host.on_disk[1]);
}

#[test]
fn a_reader_that_holds_the_stage_or_goes_away_leaves_others_their_reads() {
    let host = Host::start();
    let (slow, other) = (host.reader("slow"), host.reader("other"));
    let few = &host.on_disk[..GROUP];
    for client in [&slow, &other] {
        until_all_over_rails(client, few);
    }
    let room = vec![0; host.on_disk.len() * OBJECT_BYTES];
    assert_eq!(slow.register_buffer(room.as_ptr() as usize, room.len()), Status::Ok);
    for goes_away in [false, true] {
        host.delay("slow", Duration::from_secs(1));
        let (ends, end) = (AtomicBool::new(false), Instant::now() + LONG);
        std::thread::scope(|scope| {
            let holds = scope.spawn(|| {
                let mut came = true;
                while !ends.load(Ordering::Relaxed) && Instant::now() < end {
                    came = get_into(&slow, &host.on_disk, &room);
                }
                came
            });
            until("a read that finds the stage held", || (read(&other, few)[1] > 0).then_some(()));
            if goes_away {
                slow.close();
            }
            ends.store(true, Ordering::Relaxed);
            host.delay("slow", Duration::ZERO);
            assert!(holds.join().unwrap() || goes_away, "what was slow has come");
        });
        until_all_over_rails(&other, few);
    }
}

/// Reads objects in one call; whether all came, with their bytes.
fn get_into(store: &Store, numbers: &[usize], room: &[u8]) -> bool {
    let keys: Vec<String> = numbers.iter().map(|number| key(*number)).collect();
    let parts = room.chunks(OBJECT_BYTES);
    let pieces: Vec<_> =
        parts.map(|it| [CallerRange::owned(it.as_ptr() as usize, it.len())]).collect();
    let requests: Vec<_> =
        keys.iter().zip(&pieces).map(|(key, pieces)| GetRequest { key, pieces }).collect();
    let came = store.get(&requests);
    for ((number, came), bytes) in numbers.iter().zip(&came).zip(room.chunks(OBJECT_BYTES)) {
        assert!(came.is_err() || bytes == data(*number, OBJECT_BYTES), "{number}");
    }
    came.iter().all(Result::is_ok)
}

#[test]
fn a_reader_whose_rails_are_cut_reads_over_tcp() {
    let host = Host::start();
    let client = host.reader("client");
    let few = &host.on_disk[..GROUP];
    until_all_over_rails(&client, few);
    for ours in DEVICES {
        for theirs in DEVICES {
            host.network.cut(("client", ours), ("node", theirs)).unwrap();
        }
    }
    assert_eq!(read(&client, few)[0], 0, "nothing comes over rails");
    for ours in DEVICES {
        for theirs in DEVICES {
            host.network.mend(("client", ours), ("node", theirs)).unwrap();
        }
    }
    until_all_over_rails(&client, few);
}
