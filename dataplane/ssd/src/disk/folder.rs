//! The folder of a disk and its open files. Invariant: only files with the names of our own are
//! opened, and only for as long as the folder's lock is held.

use crate::format::Superblock;
use crate::limits::{BLOCK_BYTES, OWN_WRITE_BYTES};
use crate::stage::{PooledStage, StagePool};
use perigee_schemas::Identity;
use perigee_shard::{Environment, File, FileOptions, Files};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(super) type FileOf<E> = <<E as Environment>::Files as Files>::File;

const PREFIX: &str = "perigee-";
const SUFFIX: &str = ".seg";
/// The file with both copies of the superblock.
pub(super) const SUPERBLOCK: &str = "superblock";

/// A folder whose lock is held.
pub(super) struct DiskFolder<E: Environment> {
    environment: E,
    pub(super) path: PathBuf,
    pub(super) files: E::Files,
    /// Whether files go past the page cache.
    pub(super) direct: bool,
    /// It has the lock.
    superblock: RefCell<Option<FileOf<E>>>,
    pub(super) slots: RefCell<BTreeMap<u32, FileOf<E>>>,
    /// What new files leave free for others on the file system.
    pub(super) reserve_bytes: Cell<u64>,
}

/// The name of a disk's folder.
pub(super) fn folder_name(disk: Identity) -> String {
    format!("{PREFIX}{:032x}", disk.0)
}

/// Whether a name is that of a disk's folder.
pub(super) fn is_folder_name(name: &str) -> bool {
    let digits = name.strip_prefix(PREFIX);
    digits.is_some_and(|digits| digits.len() == 32 && u128::from_str_radix(digits, 16).is_ok())
}

/// The slot of a segment's file.
pub(super) fn slot_of(name: &str) -> Option<u32> {
    let digits = name.strip_suffix(SUFFIX)?;
    let is_ours = digits.len() == 8 && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_ours.then(|| digits.parse().ok()).flatten()
}

impl<E: Environment> DiskFolder<E> {
    /// A folder of the file that has its lock.
    pub(super) fn new(environment: &E, path: &Path, direct: bool, superblock: FileOf<E>) -> Self {
        Self {
            environment: environment.clone(),
            path: path.to_owned(),
            files: environment.files(),
            direct,
            superblock: RefCell::new(Some(superblock)),
            slots: RefCell::default(),
            reserve_bytes: Cell::new(0),
        }
    }

    /// The identity that its name says.
    pub(super) fn identity(&self) -> Identity {
        let name = self.path.file_name().and_then(|name| name.to_str());
        let digits = name.and_then(|name| name.strip_prefix(PREFIX));
        Identity(digits.and_then(|digits| u128::from_str_radix(digits, 16).ok()).unwrap_or(0))
    }

    /// Closes its files and gives the lock back; operations under way keep theirs.
    pub(super) fn close(&self) {
        self.slots.borrow_mut().clear();
        self.superblock.borrow_mut().take();
    }

    pub(super) fn slot_path(&self, slot: u32) -> PathBuf {
        self.path.join(format!("{slot:08}{SUFFIX}"))
    }

    /// Whether the file system has room for a file of so many bytes and leaves the reserve. A file
    /// system that does not say how much is free is asked by making the file.
    pub(super) async fn has_room(&self, bytes: u64) -> bool {
        let free = self.files.free_bytes(&self.path).await;
        free.map_or(true, |free| free >= bytes.saturating_add(self.reserve_bytes.get()))
    }

    /// Opens the file of a segment.
    pub(super) async fn open_slot(&self, slot: u32, create: bool) -> io::Result<FileOf<E>> {
        let options = FileOptions { create, direct: self.direct };
        let file = self.files.open(&self.slot_path(slot), options).await?;
        let is_new = self.slots.borrow_mut().insert(slot, file.clone()).is_none();
        debug_assert!(is_new, "the file of a segment is opened once");
        Ok(file)
    }

    /// Writes bytes in whole blocks, one part after the other: reads leave no memory for more.
    pub(super) async fn write(
        &self,
        stages: &Arc<StagePool>,
        file: &FileOf<E>,
        bytes: &[u8],
        offset: u32,
    ) -> io::Result<()> {
        debug_assert!(offset.is_multiple_of(BLOCK_BYTES), "whole blocks are written");
        let mut place = u64::from(offset);
        for part in bytes.chunks(OWN_WRITE_BYTES) {
            let whole = part.len().next_multiple_of(BLOCK_BYTES as usize);
            let mut stage = stages.wait(&self.environment, whole).await;
            let memory = stage.as_mut_slice(whole);
            memory[..part.len()].copy_from_slice(part);
            memory[part.len()..].fill(0);
            file.write_at(Arc::new(stage).message(0, whole), place).await?;
            place += whole as u64;
        }
        Ok(())
    }

    /// Reads whole blocks; fewer bytes if the file ends before.
    pub(super) async fn read(
        environment: &E,
        stages: &Arc<StagePool>,
        file: &FileOf<E>,
        bytes: u32,
        offset: u32,
    ) -> io::Result<(Arc<PooledStage>, usize)> {
        let stage = Arc::new(stages.wait(environment, bytes as usize).await);
        let message = stage.message(0, bytes as usize);
        let found = file.read_at(message, u64::from(offset)).await?;
        Ok((stage, found))
    }

    /// Writes a superblock over the older one of the two and makes it safe.
    pub(super) async fn write_superblock(
        &self,
        stages: &Arc<StagePool>,
        superblock: &Superblock,
    ) -> io::Result<()> {
        let file = self.superblock.borrow().clone().ok_or(io::ErrorKind::NotConnected)?;
        self.write(stages, &file, &superblock.encode(), superblock.offset()).await?;
        file.sync().await
    }
}

/// Makes a folder below another one with a name that survives a loss of power.
pub(super) async fn create_folder<F: Files>(files: &F, path: &Path) -> io::Result<()> {
    files.create_folder(path).await?;
    match path.parent() {
        Some(above) => files.sync_folder(above).await,
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_ours_are_ours() {
        assert!(is_folder_name(&folder_name(Identity(7))));
        for name in ["perigee-", "perigee-7", "mooncake", "perigee-zz"] {
            assert!(!is_folder_name(name), "{name}");
        }
        assert_eq!(slot_of("00000042.seg"), Some(42));
        for name in ["42.seg", "0000004x.seg", "+0000042.seg", "00000042.bucket", "superblock"] {
            assert_eq!(slot_of(name), None, "{name}");
        }
    }
}
