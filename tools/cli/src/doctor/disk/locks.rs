//! Folders of disks, and which of them running processes have. Invariant: no lock is taken, so that
//! a client that starts at this moment finds its folder free.

use std::collections::BTreeSet;
use std::fs::DirEntry;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Where the kernel lists all locks.
const LOCKS: &str = "/proc/locks";
/// What the folder of a disk is called, and the file in it that is locked.
const PREFIX: &str = "perigee-";
const SUPERBLOCK: &str = "superblock";

/// How many disks below a folder are in use.
pub(super) fn held_in(folder: &Path) -> usize {
    let locked = locked_files(&std::fs::read_to_string(LOCKS).unwrap_or_default());
    let is_held = |disk: &DirEntry| {
        let file = std::fs::metadata(disk.path().join(SUPERBLOCK));
        file.is_ok_and(|file| locked.contains(&file.ino()))
    };
    disks_in(folder).filter(is_held).count()
}

/// Bytes of all files of the disks below a folder.
pub(super) fn bytes_in(folder: &Path) -> u64 {
    let files = disks_in(folder).filter_map(|disk| std::fs::read_dir(disk.path()).ok());
    let bytes = |file: DirEntry| file.metadata().map_or(0, |file| file.len());
    files.flatten().flatten().map(bytes).sum()
}

fn disks_in(folder: &Path) -> impl Iterator<Item = DirEntry> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX))
}

/// Numbers of the files that are locked as a whole. That a file of another file system has the same
/// number is taken for an accident that does not happen.
fn locked_files(locks: &str) -> BTreeSet<u64> {
    let of_line = |line: &str| {
        let mut words = line.split_whitespace().skip_while(|word| *word != "FLOCK");
        words.find_map(|word| word.split(':').nth(2)?.parse().ok())
    };
    locks.lines().filter_map(of_line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{File, create_dir};

    #[test]
    fn a_disk_is_in_use_while_its_superblock_is_locked() {
        let folder = tempfile::tempdir().unwrap();
        let disk = folder.path().join("perigee-07");
        create_dir(&disk).unwrap();
        create_dir(folder.path().join("other")).unwrap();
        let file = File::create(disk.join(SUPERBLOCK)).unwrap();
        assert_eq!(held_in(folder.path()), 0);
        file.lock().unwrap();
        assert_eq!(held_in(folder.path()), 1);
        file.set_len(500).unwrap();
        std::fs::write(disk.join("00000000.seg"), [1; 70]).unwrap();
        std::fs::write(folder.path().join("other").join("file"), [1; 9]).unwrap();
        assert_eq!(bytes_in(folder.path()), 570);
        drop(file);
        assert_eq!(held_in(folder.path()), 0);
    }

    #[test]
    fn lines_of_other_locks_are_left_out() {
        let locks = "1: POSIX  ADVISORY  WRITE 10 08:01:77 0 EOF\n2: FLOCK  ADVISORY  WRITE 11 08:01:78 0 EOF\n";
        assert_eq!(locked_files(locks), BTreeSet::from([78]));
    }
}
