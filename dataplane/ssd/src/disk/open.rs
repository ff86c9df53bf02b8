//! Opening a disk: how large it is, what is in it.
//! Invariant: a folder is touched only under its lock, and only if it is of this cluster and
//! version or was never used; nothing is removed but segments that verify as ours.

use super::door::{Door, ShardDoor};
use super::driver::DiskDriver;
use super::error::OpenError;
use super::folder::{DiskFolder, create_folder};
use super::free_folder::{slots_of, take_folder};
use super::options::{DiskOptions, DiskSpec, FolderChoice};
use super::scanning::scan_all;
use super::shared_room::SharedRoom;
use super::status::DiskCells;
use crate::cipher::LogKey;
use crate::format::Superblock;
use crate::limits::{
    CLUSTER_BYTES_MAX, SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN, SEGMENT_BYTES_USUAL, SEGMENTS_MAX,
    SEGMENTS_MIN, SEGMENTS_WANTED, STAGE_BYTES_MAX,
};
use crate::log::Log;
use crate::recovery::{Found, Recovery, Survivor};
use crate::stage::StagePool;
use perigee_schemas::Identity;
use perigee_shard::{Environment, Files};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

/// What any thread has of a disk.
pub(super) type DiskParts = (Arc<dyn Door>, Arc<DiskCells>, Arc<StagePool>);
/// The same, what the disk is, and what was found on it.
pub(super) type Opened = (DiskParts, DiskSpec, Vec<Survivor>);

pub(super) async fn open<E: Environment>(
    environment: &E,
    options: DiskOptions,
) -> Result<Opened, OpenError> {
    if options.cluster.len() > CLUSTER_BYTES_MAX {
        return Err(OpenError::ClusterName(options.cluster.len()));
    }
    let files = environment.files();
    let path = &options.path;
    if options.folder != FolderChoice::FirstFree {
        check_locks(&files, &options).await?;
    }
    // Where nothing is mounted, what is written would land on another disk.
    let above = path.parent().unwrap_or(path);
    let found = files.free_bytes(above).await;
    found.map_err(|error| OpenError::io(above, "find the folder that its own is in", error))?;
    let created = create_folder(&files, path).await;
    created.map_err(|error| OpenError::io(path, "make the folder", error))?;
    let direct = takes_direct(&files, path).await?;
    let stages = StagePool::new(STAGE_BYTES_MAX);
    let stages = stages.map_err(|error| OpenError::Memory(Arc::new(error)))?;
    let (folder, known) = take_folder(environment, &options, direct, &stages).await?;
    let disk = known.as_ref().map_or_else(|| folder.identity(), |known| known.disk);
    let key = options.key.as_ref().map(|key| LogKey::new(key, disk));
    let slots = slots_of(&folder).await?;
    // Held until what this disk may use is written down.
    let room = SharedRoom::of(environment, &options, &folder, &stages).await?;
    let space = Space::of(&folder, known.as_ref(), slots.len()).await?;
    folder.reserve_bytes.set(space.reserve_bytes());
    let superblock = match (&options.folder, &known) {
        // Nothing is written there before its last owner is known to have gone.
        (FolderChoice::Found(_), Some(known)) => known.clone(),
        _ => {
            let found = (known.as_ref(), key.as_ref().map(LogKey::check));
            sized(&options, folder.identity(), found, (&space, room.as_ref()))?
        }
    };
    if known.as_ref() != Some(&superblock) {
        let writing = folder.write_superblock(&stages, &superblock).await;
        writing.map_err(|error| OpenError::io(&folder.path, "write its superblock", error))?;
        let named = folder.files.sync_folder(&folder.path).await;
        named.map_err(|error| OpenError::io(&folder.path, "sync it", error))?;
    }
    drop(room);
    let folder = Rc::new(folder);
    let scanned = (&superblock, key.as_ref());
    let found = scan_all(environment, &folder, &stages, scanned, slots).await?;
    let found = without_surplus(&folder, &superblock, found).await?;
    let (log, survivors) = recover(superblock, found);
    Ok(begin(environment, &options, folder, (log, key, survivors), stages))
}

/// Whether bytes can be written in a folder and read again.
pub(super) async fn try_path<E: Environment>(
    environment: &E,
    path: &Path,
) -> Result<(), OpenError> {
    takes_direct(&environment.files(), path).await.map(drop)
}

/// Whether hosts see each other's locks in a path that they share. The folder above it is there, or
/// is not mounted.
async fn check_locks<F: Files>(files: &F, options: &DiskOptions) -> Result<(), OpenError> {
    let above = options.path.parent().unwrap_or(&options.path);
    let refusal = files.lock_refusal(above).await;
    match refusal.map_err(|error| OpenError::io(above, "find it", error))? {
        None => Ok(()),
        Some(reason) => Err(OpenError::Locks { path: above.to_owned(), reason }),
    }
}

/// Whether files of a folder go past the page cache, from one trial write.
async fn takes_direct<F: Files>(files: &F, path: &Path) -> Result<bool, OpenError> {
    let direct = files.takes_direct(path).await;
    direct.map_err(|error| OpenError::io(path, "write a file in it", error))
}

/// Starts the tasks of a disk.
fn begin<E: Environment>(
    environment: &E,
    options: &DiskOptions,
    folder: Rc<DiskFolder<E>>,
    (log, key, survivors): (Log, Option<LogKey>, Vec<Survivor>),
    stages: Arc<StagePool>,
) -> Opened {
    let superblock = log.superblock().clone();
    let capacity_bytes = u64::from(superblock.segments) * u64::from(superblock.segment_bytes);
    let spec = DiskSpec {
        id: superblock.disk,
        folder: folder.path.clone(),
        capacity_bytes,
        segment_bytes: superblock.segment_bytes,
        oldest: log.oldest(),
        direct: folder.direct,
    };
    tracing::info!(
        disk = %folder.path.display(),
        capacity_bytes,
        objects = survivors.len(),
        direct = folder.direct,
        encrypted = key.is_some(),
        "The disk is open{}",
        if folder.direct { "" } else { "; its file system takes no O_DIRECT, so the page cache is used" }
    );
    let heard = (options.on_event.clone(), options.promotes.clone());
    let driver = DiskDriver::new(environment, folder, (log, key), stages.clone(), heard);
    let cells: Arc<DiskCells> = driver.cells.clone();
    let name = environment.keep(driver.clone());
    environment.spawn(driver.clone().watch());
    let own = environment.clone();
    environment.spawn(async move {
        driver.clone().write_all().await;
        own.give_up(name);
        driver.folder.close();
        let closing = driver.closing.borrow_mut().take();
        closing.into_iter().flatten().for_each(|promise| promise.give(()));
    });
    let door = Arc::new(ShardDoor { mailbox: environment.mailbox().clone(), driver: name });
    ((door, cells, stages), spec, survivors)
}

/// What the file system of a folder has for its disk.
struct Space {
    /// Of the segments that are there.
    own_bytes: u64,
    free_bytes: u64,
}

impl Space {
    async fn of<E: Environment>(
        folder: &DiskFolder<E>,
        known: Option<&Superblock>,
        files: usize,
    ) -> Result<Self, OpenError> {
        let free = folder.files.free_bytes(&folder.path).await;
        let free_bytes =
            free.map_err(|error| OpenError::io(&folder.path, "ask for its free space", error))?;
        let segment_bytes = known.map_or(0, |known| u64::from(known.segment_bytes));
        Ok(Self { own_bytes: files as u64 * segment_bytes, free_bytes })
    }

    /// What is left to others, however many disks share the file system: no segment is added where
    /// less would be free. Of both, so that a disk does not take more with each start.
    fn reserve_bytes(&self) -> u64 {
        (self.own_bytes + self.free_bytes) / 10
    }

    /// What one of so many disks of a process may have. What it has it keeps, whatever others have
    /// filled since.
    fn usable_bytes(&self, segment_bytes: u64, sharers: u64) -> u64 {
        let least = if self.own_bytes > 0 { SEGMENTS_MIN * segment_bytes } else { 0 };
        let usable = (self.own_bytes + self.free_bytes / sharers.max(1)) / 10 * 9;
        usable.max(self.own_bytes).max(least)
    }
}

/// The superblock with as many segments as the setting and the free space allow.
fn sized<E: Environment>(
    options: &DiskOptions,
    disk: Identity,
    (known, key_check): (Option<&Superblock>, Option<u128>),
    (space, room): (&Space, Option<&SharedRoom<E>>),
) -> Result<Superblock, OpenError> {
    let segment_bytes_known = known.map_or(0, |known| u64::from(known.segment_bytes));
    let usable = space.usable_bytes(segment_bytes_known, options.sharers);
    let capacity_bytes = match options.capacity_bytes {
        0 => usable,
        limit => limit.min(usable),
    };
    let capacity_bytes = match room {
        Some(room) => room.bound(capacity_bytes, options.capacity_bytes, known),
        None => capacity_bytes,
    };
    let segment_bytes = match known {
        Some(known) => known.segment_bytes,
        None => segment_bytes(options.segment_bytes, capacity_bytes),
    };
    let segments = capacity_bytes / u64::from(segment_bytes);
    if segments < SEGMENTS_MIN {
        let needed_bytes = SEGMENTS_MIN * u64::from(segment_bytes);
        let path = options.path.clone();
        return Err(OpenError::TooSmall { path, capacity_bytes, needed_bytes });
    }
    let segments = segments.min(u64::from(SEGMENTS_MAX)) as u32;
    Ok(match known {
        Some(known) if known.segments == segments => known.clone(),
        Some(known) => Superblock { serial: known.serial + 1, segments, ..known.clone() },
        None => Superblock {
            disk,
            cluster: options.cluster.clone(),
            serial: 0,
            segment_bytes,
            segments,
            void_before: 0,
            key_check,
        },
    })
}

/// Bytes of a segment of a new disk, whole MiB.
fn segment_bytes(wanted: u32, capacity_bytes: u64) -> u32 {
    let chosen = match wanted {
        0 => (capacity_bytes / SEGMENTS_WANTED).min(u64::from(SEGMENT_BYTES_USUAL)) as u32,
        wanted => wanted,
    };
    let chosen = chosen.clamp(SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX);
    let bytes = chosen / (1 << 20) * (1 << 20);
    debug_assert!((SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX).contains(&bytes), "a superblock says it");
    bytes
}

/// Removes the oldest segments of a disk that has become smaller.
async fn without_surplus<E: Environment>(
    folder: &DiskFolder<E>,
    superblock: &Superblock,
    mut found: Vec<(u32, Found)>,
) -> Result<Vec<(u32, Found)>, OpenError> {
    let sequence = |found: &Found| match found {
        Found::Segment { sequence, .. } | Found::Unsure { sequence } => Some(*sequence),
        Found::Blank => Some(0),
        Found::Foreign => None,
    };
    found.sort_by_key(|(slot, found)| (sequence(found), *slot));
    let surplus = found.len().saturating_sub(superblock.segments as usize);
    let (all, mut removed) = (found.len(), 0);
    let mut kept = Vec::with_capacity(all);
    for (slot, found) in found {
        if removed == surplus || found == Found::Foreign {
            kept.push((slot, found));
            continue;
        }
        removed += 1;
        folder.slots.borrow_mut().remove(&slot);
        let gone = folder.files.remove(&folder.slot_path(slot)).await;
        gone.map_err(|error| OpenError::io(folder.slot_path(slot), "remove it", error))?;
    }
    if removed > 0 {
        let disk = folder.path.display();
        tracing::warn!(%disk, segments = removed, "The disk may use less than before: its oldest segments are removed");
        let named = folder.files.sync_folder(&folder.path).await;
        named.map_err(|error| OpenError::io(&folder.path, "sync it", error))?;
    }
    debug_assert_eq!(kept.len() + removed, all, "a file is kept or removed");
    Ok(kept)
}

fn recover(superblock: Superblock, found: Vec<(u32, Found)>) -> (Log, Vec<Survivor>) {
    let mut recovery = Recovery::new(superblock);
    found.into_iter().for_each(|(slot, found)| recovery.add(slot, found));
    recovery.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_free_is_counted_once_for_all_disks_of_a_process_there() {
        let fresh = Space { own_bytes: 0, free_bytes: 1000 };
        assert_eq!([1, 2, 4].map(|disks| fresh.usable_bytes(1, disks)), [900, 450, 225]);
        // Two that have grown are offered what they were, whatever they leave free.
        let grown = Space { own_bytes: 400, free_bytes: 200 };
        assert_eq!(grown.usable_bytes(1, 2), 450);
        let full = Space { own_bytes: 450, free_bytes: 0 };
        assert_eq!(full.usable_bytes(1, 2), 450, "what it has it keeps");
    }

    #[test]
    fn small_disks_have_small_segments() {
        let sizes =
            [(0, 100 << 30), (0, 1 << 30), (0, 64 << 20), (8, 1 << 40), (64 << 20, 1 << 40)];
        let chosen = sizes.map(|(wanted, capacity)| segment_bytes(wanted, capacity) >> 20);
        assert_eq!(chosen, [256, 128, 16, 16, 64]);
    }
}
