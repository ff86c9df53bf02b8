//! What folders of a path that many hosts have may use together.
//! Invariant: superblocks say what each of them may use, and one process at a time adds to that.

use super::error::OpenError;
use super::folder::{DiskFolder, FileOf, SUPERBLOCK};
use super::free_folder::folders;
use super::options::{DiskOptions, FolderChoice};
use crate::format::{SUPERBLOCK_FILE_BYTES, Superblock};
use crate::limits::{ROOM_PAUSE, ROOM_SHARES, ROOM_TRIES, SEGMENT_BYTES_MIN, SEGMENTS_MIN};
use crate::stage::StagePool;
use perigee_shard::{Environment, File, FileOptions, Files};
use std::path::Path;
use std::sync::Arc;

/// The file whose lock has who adds to what is used.
const ROOM: &str = "room";

/// What is left of a bound for all folders of a path. While it lives no other process adds to what
/// they may use.
pub(super) struct SharedRoom<E: Environment> {
    _lock: FileOf<E>,
    bytes_of_all: u64,
    left_bytes: u64,
}

impl<E: Environment> SharedRoom<E> {
    /// The room of the path of these options; none if it has no bound.
    pub(super) async fn of(
        environment: &E,
        options: &DiskOptions,
        own: &DiskFolder<E>,
        stages: &Arc<StagePool>,
    ) -> Result<Option<Self>, OpenError> {
        let FolderChoice::FirstOfOurs { bytes_of_all } = options.folder else { return Ok(None) };
        if bytes_of_all == 0 {
            return Ok(None);
        }
        let lock = lock_room(environment, &options.path).await?;
        let mut others = 0_u64;
        for folder in folders(environment, &options.path).await? {
            if folder != own.path {
                let bytes = capacity_of(environment, &folder, options, stages).await;
                others = others.saturating_add(bytes);
            }
        }
        let left_bytes = bytes_of_all.saturating_sub(others);
        Ok(Some(Self { _lock: lock, bytes_of_all, left_bytes }))
    }

    /// What a disk may use that could use so many bytes. Without a limit of its own it has a share,
    /// or what it has already.
    pub(super) fn bound(&self, usable: u64, limit: u64, known: Option<&Superblock>) -> u64 {
        let smallest = SEGMENTS_MIN * u64::from(SEGMENT_BYTES_MIN);
        let share = (self.bytes_of_all / ROOM_SHARES).max(smallest);
        let own = known.map_or(0, capacity);
        let most = if limit == 0 { share.max(own) } else { limit };
        usable.min(most).min(self.left_bytes)
    }
}

fn capacity(superblock: &Superblock) -> u64 {
    u64::from(superblock.segments) * u64::from(superblock.segment_bytes)
}

async fn lock_room<E: Environment>(environment: &E, path: &Path) -> Result<FileOf<E>, OpenError> {
    let room = path.join(ROOM);
    let how = FileOptions { create: true, direct: false };
    let opened = environment.files().open(&room, how).await;
    let file: FileOf<E> = opened.map_err(|error| OpenError::io(&room, "open it", error))?;
    for _ in 0..ROOM_TRIES {
        let locked = file.try_lock().await;
        if locked.map_err(|error| OpenError::io(&room, "lock it", error))? {
            return Ok(file);
        }
        environment.sleep(ROOM_PAUSE).await;
    }
    Err(OpenError::io(room, "lock it", std::io::ErrorKind::WouldBlock.into()))
}

/// What a folder may use; 0 if it is none of ours. Its owner may have it, and writes its superblock
/// over the older of two copies.
async fn capacity_of<E: Environment>(
    environment: &E,
    folder: &Path,
    options: &DiskOptions,
    stages: &Arc<StagePool>,
) -> u64 {
    let how = FileOptions { create: false, direct: false };
    let Ok(file) = environment.files().open(&folder.join(SUPERBLOCK), how).await else { return 0 };
    let file: FileOf<E> = file;
    let reading = DiskFolder::<E>::read(environment, stages, &file, SUPERBLOCK_FILE_BYTES, 0).await;
    let Ok((stage, found)) = reading else { return 0 };
    let known = Superblock::choose(stage.as_slice(0, found), &options.cluster);
    known.as_ref().map_or(0, capacity)
}
