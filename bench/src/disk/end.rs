//! A disk of the run's own, and the object that all of its copies have in them.
//! Invariant: the folder of a run is gone when it has ended.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;

use perigee_memory::segment::SegmentOptions;
use perigee_memory::{Segment, crc32c};
use perigee_schemas::disk_address::DiskAddress;
use perigee_schemas::extent::extent_bytes;
use perigee_shard::{CallReply, Environment, Shard, ShardEnvironment, ShardOptions};
use perigee_ssd::format::Labels;
use perigee_ssd::log::NewObject;
use perigee_ssd::{
    Answer, Disk, DiskOptions, DiskSpec, FolderChoice, ImageSource, Outgoing, StorageKey,
    WriteError, image,
};

use super::settings::DiskLoad;
use crate::ends::run_folder::RunFolder;
use crate::error::BenchError;
use crate::limits::{
    ANSWER_DEADLINE, CLOSE_DEADLINE, DEMOTED_BYTES_PER_CALL, DISK_DEADLINE, START_DEADLINE,
};
use crate::load::content;

/// Generation of all objects of a run.
pub(super) const GENERATION: u64 = 1;

/// An answer about one object that is written.
pub(super) type DiskWriting = Answer<Vec<Result<DiskAddress, WriteError>>>;

/// A disk of the run's own.
pub(super) struct DiskEnd {
    pub(super) disk: Disk,
    pub(super) spec: DiskSpec,
    shard: Shard,
    /// The shard ends when this goes.
    running: CallReply<ShardEnvironment, ()>,
    /// Images of the sizes of a run, one after the other.
    memory: Arc<Segment>,
    images: Vec<(u64, u64, u32)>,
    folder: RunFolder,
    pool_bytes: u64,
}

impl DiskEnd {
    /// A shard and an empty disk on it, encrypted if there is a key.
    pub(super) fn start(settings: &DiskLoad, key: Option<StorageKey>) -> Result<Self, BenchError> {
        let folder = RunFolder::make(&settings.path, "--path")?;
        let (send, started) = channel();
        let main = move |environment: ShardEnvironment| async move {
            let (call, reply) = environment.ask::<()>();
            let _ = send.send(reply);
            call.await;
        };
        let failed = |error: &dyn std::fmt::Display| BenchError::program("disk", error);
        let shard = Shard::start(ShardOptions::named("perigee-disk"), main);
        let shard = shard.map_err(|error| failed(&error))?;
        let running = started.recv_timeout(START_DEADLINE).map_err(|error| failed(&error))?;
        let options = DiskOptions {
            path: folder.path().to_owned(),
            folder: FolderChoice::FirstFree,
            capacity_bytes: settings.pool_bytes / 4 * 5 + (64 << 20),
            sharers: 1,
            segment_bytes: 0,
            cluster: "perigee-bench".to_owned(),
            key,
            promotes: Arc::default(),
            on_event: Arc::new(|_| ()),
        };
        let opening = Disk::open::<ShardEnvironment>(&shard.mailbox(), options);
        let opened = opening.wait(DISK_DEADLINE).map_err(|error| failed(&error))?;
        let opened = opened.map_err(|error| failed(&error))?;
        let (memory, images) = images(settings)?;
        let (disk, spec) = (opened.disk, opened.spec);
        let pool_bytes = settings.pool_bytes;
        Ok(Self { disk, spec, shard, running, memory, images, folder, pool_bytes })
    }

    /// Folder of the disk's files.
    pub(super) fn folder(&self) -> &Path {
        &self.spec.folder
    }

    /// Begins to write an object.
    pub(super) fn write(&self, bytes: u64, number: u64) -> Result<DiskWriting, BenchError> {
        self.write_many(bytes, number..number + 1)
    }

    /// Begins to write objects in one call.
    pub(super) fn write_many(
        &self,
        bytes: u64,
        numbers: Range<u64>,
    ) -> Result<DiskWriting, BenchError> {
        let objects = numbers.map(|number| self.outgoing(bytes, number));
        Ok(self.disk.write(objects.collect::<Result<_, _>>()?))
    }

    fn outgoing(&self, bytes: u64, number: u64) -> Result<Outgoing, BenchError> {
        let found = self.images.iter().find(|(size, ..)| *size == bytes);
        let (_, offset, checksum) = *found.ok_or_else(|| lost(bytes))?;
        let source = ImageSource::of_segment(self.memory.clone(), offset, bytes as u32);
        let key = format!("perigee-bench-{bytes}-{number}").into_bytes();
        let object = NewObject {
            hash: u128::from(bytes) << 64 | u128::from(number),
            generation: GENERATION,
            payload_bytes: bytes as u32,
            checksum,
            flags: 0,
            frequency: 0,
            labels: Labels { key, ..Labels::default() },
        };
        Ok(Outgoing { object, source: source.ok_or_else(|| lost(bytes))? })
    }

    /// Writes until the log has used all of its files once: a file system takes up to three times
    /// as long for blocks of a file that were never written.
    pub(super) fn go_round(&self, bytes: u64) -> Result<(), BenchError> {
        let per_call = (DEMOTED_BYTES_PER_CALL / bytes).max(1);
        let begun = self.disk.oldest();
        for call in 0..2 * self.spec.capacity_bytes / (per_call * bytes) {
            if self.disk.oldest() > begun {
                break;
            }
            written(self.write_many(bytes, call * per_call..(call + 1) * per_call)?)?;
        }
        Ok(())
    }

    /// Fills the pool with objects of a size: where they are.
    pub(super) fn fill(&self, bytes: u64) -> Result<Vec<DiskAddress>, BenchError> {
        let mut places = Vec::new();
        let mut writing = std::collections::VecDeque::new();
        for number in 0..self.pool_bytes / bytes {
            writing.push_back(self.write(bytes, number)?);
            if writing.len() as u64 * bytes >= 16 << 20 {
                places.extend(writing.pop_front().map(written).transpose()?);
            }
        }
        for left in writing {
            places.push(written(left)?);
        }
        let oldest = self.disk.oldest();
        places.retain(|place| place.sequence > oldest);
        Ok(places)
    }

    /// Ends the disk and its shard.
    pub(super) fn stop(self) {
        let _ = self.disk.close().wait(ANSWER_DEADLINE);
        drop(self.running);
        let _ = self.shard.join(CLOSE_DEADLINE);
        drop(self.folder);
    }
}

/// Where the last object of a call was written, if all were.
pub(super) fn written(writing: DiskWriting) -> Result<DiskAddress, BenchError> {
    let failed = |error: &dyn std::fmt::Display| BenchError::program("disk", error);
    let written = writing.wait(ANSWER_DEADLINE).map_err(|error| failed(&error))?;
    let places: Result<Vec<_>, _> = written.into_iter().collect();
    let places = places.map_err(|error| failed(&error))?;
    places.last().copied().ok_or_else(|| failed(&"no answer about the object"))
}

fn lost(bytes: u64) -> BenchError {
    BenchError::Corrupt { key: format!("The image of {bytes} bytes in memory") }
}

/// One image of each size, with its offset and its checksum.
type Images = (Arc<Segment>, Vec<(u64, u64, u32)>);

fn images(settings: &DiskLoad) -> Result<Images, BenchError> {
    let room: u64 = settings.sizes.iter().map(|bytes| extent_bytes(*bytes)).sum();
    let memory = Segment::create(room.next_multiple_of(1 << 20), &SegmentOptions::default())?;
    let (mut offset, mut images) = (0, Vec::new());
    for bytes in &settings.sizes {
        let mut payload = vec![0; *bytes as usize];
        content::fill(&mut payload, *bytes);
        let image = image::of_payload(&payload, GENERATION);
        let is_populated = memory.populate(offset, image.len() as u64).is_ok();
        let place = memory.range(offset, image.len() as u64).filter(|_| is_populated);
        let place = place.ok_or_else(|| lost(*bytes))?;
        // SAFETY: the range was just checked and has its pages.
        unsafe { std::ptr::copy_nonoverlapping(image.as_ptr(), place, image.len()) };
        images.push((*bytes, offset, crc32c(&payload)));
        offset += image.len() as u64;
    }
    Ok((Arc::new(memory), images))
}
