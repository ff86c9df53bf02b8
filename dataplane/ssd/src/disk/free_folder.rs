//! Which folder of a path a disk gets, and which ones are free.
//! Invariant: a folder is had by who has the lock of its superblock, and what was found there is of
//! this cluster and key.

use super::error::OpenError;
use super::folder::{
    DiskFolder, FileOf, SUPERBLOCK, create_folder, folder_name, is_folder_name, slot_of,
};
use super::options::{DiskOptions, FolderChoice};
use crate::cipher::LogKey;
use crate::format::{SUPERBLOCK_FILE_BYTES, Superblock, SuperblockError};
use crate::limits::{FOLDER_TRIES, FOLDERS_SURVEYED_MAX, SURVEY_BYTES};
use crate::stage::StagePool;
use perigee_schemas::Identity;
use perigee_shard::{Environment, File, FileOptions, Files};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A folder whose lock is held, and its superblock if it has one.
pub(super) type Locked<E> = (DiskFolder<E>, Option<Superblock>);

/// The folder that the options choose, with its lock. Processes that look for one at the same
/// moment may take each other's new one; then they look again.
pub(super) async fn take_folder<E: Environment>(
    environment: &E,
    options: &DiskOptions,
    direct: bool,
    stages: &Arc<StagePool>,
) -> Result<Locked<E>, OpenError> {
    let how = FileOptions { create: true, direct };
    if let FolderChoice::Found(folder) = &options.folder {
        let how = FileOptions { create: false, ..how };
        return match lock(environment, folder, options, how, stages).await? {
            Some((folder, Some(known))) => Ok((folder, Some(known))),
            _ => Err(OpenError::io(folder, "lock it", std::io::ErrorKind::WouldBlock.into())),
        };
    }
    let mut folder = options.path.clone();
    for _ in 0..FOLDER_TRIES {
        if let Some(locked) = lock_any(environment, options, how, stages).await? {
            return Ok(locked);
        }
        folder = options.path.join(folder_name(identity(environment)));
        let created = create_folder(&environment.files(), &folder).await;
        created.map_err(|error| OpenError::io(&folder, "make the folder", error))?;
        if let Some(locked) = lock(environment, &folder, options, how, stages).await? {
            return Ok(locked);
        }
    }
    Err(OpenError::io(folder, "lock it", std::io::ErrorKind::WouldBlock.into()))
}

/// The first folder that is there and that no other process has; one without a log only if there is
/// no other: what could not become a log before may have been left.
async fn lock_any<E: Environment>(
    environment: &E,
    options: &DiskOptions,
    how: FileOptions,
    stages: &Arc<StagePool>,
) -> Result<Option<Locked<E>>, OpenError> {
    let mut empty = None;
    for folder in folders(environment, &options.path).await? {
        match lock(environment, &folder, options, how, stages).await {
            Ok(Some((folder, Some(known)))) => return Ok(Some((folder, Some(known)))),
            Ok(Some(locked)) => empty = empty.or(Some(locked)),
            Ok(None) => {}
            Err(error) if options.folder == FolderChoice::FirstFree => return Err(error),
            Err(error) => tracing::warn!(%error, "A folder of others is left alone"),
        }
    }
    Ok(empty)
}

/// Folders of a path that are of this cluster and key and that no process has, a bounded number of
/// them, from a random one on. Their locks are free again.
pub(super) async fn free_folders<E: Environment>(
    environment: &E,
    options: &DiskOptions,
) -> Result<Vec<PathBuf>, OpenError> {
    let stages = StagePool::new(SURVEY_BYTES);
    let stages = stages.map_err(|error| OpenError::Memory(Arc::new(error)))?;
    let how = FileOptions { create: false, direct: false };
    let mut all = folders(environment, &options.path).await?;
    let first = environment.random() as usize % all.len().max(1);
    all.rotate_left(first);
    let mut free = Vec::new();
    for folder in all.into_iter().take(FOLDERS_SURVEYED_MAX) {
        match lock(environment, &folder, options, how, &stages).await {
            Ok(Some((_, Some(_)))) => free.push(folder),
            Ok(_) => {}
            Err(error) => tracing::debug!(%error, "A folder of others is left alone"),
        }
    }
    Ok(free)
}

/// The folders of disks in a path.
pub(super) async fn folders<E: Environment>(
    environment: &E,
    path: &Path,
) -> Result<Vec<PathBuf>, OpenError> {
    let names = environment.files().list(path).await;
    let names = names.map_err(|error| OpenError::io(path, "list it", error))?;
    Ok(names.iter().filter(|name| is_folder_name(name)).map(|name| path.join(name)).collect())
}

fn identity<E: Environment>(environment: &E) -> Identity {
    Identity(u128::from(environment.random()) << 64 | u128::from(environment.random()))
}

/// Takes a folder unless another process has it.
async fn lock<E: Environment>(
    environment: &E,
    path: &Path,
    options: &DiskOptions,
    how: FileOptions,
    stages: &Arc<StagePool>,
) -> Result<Option<Locked<E>>, OpenError> {
    let at = |step| move |error| OpenError::io(path.join(SUPERBLOCK), step, error);
    let opened = environment.files().open(&path.join(SUPERBLOCK), how).await;
    let file: FileOf<E> = opened.map_err(at("open it"))?;
    if !file.try_lock().await.map_err(at("lock it"))? {
        return Ok(None);
    }
    let reading = DiskFolder::read(environment, stages, &file, SUPERBLOCK_FILE_BYTES, 0).await;
    let (stage, found) = reading.map_err(at("read it"))?;
    let bytes = stage.as_slice(0, found);
    let folder = DiskFolder::new(environment, path, how.direct, file);
    // A process that died while it made the folder has left nothing in it.
    if bytes.iter().all(|byte| *byte == 0) && slots_of(&folder).await?.is_empty() {
        return Ok(Some((folder, None)));
    }
    let known = Superblock::choose(bytes, &options.cluster).and_then(|known| {
        let key = options.key.as_ref().map(|key| LogKey::new(key, known.disk));
        check_key(key.as_ref(), &known).map(|()| known)
    });
    let known =
        known.map_err(|source| OpenError::Superblock { folder: path.to_owned(), source })?;
    Ok(Some((folder, Some(known))))
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

/// The files of segments in a folder.
pub(super) async fn slots_of<E: Environment>(
    folder: &DiskFolder<E>,
) -> Result<Vec<u32>, OpenError> {
    let names = folder.files.list(&folder.path).await;
    let names = names.map_err(|error| OpenError::io(&folder.path, "list it", error))?;
    Ok(names.iter().filter_map(|name| slot_of(name)).collect())
}
