//! A disk in memory for tests, and what drives a log on it.
//! Power loss keeps any part of the sectors that no sync has covered, in any order; the death of
//! the process keeps all that was written.

use std::collections::BTreeMap;

use perigee_schemas::Identity;
use perigee_schemas::disk_address::DiskAddress;
use perigee_schemas::extent::extent_bytes;

use crate::cipher::LogKey;
use crate::format::{Labels, SUPERBLOCK_FILE_BYTES, Superblock};
use crate::image;
use crate::limits::{BLOCK_BYTES, SEGMENT_BYTES_MIN};
use crate::log::{Log, NewObject, PlacedBatch, SegmentEnd, Tombstone, Written};
use crate::recovery::{Recovery, SegmentScan, Survivor};
use crate::storage_key::StorageKey;

const SECTOR_BYTES: u32 = 512;
pub(crate) const CLUSTER: &str = "tests";

/// A small generator, so that a case is played again by its seed.
#[derive(Debug, Clone)]
pub(crate) struct Chance(pub(crate) u64);

impl Chance {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

/// Sparse sectors of one file: those on the disk, and those that a loss of power may take.
#[derive(Debug, Default, Clone)]
struct PlatterFile {
    safe: BTreeMap<u32, [u8; SECTOR_BYTES as usize]>,
    /// Every write of a sector since the last sync, oldest first.
    unsafe_writes: Vec<(u32, [u8; SECTOR_BYTES as usize])>,
}

impl PlatterFile {
    fn write(&mut self, offset: u32, bytes: &[u8]) {
        assert_eq!(offset % SECTOR_BYTES, 0);
        for (index, sector) in bytes.chunks(SECTOR_BYTES as usize).enumerate() {
            let sector = sector.try_into().expect("whole sectors are written");
            self.unsafe_writes.push((offset / SECTOR_BYTES + index as u32, sector));
        }
    }

    fn sync(&mut self) {
        self.safe.extend(self.unsafe_writes.drain(..));
    }

    fn read(&self, offset: u32, bytes: u32) -> Vec<u8> {
        let wanted = offset / SECTOR_BYTES..(offset + bytes) / SECTOR_BYTES;
        let mut found = vec![0; bytes as usize];
        let safe = self.safe.range(wanted.clone()).map(|(sector, bytes)| (*sector, bytes));
        let later = self.unsafe_writes.iter().map(|(sector, bytes)| (*sector, bytes));
        for (sector, bytes) in safe.chain(later).filter(|(sector, _)| wanted.contains(sector)) {
            let at = ((sector - wanted.start) * SECTOR_BYTES) as usize;
            found[at..at + bytes.len()].copy_from_slice(bytes);
        }
        found
    }
}

/// The files of a disk.
#[derive(Debug, Default, Clone)]
pub(crate) struct Platter {
    key: Option<LogKey>,
    superblock: PlatterFile,
    slots: BTreeMap<u32, PlatterFile>,
}

impl Platter {
    pub(crate) fn write(&mut self, slot: u32, offset: u32, bytes: &[u8]) {
        self.slots.entry(slot).or_default().write(offset, bytes);
    }

    pub(crate) fn sync(&mut self, slot: u32) {
        self.slots.entry(slot).or_default().sync();
    }

    pub(crate) fn read(&self, slot: u32, offset: u32, bytes: u32) -> Vec<u8> {
        self.slots.get(&slot).map_or_else(Vec::new, |file| file.read(offset, bytes))
    }

    pub(crate) fn slots(&self) -> Vec<u32> {
        self.slots.keys().copied().collect()
    }

    /// What blocks of a segment of a log become on this disk.
    pub(crate) fn encoded(&self, log: &Log, sequence: u32, first: u32, bytes: Vec<u8>) -> Vec<u8> {
        match &self.key {
            None => bytes,
            Some(key) => {
                let salt = log.salt(sequence).expect("the segment is there");
                key.segment(sequence, salt).encrypted(first / BLOCK_BYTES, &bytes)
            }
        }
    }

    /// The blocks of a batch, and where they go.
    pub(crate) fn blocks_of(
        &self,
        log: &Log,
        batch: &PlacedBatch,
        objects: &[NewObject],
    ) -> (u32, Vec<u8>) {
        let first = log.superblock().room().on_disk(batch.offset);
        (first, self.encoded(log, batch.sequence, first, bytes_of(batch, objects)))
    }

    pub(crate) fn write_batch(&mut self, log: &Log, batch: &PlacedBatch, objects: &[NewObject]) {
        let (offset, blocks) = self.blocks_of(log, batch, objects);
        self.write(batch.slot, offset, &blocks);
    }

    /// Writes a superblock; the caller syncs or loses power.
    pub(crate) fn write_superblock(&mut self, superblock: &Superblock) {
        self.superblock.write(superblock.offset(), &superblock.encode());
    }

    pub(crate) fn sync_superblock(&mut self) {
        self.superblock.sync();
    }

    pub(crate) fn sync_all(&mut self) {
        self.slots.values_mut().for_each(PlatterFile::sync);
        self.superblock.sync();
    }

    pub(crate) fn superblock_file(&self) -> Vec<u8> {
        self.superblock.read(0, SUPERBLOCK_FILE_BYTES)
    }

    /// Flips one bit on the disk.
    pub(crate) fn flip(&mut self, slot: u32, byte: u32, bit: u8) {
        let block = byte / SECTOR_BYTES * SECTOR_BYTES;
        let mut sector = self.read(slot, block, SECTOR_BYTES);
        sector[(byte % SECTOR_BYTES) as usize] ^= 1 << bit;
        self.write(slot, block, &sector);
        self.sync(slot);
    }

    /// Of each sector that is not safe, one of the writes or none has reached the disk.
    pub(crate) fn lose_power(&mut self, chance: &mut Chance) {
        for file in self.slots.values_mut().chain([&mut self.superblock]) {
            let writes = std::mem::take(&mut file.unsafe_writes);
            let keep = chance.below(101);
            for (sector, bytes) in writes {
                if chance.below(100) < keep {
                    file.safe.insert(sector, bytes);
                }
            }
        }
    }
}

/// A superblock of the smallest segments.
pub(crate) fn superblock(segments: u32) -> Superblock {
    Superblock {
        disk: Identity(0xd15c),
        cluster: CLUSTER.to_owned(),
        serial: 0,
        segment_bytes: SEGMENT_BYTES_MIN,
        segments,
        void_before: 0,
        key_check: None,
    }
}

/// An empty log on an empty disk.
pub(crate) fn format(segments: u32) -> (Platter, Log) {
    format_with(segments, None)
}

/// The same with a key.
pub(crate) fn format_encrypted(segments: u32) -> (Platter, Log) {
    format_with(segments, Some(LogKey::new(&StorageKey::new([5; 32]), superblock(1).disk)))
}

fn format_with(segments: u32, key: Option<LogKey>) -> (Platter, Log) {
    let key_check = key.as_ref().map(LogKey::check);
    let mut platter = Platter { key, ..Platter::default() };
    let superblock = Superblock { key_check, ..superblock(segments) };
    platter.write_superblock(&superblock);
    platter.sync_superblock();
    (platter, Log::new(superblock))
}

/// What is on the disk.
pub(crate) fn recover(platter: &Platter) -> (Log, Vec<Survivor>, Vec<u32>) {
    let superblock = Superblock::choose(&platter.superblock_file(), CLUSTER).expect("it is ours");
    let mut recovery = Recovery::new(superblock.clone());
    for slot in platter.slots() {
        let mut scan = SegmentScan::new(&superblock, platter.key.as_ref());
        while let Some(read) = scan.next_read() {
            scan.take(&platter.read(slot, read.offset, read.bytes));
        }
        recovery.add(slot, scan.into_found());
    }
    let foreign = recovery.foreign().to_vec();
    let (log, survivors) = recovery.finish();
    log.check();
    (log, survivors, foreign)
}

/// The payload of an object, which its generation decides.
pub(crate) fn payload(generation: u64, bytes: u32) -> Vec<u8> {
    let mut chance = Chance(generation);
    let word = chance.below(u64::MAX).to_le_bytes();
    (0..bytes as usize).map(|at| word[at % 8] ^ (at / 8) as u8).collect()
}

/// An object of a key that its hash names.
pub(crate) fn object(hash: u128, generation: u64, payload_bytes: u32) -> NewObject {
    let labels = Labels { key: format!("key{hash}").into_bytes(), ..Labels::default() };
    let checksum = perigee_memory::crc32c(&payload(generation, payload_bytes));
    NewObject { hash, generation, payload_bytes, checksum, flags: 0, frequency: 0, labels }
}

/// A number that no other segment had.
pub(crate) fn salt() -> u128 {
    static SALTS: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
    SALTS.fetch_add(1, std::sync::atomic::Ordering::Relaxed).into()
}

/// Starts a segment with all its steps: the one whose place it took.
pub(crate) fn start(platter: &mut Platter, log: &mut Log) -> Option<u32> {
    let start = log.start(salt()).expect("there is room");
    platter.write(start.slot, 0, &start.header);
    platter.sync(start.slot);
    log.started()
}

/// The bytes of a batch in the log.
fn bytes_of(batch: &PlacedBatch, objects: &[NewObject]) -> Vec<u8> {
    let mut bytes = vec![0; batch.bytes as usize];
    bytes[..batch.summary.len()].copy_from_slice(&batch.summary);
    for (object, placed) in objects.iter().zip(&batch.images) {
        let payload = payload(object.generation, object.payload_bytes);
        let image = image::of_payload(&payload, object.generation);
        let at = (placed.offset - batch.offset) as usize;
        bytes[at..at + image.len()].copy_from_slice(&image);
    }
    bytes
}

/// Writes a batch with all its steps.
pub(crate) fn append(
    platter: &mut Platter,
    log: &mut Log,
    objects: &[NewObject],
    tombstones: &[Tombstone],
) -> Vec<Written> {
    let batch = log.append(objects, tombstones).expect("there is room");
    platter.write_batch(log, &batch, objects);
    log.complete(&batch)
}

/// Writes footer and trailer up to some step of four.
pub(crate) fn write_end(platter: &mut Platter, log: &Log, end: &SegmentEnd, steps: u64) {
    let encoded = |offset, bytes: &[u8]| platter.encoded(log, end.sequence, offset, bytes.to_vec());
    let footer = encoded(end.footer_offset, &end.footer);
    let trailer = encoded(end.trailer_offset, &end.trailer);
    if steps > 0 {
        platter.write(end.slot, end.footer_offset, &footer);
    }
    if steps > 1 {
        platter.sync(end.slot);
    }
    if steps > 2 {
        platter.write(end.slot, end.trailer_offset, &trailer);
    }
    if steps > 3 {
        platter.sync(end.slot);
    }
}

/// Seals the open segment with all its steps: the tombstones that are safe with it.
pub(crate) fn seal(platter: &mut Platter, log: &mut Log) -> Vec<Tombstone> {
    let end = log.seal().expect("no batch is under way");
    write_end(platter, log, &end, 4);
    log.sealed()
}

/// Whether a read gives the object, bit by bit. Bytes that verify and are others fail the test.
pub(crate) fn reads(
    platter: &Platter,
    log: &mut Log,
    address: DiskAddress,
    generation: u64,
    payload_bytes: u32,
) -> bool {
    let image_bytes = extent_bytes(u64::from(payload_bytes)) as u32;
    let Some(read) = log.read(address, image_bytes) else {
        return false;
    };
    let mut bytes = platter.read(read.slot, read.offset, read.bytes);
    if let Some(key) = &platter.key {
        let salt = log.salt(read.sequence).expect("the segment is held");
        let cipher = key.segment(read.sequence, salt);
        if !cipher.decrypt(read.offset / BLOCK_BYTES, &mut bytes, 0).is_empty() {
            log.end_read(read.sequence);
            return false;
        }
    }
    log.end_read(read.sequence);
    let Some(image) = bytes.get(read.skip as usize..) else {
        return false;
    };
    let is_intact = image::is_intact(image, payload_bytes, generation);
    let right = payload(generation, payload_bytes);
    assert!(!is_intact || image[..payload_bytes as usize] == right, "a wrong byte");
    is_intact
}
