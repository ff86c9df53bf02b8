//! Opening a disk: which folder, how large, what is in it.
//! Invariant: a folder is touched only under its lock, and only if it is of this cluster and
//! version or was never used; nothing is removed but segments that verify as ours.

use super::door::{Door, ShardDoor};
use super::driver::DiskDriver;
use super::error::OpenError;
use super::folder::{
    DiskFolder, FileOf, SUPERBLOCK, create_folder, folder_name, is_folder_name, slot_of,
};
use super::options::{DiskOptions, DiskSpec};
use super::scanning::scan_all;
use super::status::DiskCells;
use crate::cipher::LogKey;
use crate::format::{SUPERBLOCK_FILE_BYTES, Superblock, SuperblockError};
use crate::limits::{
    CLUSTER_BYTES_MAX, FOLDER_TRIES, SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN, SEGMENT_BYTES_USUAL,
    SEGMENTS_MAX, SEGMENTS_MIN, SEGMENTS_WANTED, STAGE_BYTES_MAX,
};
use crate::log::Log;
use crate::recovery::{Found, Recovery, Survivor};
use crate::stage::StagePool;
use perigee_schemas::Identity;
use perigee_shard::{Environment, File, FileOptions, Files};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

/// The door of a disk, what any thread sees of it, what it is, and what was found on it.
pub(super) type Opened = (Arc<dyn Door>, Arc<DiskCells>, DiskSpec, Vec<Survivor>);

/// A folder whose lock is held, and its superblock if it has one.
type Locked<E> = (DiskFolder<E>, Option<Superblock>);

pub(super) async fn open<E: Environment>(
    environment: &E,
    options: DiskOptions,
) -> Result<Opened, OpenError> {
    if options.cluster.len() > CLUSTER_BYTES_MAX {
        return Err(OpenError::ClusterName(options.cluster.len()));
    }
    let files = environment.files();
    let path = &options.path;
    let created = create_folder(&files, path).await;
    created.map_err(|error| OpenError::io(path, "make the folder", error))?;
    let direct = takes_direct(&files, path).await?;
    let stages = StagePool::new(STAGE_BYTES_MAX);
    let stages = stages.map_err(|error| OpenError::Memory(Arc::new(error)))?;
    let (folder, known) = lock_folder(environment, &options, direct, &stages).await?;
    let disk = known.as_ref().map_or_else(|| folder.identity(), |known| known.disk);
    let key = options.key.as_ref().map(|key| LogKey::new(key, disk));
    if let Some(known) = &known {
        check_key(key.as_ref(), known)
            .map_err(|source| OpenError::Superblock { folder: folder.path.clone(), source })?;
    }
    let slots = slots_of(&folder).await?;
    let found = (known.as_ref(), key.as_ref().map(LogKey::check));
    let superblock = sized(&options, &folder, found, slots.len() as u64).await?;
    if known.as_ref() != Some(&superblock) {
        let writing = folder.write_superblock(&stages, &superblock).await;
        writing.map_err(|error| OpenError::io(&folder.path, "write its superblock", error))?;
        let named = folder.files.sync_folder(&folder.path).await;
        named.map_err(|error| OpenError::io(&folder.path, "sync it", error))?;
    }
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

/// Whether files of a folder go past the page cache, from one trial write.
async fn takes_direct<F: Files>(files: &F, path: &Path) -> Result<bool, OpenError> {
    let direct = files.takes_direct(path).await;
    direct.map_err(|error| OpenError::io(path, "write a file in it", error))
}

/// Whether what is in a folder is encrypted with this key, or with none if there is none.
fn check_key(key: Option<&LogKey>, known: &Superblock) -> Result<(), SuperblockError> {
    match (key, known.key_check) {
        (None, None) => Ok(()),
        (None, Some(_)) => Err(SuperblockError::NoKey),
        (Some(_), None) => Err(SuperblockError::NotEncrypted),
        (Some(key), Some(check)) if key.check() == check => Ok(()),
        (Some(_), Some(_)) => Err(SuperblockError::OtherKey),
    }
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
    let on_event = options.on_event.clone();
    let driver = DiskDriver::new(environment, folder, (log, key), stages, on_event);
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
    (door, cells, spec, survivors)
}

/// The first folder of the path that no other process has; a new one if there is none. Processes
/// that look for a folder at the same moment may take each other's new one; then they look again.
async fn lock_folder<E: Environment>(
    environment: &E,
    options: &DiskOptions,
    direct: bool,
    stages: &Arc<StagePool>,
) -> Result<Locked<E>, OpenError> {
    let mut folder = options.path.clone();
    for _ in 0..FOLDER_TRIES {
        if let Some(locked) = lock_any(environment, options, direct, stages).await? {
            return Ok(locked);
        }
        folder = options.path.join(folder_name(identity(environment)));
        let created = create_folder(&environment.files(), &folder).await;
        created.map_err(|error| OpenError::io(&folder, "make the folder", error))?;
        if let Some(locked) = lock(environment, &folder, options, direct, stages).await? {
            return Ok(locked);
        }
    }
    Err(OpenError::io(folder, "lock it", std::io::ErrorKind::WouldBlock.into()))
}

/// The first folder that is there and that no other process has.
async fn lock_any<E: Environment>(
    environment: &E,
    options: &DiskOptions,
    direct: bool,
    stages: &Arc<StagePool>,
) -> Result<Option<Locked<E>>, OpenError> {
    let path = &options.path;
    let names = environment.files().list(path).await;
    let names = names.map_err(|error| OpenError::io(path, "list it", error))?;
    for name in names.iter().filter(|name| is_folder_name(name)) {
        if let Some(locked) = lock(environment, &path.join(name), options, direct, stages).await? {
            return Ok(Some(locked));
        }
    }
    Ok(None)
}

fn identity<E: Environment>(environment: &E) -> Identity {
    Identity(u128::from(environment.random()) << 64 | u128::from(environment.random()))
}

/// Takes a folder unless another process has it.
async fn lock<E: Environment>(
    environment: &E,
    path: &Path,
    options: &DiskOptions,
    direct: bool,
    stages: &Arc<StagePool>,
) -> Result<Option<Locked<E>>, OpenError> {
    let at = |step| move |error| OpenError::io(path.join(SUPERBLOCK), step, error);
    let how = FileOptions { create: true, direct };
    let opened = environment.files().open(&path.join(SUPERBLOCK), how).await;
    let file: FileOf<E> = opened.map_err(at("open it"))?;
    if !file.try_lock().map_err(at("lock it"))? {
        return Ok(None);
    }
    let reading = DiskFolder::read(environment, stages, &file, SUPERBLOCK_FILE_BYTES, 0).await;
    let (stage, found) = reading.map_err(at("read it"))?;
    let bytes = stage.as_slice(0, found);
    let folder = DiskFolder::new(environment, path, direct, file);
    // A process that died while it made the folder has left nothing in it.
    if bytes.iter().all(|byte| *byte == 0) && slots_of(&folder).await?.is_empty() {
        return Ok(Some((folder, None)));
    }
    match Superblock::choose(bytes, &options.cluster) {
        Ok(superblock) => Ok(Some((folder, Some(superblock)))),
        Err(source) => Err(OpenError::Superblock { folder: path.to_owned(), source }),
    }
}

/// The files of segments in a folder.
async fn slots_of<E: Environment>(folder: &DiskFolder<E>) -> Result<Vec<u32>, OpenError> {
    let names = folder.files.list(&folder.path).await;
    let names = names.map_err(|error| OpenError::io(&folder.path, "list it", error))?;
    Ok(names.iter().filter_map(|name| slot_of(name)).collect())
}

/// The superblock with as many segments as the setting and the free space allow.
async fn sized<E: Environment>(
    options: &DiskOptions,
    folder: &DiskFolder<E>,
    (known, key_check): (Option<&Superblock>, Option<u128>),
    files: u64,
) -> Result<Superblock, OpenError> {
    let free = folder.files.free_bytes(&folder.path).await;
    let free =
        free.map_err(|error| OpenError::io(&folder.path, "ask for its free space", error))?;
    let own = files * known.map_or(0, |known| u64::from(known.segment_bytes));
    // Of both, so that a disk does not take more with each start.
    let usable = (own + free) / 10 * 9;
    let capacity_bytes = match options.capacity_bytes {
        0 => usable,
        limit => limit.min(usable),
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
            disk: folder.identity(),
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
    chosen / (1 << 20) * (1 << 20)
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
    let mut removed = 0;
    let mut kept = Vec::with_capacity(found.len());
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
        let named = folder.files.sync_folder(&folder.path).await;
        named.map_err(|error| OpenError::io(&folder.path, "sync it", error))?;
    }
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
    fn small_disks_have_small_segments() {
        let sizes =
            [(0, 100 << 30), (0, 1 << 30), (0, 64 << 20), (8, 1 << 40), (64 << 20, 1 << 40)];
        let chosen = sizes.map(|(wanted, capacity)| segment_bytes(wanted, capacity) >> 20);
        assert_eq!(chosen, [256, 128, 16, 16, 64]);
    }
}
