//! The segment that is being written.
//! Invariant: there is always room left for the footer and the trailer of what it has.

use std::collections::VecDeque;

use perigee_schemas::disk_address::DiskAddress;
use perigee_schemas::extent::extent_bytes;

use super::batch::{NewObject, PlacedBatch, PlacedImage, Tombstone, Written};
use super::error::LogError;
use super::segment_end::SegmentEnd;
use crate::format::{
    BlockRoom, Entry, EntryKind, Footer, SUMMARY_COPIES, SegmentTrailer, Summary, Superblock,
    footer_bytes, summary_bytes,
};
use crate::limits::{
    BATCH_ENTRY_BYTES_MAX, LARGE_IMAGE_BYTES, SEGMENT_ENTRY_BYTES_MAX, SMALL_GRANULE_BYTES,
};

/// A batch that is being written.
#[derive(Debug)]
struct InFlight {
    number: u64,
    is_written: bool,
    objects: Vec<Written>,
    tombstones: Vec<Tombstone>,
    /// Entries up to and with this batch, and their bytes.
    listed: (u32, usize),
}

#[derive(Debug)]
pub(super) struct OpenSegment {
    pub(super) sequence: u32,
    pub(super) slot: u32,
    /// Where in the log the next batch goes.
    cursor: u32,
    batches: u32,
    /// Entries of all batches, encoded: the footer to be.
    list: Vec<u8>,
    entries: u32,
    /// The part of the list that is announced: entries and their bytes.
    announced: (u32, usize),
    in_flight: VecDeque<InFlight>,
    /// Tombstones of written batches that no sync has covered yet.
    unsynced: Vec<Tombstone>,
    is_sealing: bool,
}

impl OpenSegment {
    pub(super) fn new(sequence: u32, slot: u32, room: BlockRoom) -> Self {
        Self {
            sequence,
            slot,
            cursor: room.first_batch(),
            batches: 0,
            list: Vec::new(),
            entries: 0,
            announced: (0, 0),
            in_flight: VecDeque::new(),
            unsynced: Vec::new(),
            is_sealing: false,
        }
    }

    pub(super) fn append(
        &mut self,
        superblock: &Superblock,
        number: u64,
        objects: &[NewObject],
        tombstones: &[Tombstone],
    ) -> Result<PlacedBatch, LogError> {
        let layout = Layout::of(objects, tombstones, superblock.room())?;
        if !layout.fits_alone(superblock) {
            let largest = objects.iter().map(|object| object.payload_bytes).max();
            return Err(LogError::TooLarge(largest.unwrap_or_default()));
        }
        if self.is_sealing || !layout.fits(self.cursor, self.list.len(), superblock) {
            return Err(LogError::Full);
        }
        let start = self.cursor;
        let images: Vec<_> = layout.images.iter().map(|image| image.behind(start)).collect();
        let entries = entries(objects, &images, tombstones);
        entries.iter().for_each(|entry| entry.encode(&mut self.list));
        self.entries += entries.len() as u32;
        let written = objects.iter().zip(&images).map(|(object, image)| Written {
            hash: object.hash,
            generation: object.generation,
            address: DiskAddress { sequence: self.sequence, offset: image.offset },
        });
        let (objects, tombstones) = (written.collect(), tombstones.to_vec());
        let listed = (self.entries, self.list.len());
        self.in_flight.push_back(InFlight {
            number,
            is_written: false,
            objects,
            tombstones,
            listed,
        });
        let (sequence, batch) = (self.sequence, self.batches);
        let (disk, bytes) = (superblock.disk, layout.bytes);
        let summary = Summary { disk, sequence, batch, batch_bytes: bytes, entries };
        self.cursor += bytes;
        self.batches += 1;
        let summary = summary.encode(superblock.room()).repeat(SUMMARY_COPIES as usize);
        Ok(PlacedBatch { number, sequence, slot: self.slot, offset: start, bytes, summary, images })
    }

    pub(super) fn complete(&mut self, number: u64) -> Vec<Written> {
        let is_it = |batch: &&mut InFlight| batch.number == number;
        let batch = self.in_flight.iter_mut().find(is_it);
        let is_first = batch.as_ref().is_some_and(|batch| !batch.is_written);
        debug_assert!(is_first, "a batch is placed before it is written, and written once");
        if let Some(batch) = batch {
            batch.is_written = true;
        }
        let mut announced = Vec::new();
        while let Some(batch) = self.in_flight.pop_front_if(|first| first.is_written) {
            self.announced = batch.listed;
            announced.extend(batch.objects);
            self.unsynced.extend(batch.tombstones);
        }
        announced
    }

    /// Entries of what is announced.
    pub(super) fn entries(&self) -> Vec<Entry> {
        let (count, bytes) = self.announced;
        let entries = Entry::decode_list(&self.list[..bytes], count);
        debug_assert!(entries.is_some(), "its own entries can be read");
        entries.unwrap_or_default()
    }

    /// Tombstones that are being written.
    pub(super) fn tombstones_in_flight(&self) -> impl Iterator<Item = &Tombstone> {
        self.in_flight.iter().flat_map(|batch| &batch.tombstones)
    }

    pub(super) fn unsynced_tombstones(&self) -> usize {
        self.unsynced.len()
    }

    pub(super) fn synced(&mut self, count: usize) -> Vec<Tombstone> {
        let count = count.min(self.unsynced.len());
        self.unsynced.drain(..count).collect()
    }

    /// Those written without a sync and those still being written; and those of objects that are
    /// not announced, and may be found by the next start all the same.
    pub(super) fn into_unsafe_tombstones(self) -> Vec<Tombstone> {
        let void = |object: Written| Tombstone {
            hash: object.hash,
            generation: object.generation,
            sequence: object.address.sequence,
        };
        let in_flight = self.in_flight.into_iter().flat_map(|batch| {
            let objects = batch.objects.into_iter().map(void);
            batch.tombstones.into_iter().chain(objects)
        });
        self.unsynced.into_iter().chain(in_flight).collect()
    }

    pub(super) fn seal(&mut self, superblock: &Superblock) -> Option<SegmentEnd> {
        self.is_sealing = true;
        if !self.in_flight.is_empty() {
            return None;
        }
        let (disk, sequence, room) = (superblock.disk, self.sequence, superblock.room());
        let footer = Footer::encode_list((disk, sequence), (self.entries, &self.list), room);
        let (footer_offset, footer_bytes) = (self.cursor, footer.len() as u32);
        let end = footer_offset + footer_bytes + room.bytes();
        debug_assert!(end <= superblock.log_bytes(), "there was room left for the end");
        let trailer = SegmentTrailer { disk, sequence, footer_offset, footer_bytes }.encode(room);
        let footer_offset = room.on_disk(footer_offset);
        let trailer_offset = room.on_disk(superblock.log_bytes() - room.bytes());
        let slot = self.slot;
        Some(SegmentEnd { sequence, slot, footer_offset, footer, trailer_offset, trailer })
    }

    pub(super) fn check(&self, superblock: &Superblock) {
        let room = superblock.room();
        let end = u64::from(self.cursor) + footer_bytes(self.list.len(), room) as u64;
        assert!(end + u64::from(room.bytes()) <= u64::from(superblock.log_bytes()));
        assert!(self.in_flight.front().is_none_or(|first| !first.is_written));
    }
}

/// Whether an object fits into an empty segment, with names that are valid.
pub(super) fn check_object(object: &NewObject, superblock: &Superblock) -> Result<(), LogError> {
    let layout = Layout::of(std::slice::from_ref(object), &[], superblock.room())?;
    if layout.fits_alone(superblock) {
        Ok(())
    } else {
        Err(LogError::TooLarge(object.payload_bytes))
    }
}

/// A batch before it has a place: offsets from its start.
struct Layout {
    images: Vec<PlacedImage>,
    entry_bytes: usize,
    bytes: u32,
}

impl PlacedImage {
    fn behind(self, start: u32) -> Self {
        Self { offset: start + self.offset, ..self }
    }
}

impl Layout {
    fn of(
        objects: &[NewObject],
        tombstones: &[Tombstone],
        room: BlockRoom,
    ) -> Result<Self, LogError> {
        let names = |object: &NewObject| Entry::bytes_with(&object.labels);
        if objects.iter().any(|object| !object.labels.are_valid() || object.payload_bytes == 0) {
            return Err(LogError::Labels);
        }
        let entry_bytes =
            objects.iter().map(names).sum::<usize>() + tombstones.len() * Entry::BARE_BYTES;
        if entry_bytes > BATCH_ENTRY_BYTES_MAX as usize {
            return Err(LogError::TooLarge(0));
        }
        let mut end = SUMMARY_COPIES * summary_bytes(entry_bytes, room) as u64;
        let mut images = Vec::with_capacity(objects.len());
        for object in objects {
            let bytes = extent_bytes(u64::from(object.payload_bytes));
            let is_large = bytes >= u64::from(LARGE_IMAGE_BYTES);
            let granule = if is_large { room.bytes() } else { SMALL_GRANULE_BYTES };
            let offset = end.next_multiple_of(u64::from(granule));
            end = offset + bytes;
            let too_large = |_| LogError::TooLarge(object.payload_bytes);
            let offset = u32::try_from(offset).map_err(too_large)?;
            images.push(PlacedImage { offset, bytes: u32::try_from(bytes).map_err(too_large)? });
        }
        let bytes = u32::try_from(end.next_multiple_of(u64::from(room.bytes())));
        let bytes = bytes.map_err(|_| LogError::TooLarge(0))?;
        Ok(Self { images, entry_bytes, bytes })
    }

    /// Whether an empty segment has room for it.
    fn fits_alone(&self, superblock: &Superblock) -> bool {
        self.fits(superblock.room().first_batch(), 0, superblock)
    }

    /// Whether it and all that ends the segment have room behind `cursor`.
    fn fits(&self, cursor: u32, list_bytes: usize, superblock: &Superblock) -> bool {
        let (list_bytes, room) = (list_bytes + self.entry_bytes, superblock.room());
        let footer = footer_bytes(list_bytes, room) as u64;
        let end = u64::from(cursor) + u64::from(self.bytes) + footer + u64::from(room.bytes());
        end <= u64::from(superblock.log_bytes()) && list_bytes <= SEGMENT_ENTRY_BYTES_MAX
    }
}

fn entries(objects: &[NewObject], images: &[PlacedImage], tombstones: &[Tombstone]) -> Vec<Entry> {
    let objects = objects.iter().zip(images).map(|(object, image)| Entry {
        hash: object.hash,
        generation: object.generation,
        kind: EntryKind::Object {
            offset: image.offset,
            payload_bytes: object.payload_bytes,
            checksum: object.checksum,
            flags: object.flags,
            frequency: object.frequency,
            labels: object.labels.clone(),
        },
    });
    let tombstones = tombstones.iter().map(|tombstone| Entry {
        hash: tombstone.hash,
        generation: tombstone.generation,
        kind: EntryKind::Tombstone { sequence: tombstone.sequence },
    });
    objects.chain(tombstones).collect()
}
