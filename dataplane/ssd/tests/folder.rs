//! Disks on real folders of this host, through the door and a real shard.
#![expect(clippy::unwrap_used, reason = "the functions that tests share fail their test")]

use perigee_memory::segment::SegmentOptions;
use perigee_memory::{Segment, crc32c};
use perigee_schemas::disk_address::DiskAddress;
use perigee_schemas::extent::{extent_bytes, generation_offset};
use perigee_shard::{Shard, ShardEnvironment, ShardOptions};
use perigee_ssd::format::Labels;
use perigee_ssd::log::{LogError, NewObject};
use perigee_ssd::{
    Disk, DiskEvent, DiskOptions, DiskPiece, Health, ImageSource, OpenError, OpenedDisk, Outgoing,
    ReadError, VoidCopy, WriteError, image,
};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(30);
const MIB: u64 = 1 << 20;

/// A shard for disks, and memory that objects lie in.
struct Host {
    shard: Option<Shard>,
    stop: std::sync::mpsc::Sender<()>,
    memory: Arc<Segment>,
    events: Arc<Mutex<Vec<DiskEvent>>>,
}

impl Host {
    fn new() -> Self {
        let (stop, stopped) = std::sync::mpsc::channel();
        let shard = Shard::start(ShardOptions::named("test-disk"), |environment| async move {
            use perigee_shard::Environment;
            while stopped.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
                environment.sleep(Duration::from_millis(5)).await;
            }
        });
        let memory = Segment::create(64 * MIB, &SegmentOptions::default()).unwrap();
        memory.populate(0, 64 * MIB).unwrap();
        let (shard, memory) = (Some(shard.unwrap()), Arc::new(memory));
        Self { shard, stop, memory, events: Arc::default() }
    }

    fn options(&self, path: &Path, capacity_bytes: u64) -> DiskOptions {
        let events = self.events.clone();
        DiskOptions {
            path: path.to_owned(),
            capacity_bytes,
            segment_bytes: 0,
            cluster: "tests".to_owned(),
            on_event: Arc::new(move |event| events.lock().unwrap().push(event)),
        }
    }

    fn try_open(&self, options: DiskOptions) -> Result<OpenedDisk, OpenError> {
        let mailbox = self.shard.as_ref().unwrap().mailbox();
        Disk::open::<ShardEnvironment>(&mailbox, options).wait(LONG).unwrap()
    }

    fn open(&self, path: &Path, capacity_bytes: u64) -> OpenedDisk {
        self.try_open(self.options(path, capacity_bytes)).unwrap()
    }

    /// An object of a key with a generation, in the memory at an offset.
    fn outgoing(&self, hash: u128, generation: u64, bytes: u32, offset: u64) -> Outgoing {
        let payload = payload(generation, bytes);
        let image = image::of_payload(&payload, generation);
        let place = self.memory.range(offset, image.len() as u64).unwrap();
        // SAFETY: the range was just checked.
        #[expect(unsafe_code, reason = "a test fills its memory")]
        unsafe {
            std::ptr::copy_nonoverlapping(image.as_ptr(), place, image.len());
        };
        let labels = Labels { key: format!("key{hash}").into_bytes(), ..Labels::default() };
        let checksum = crc32c(&payload);
        let object = NewObject {
            hash,
            generation,
            payload_bytes: bytes,
            checksum,
            flags: 3,
            frequency: 4,
            labels,
        };
        let source = ImageSource::of_segment(self.memory.clone(), offset, bytes).unwrap();
        Outgoing { object, source }
    }

    fn write(&self, disk: &Disk, outgoing: Vec<Outgoing>) -> Vec<DiskAddress> {
        let written = disk.write(outgoing).wait(LONG).unwrap();
        written.into_iter().map(|result| result.unwrap()).collect()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.stop.send(());
        if let Some(shard) = self.shard.take() {
            let _ = shard.join(LONG);
        }
    }
}

fn payload(generation: u64, bytes: u32) -> Vec<u8> {
    (0..bytes as u64).map(|at| (at * 7 + at / 251 + generation) as u8).collect()
}

fn whole(address: DiskAddress, bytes: u32, generation: u64) -> DiskPiece {
    let at = |more: u64| DiskAddress::unpack(address.pack() + more);
    let guard = Some((at(generation_offset(u64::from(bytes))), generation));
    DiskPiece { address, bytes: extent_bytes(u64::from(bytes)) as u32, guard }
}

fn is_read(disk: &Disk, address: DiskAddress, bytes: u32, generation: u64) -> bool {
    let read = disk.read(vec![whole(address, bytes, generation)]).wait(LONG).unwrap();
    let read = read[0].as_ref().unwrap();
    image::is_intact(read.as_slice(), bytes, generation)
        && read.as_slice()[..bytes as usize] == payload(generation, bytes)
}

#[test]
fn objects_are_read_as_written_and_found_again_in_the_next_life() {
    let (host, folder) = (Host::new(), tempfile::tempdir().unwrap());
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

fn disk_read(disk: &Disk, piece: DiskPiece) -> Result<(), ReadError> {
    disk.read(vec![piece]).wait(LONG).unwrap().remove(0).map(drop)
}

#[test]
fn the_oldest_segment_is_used_again_and_its_objects_are_misses() {
    let (host, folder) = (Host::new(), tempfile::tempdir().unwrap());
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
    assert_eq!(disk.status().state.health, Health::Healthy);
    disk.close().wait(LONG).unwrap();
    assert!(disk.write(Vec::new()).wait(LONG).is_err(), "it is closed");
}
