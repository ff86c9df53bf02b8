//! A shard for disks, memory that objects lie in, and objects whose generation decides their bytes.

use perigee_memory::segment::SegmentOptions;
use perigee_memory::{Segment, crc32c};
use perigee_schemas::disk_address::DiskAddress;
use perigee_schemas::extent::{extent_bytes, generation_offset};
use perigee_shard::{Shard, ShardEnvironment, ShardOptions};
use perigee_ssd::format::Labels;
use perigee_ssd::log::NewObject;
use perigee_ssd::{
    Disk, DiskEvent, DiskOptions, DiskPiece, FolderChoice, ImageSource, ListCursor, OpenError,
    OpenedDisk, Outgoing, ReadError, StorageKey, image,
};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub(crate) const LONG: Duration = Duration::from_secs(60);
pub(crate) const MIB: u64 = 1 << 20;

/// A shard for disks, and memory that objects lie in.
pub(crate) struct Host {
    shard: Option<Shard>,
    stop: std::sync::mpsc::Sender<()>,
    memory: Arc<Segment>,
    pub(crate) events: Arc<Mutex<Vec<DiskEvent>>>,
    /// Whether what its disks read is wanted in memory.
    pub(crate) promotes: Arc<AtomicBool>,
    /// What its disks are encrypted with.
    pub(crate) key: Option<StorageKey>,
}

impl Host {
    pub(crate) fn new() -> Self {
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
        Self { shard, stop, memory, events: Arc::default(), promotes: Arc::default(), key: None }
    }

    pub(crate) fn with_key(byte: u8) -> Self {
        let mut host = Self::new();
        host.key = Some(StorageKey::new([byte; 32]));
        host
    }

    pub(crate) fn options(&self, path: &Path, capacity_bytes: u64) -> DiskOptions {
        let events = self.events.clone();
        DiskOptions {
            path: path.to_owned(),
            folder: FolderChoice::FirstFree,
            capacity_bytes,
            sharers: 1,
            segment_bytes: 0,
            cluster: "tests".to_owned(),
            key: self.key.clone(),
            promotes: self.promotes.clone(),
            on_event: Arc::new(move |event| events.lock().unwrap().push(event)),
        }
    }

    /// Does what posts to the disks while their shard does nothing: all of it comes at once.
    pub(crate) fn at_once<T>(&self, work: impl FnOnce() -> T) -> T {
        let (release, held) = std::sync::mpsc::channel::<()>();
        let mailbox = self.shard.as_ref().unwrap().mailbox();
        mailbox.post(Box::new(move |_: &ShardEnvironment| {
            let _ = held.recv_timeout(LONG);
        }));
        let done = work();
        drop(release);
        done
    }

    pub(crate) fn try_open(&self, options: DiskOptions) -> Result<OpenedDisk, OpenError> {
        let mailbox = self.shard.as_ref().unwrap().mailbox();
        Disk::open::<ShardEnvironment>(&mailbox, options).wait(LONG).unwrap()
    }

    /// Free folders, in their order.
    pub(crate) fn free_folders(&self, options: DiskOptions) -> Vec<PathBuf> {
        let mailbox = self.shard.as_ref().unwrap().mailbox();
        let found = Disk::free_folders::<ShardEnvironment>(&mailbox, options).wait(LONG);
        let mut found = found.unwrap().unwrap();
        found.sort();
        found
    }

    pub(crate) fn open(&self, path: &Path, capacity_bytes: u64) -> OpenedDisk {
        self.try_open(self.options(path, capacity_bytes)).unwrap()
    }

    /// An object of a key with a generation, in the memory at an offset.
    pub(crate) fn outgoing(
        &self,
        hash: u128,
        generation: u64,
        bytes: u32,
        offset: u64,
    ) -> Outgoing {
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

    pub(crate) fn write(&self, disk: &Disk, outgoing: Vec<Outgoing>) -> Vec<DiskAddress> {
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

pub(crate) fn payload(generation: u64, bytes: u32) -> Vec<u8> {
    (0..bytes as u64).map(|at| (at * 7 + at / 251 + generation) as u8).collect()
}

pub(crate) fn whole(address: DiskAddress, bytes: u32, generation: u64) -> DiskPiece {
    let at = |more: u64| DiskAddress::unpack(address.pack() + more);
    let guard = Some((at(generation_offset(u64::from(bytes))), generation));
    DiskPiece { address, bytes: extent_bytes(u64::from(bytes)) as u32, guard }
}

pub(crate) fn is_read(disk: &Disk, address: DiskAddress, bytes: u32, generation: u64) -> bool {
    let read = disk.read(vec![whole(address, bytes, generation)]).wait(LONG).unwrap();
    let read = read[0].as_ref().unwrap();
    let is_intact = image::is_intact(read.as_slice(), bytes, generation);
    let is_right = read.as_slice()[..bytes as usize] == payload(generation, bytes);
    assert!(is_right || !is_intact, "a wrong byte");
    is_intact
}

pub(crate) fn disk_read(disk: &Disk, piece: DiskPiece) -> Result<(), ReadError> {
    disk.read(vec![piece]).wait(LONG).unwrap().remove(0).map(drop)
}

/// Everything that a disk lists from a cursor on, as hashes and generations.
pub(crate) fn list_from(disk: &Disk, mut from: Option<ListCursor>) -> Vec<(u128, u64)> {
    let mut all = Vec::new();
    loop {
        let page = disk.list(from).wait(LONG).unwrap().unwrap();
        all.extend(page.objects.iter().map(|it| (it.hash, it.generation)));
        match page.next {
            Some(next) => from = Some(next),
            None => return all,
        }
    }
}
