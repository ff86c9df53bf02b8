//! The disk of a host: what survives the end of a process, and what a loss of power leaves of it.
//!
//! Sectors of 512 bytes that no sync has covered are kept or lost each by itself, so writes are
//! torn and change their order. Invariant: what a sync that has ended covers is never lost, and a
//! write takes its bytes when it ends, so memory that is used again too early is noticed.

mod behaviour;
mod operation;
mod stored_file;

pub use behaviour::DiskBehaviour;
use behaviour::Fate;
pub(crate) use operation::{DiskResult, DiskTask, DiskWork};
pub(crate) use stored_file::StoredFile;

use crate::events::Event;
use crate::network::{Core, HostId};
use crate::slot::Slot;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

/// Bytes of what a disk writes whole.
pub(crate) const SECTOR_BYTES: u64 = 512;

/// Files of one host.
#[derive(Debug, Default)]
pub(crate) struct Disk {
    pub(crate) behaviour: DiskBehaviour,
    pub(crate) folders: BTreeSet<PathBuf>,
    /// Numbers of files by name.
    names: BTreeMap<PathBuf, u64>,
    files: BTreeMap<u64, StoredFile>,
    tasks: BTreeMap<u64, DiskTask>,
    numbered: u64,
    /// Syncs that have failed, each with the loss of some writes before it.
    pub(crate) failed_syncs: u64,
}

impl Disk {
    /// Opens a file by its name.
    pub(crate) fn open(&mut self, path: &Path, create: bool) -> io::Result<u64> {
        if let Some(file) = self.names.get(path) {
            return Ok(*file);
        }
        let has_folder = path.parent().is_some_and(|folder| self.folders.contains(folder));
        if !create || !has_folder {
            return Err(io::ErrorKind::NotFound.into());
        }
        self.numbered += 1;
        self.names.insert(path.to_owned(), self.numbered);
        self.files.insert(self.numbered, StoredFile::default());
        Ok(self.numbered)
    }

    pub(crate) fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        if !self.folders.contains(folder) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let all = self.names.keys().chain(&self.folders);
        let inside = all.filter(|path| path.parent() == Some(folder));
        let names = inside.filter_map(|path| path.file_name()?.to_str());
        Ok(names.map(str::to_owned).collect())
    }

    pub(crate) fn remove(&mut self, path: &Path) -> io::Result<()> {
        self.names.remove(path).map(drop).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// The names in a folder survive a loss of power from now on.
    pub(crate) fn sync_names(&mut self, folder: &Path) {
        for (path, number) in &self.names {
            if path.parent() == Some(folder)
                && let Some(file) = self.files.get_mut(number)
            {
                file.has_safe_name = true;
            }
        }
    }

    /// Takes the lock of a file for an open one; false if another one has it.
    pub(crate) fn lock(&mut self, file: u64, opened: u64) -> bool {
        let Some(file) = self.files.get_mut(&file) else { return false };
        *file.locked_by.get_or_insert(opened) == opened
    }

    pub(crate) fn unlock(&mut self, file: u64, opened: u64) {
        if let Some(file) = self.files.get_mut(&file) {
            file.locked_by.take_if(|by| *by == opened);
        }
    }

    pub(crate) fn number(&mut self) -> u64 {
        self.numbered += 1;
        self.numbered
    }

    /// Bytes that files have taken.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.files.values().map(|file| file.length).sum()
    }
}

impl Core {
    /// The disk of a host; an empty one at first.
    pub(crate) fn disk(&mut self, host: HostId) -> &mut Disk {
        self.disks.entry(host).or_default()
    }

    /// Hands an operation to a disk, which carries it out some time later.
    pub(crate) fn begin_disk_task(
        &mut self,
        host: HostId,
        file: u64,
        work: DiskWork,
    ) -> Slot<DiskResult> {
        let life = self.hosts[host].life;
        let after = self.disk(host).behaviour;
        let after = after.latency(&self.random);
        let disk = self.disk(host);
        let (number, slot) = (disk.number(), Slot::default());
        let covered = disk.files.get(&file).map_or(0, |file| file.written);
        let task = DiskTask { file, life, work, covered, slot: slot.clone() };
        disk.tasks.insert(number, task);
        self.events.plan(self.now + after, Event::Disk(host, number));
        slot
    }

    /// A disk carries an operation out.
    pub(crate) fn disk_task_ends(&mut self, host: HostId, number: u64) {
        let Some(mut task) = self.disk(host).tasks.remove(&number) else { return };
        let behaviour = self.disk(host).behaviour;
        let fate = behaviour.fate(&self.random);
        let result = self.carry_out(host, &mut task, fate);
        let detail = result.as_ref().map_or(u64::MAX, |bytes| *bytes as u64);
        self.note(task.work.name(), task.file, detail);
        let is_of_this_life = task.life == self.hosts[host].life;
        if is_of_this_life {
            task.slot.give((result, task.work.into_message()));
        }
    }

    fn carry_out(&mut self, host: HostId, task: &mut DiskTask, fate: Fate) -> io::Result<usize> {
        let random = self.random.fork();
        let free = self.disk(host).free_bytes();
        let Some(file) = self.disk(host).files.get_mut(&task.file) else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let result = task.carry_out(file, free, fate, &random);
        if result.is_err() && matches!(task.work, DiskWork::Sync) {
            self.disk(host).failed_syncs += 1;
        }
        result
    }

    /// The process of a host has ended, or its power has failed, in the middle of whatever its disk
    /// does.
    pub(crate) fn disk_is_left(&mut self, host: HostId, power_stays: bool) {
        let random = self.random.fork();
        let Some(disk) = self.disks.get_mut(&host) else { return };
        for (_, mut task) in std::mem::take(&mut disk.tasks) {
            // What the kernel has not begun is never done; what it has begun, it ends.
            let is_done = random.one_in(2);
            if let Some(file) = disk.files.get_mut(&task.file)
                && is_done
                && matches!(task.work, DiskWork::Write(..))
            {
                let _ = task.carry_out(file, u64::MAX, Fate::Done, &random);
            }
        }
        for file in disk.files.values_mut() {
            file.locked_by = None;
        }
        if power_stays {
            return;
        }
        disk.files.values_mut().for_each(|file| file.lose_power(&random));
        let lost: Vec<u64> = disk
            .files
            .iter()
            .filter(|(_, file)| !file.has_safe_name && random.one_in(2))
            .map(|(number, _)| *number)
            .collect();
        disk.names.retain(|_, number| !lost.contains(number));
    }

    /// Flips one bit of what a disk has stored.
    pub(crate) fn flip_a_bit(&mut self, host: HostId) {
        let random = self.random.fork();
        let Some(disk) = self.disks.get_mut(&host) else { return };
        let files: Vec<u64> = disk.names.values().copied().collect();
        if let Some(file) = (!files.is_empty()).then(|| *random.pick(&files))
            && let Some(file) = disk.files.get_mut(&file)
        {
            file.flip_a_bit(&random);
        }
    }
}

impl Disk {
    fn free_bytes(&self) -> u64 {
        self.behaviour.capacity_bytes.saturating_sub(self.used_bytes())
    }
}
