//! A path that many hosts have: which folders are free there, taking one over as it is, and what
//! all of them may use together.

use crate::host::{Host, LONG, MIB, is_read};
use perigee_ssd::{DiskOptions, FolderChoice, OpenedDisk};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const SHARED: FolderChoice = FolderChoice::FirstOfOurs { bytes_of_all: 0 };

fn options(host: &Host, path: &Path, folder: FolderChoice) -> DiskOptions {
    DiskOptions { folder, ..host.options(path, 64 * MIB) }
}

fn within(host: &Host, path: &Path, limit: u64, bytes_of_all: u64) -> DiskOptions {
    let folder = FolderChoice::FirstOfOurs { bytes_of_all };
    DiskOptions { folder, ..host.options(path, limit) }
}

fn open(host: &Host, path: &Path, folder: FolderChoice) -> OpenedDisk {
    host.try_open(options(host, path, folder)).unwrap()
}

fn close(opened: &OpenedDisk) {
    opened.disk.close().wait(LONG).unwrap();
}

/// Each file of a folder with its bytes.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
}

#[test]
fn a_folder_without_a_process_is_taken_over_unchanged() {
    takes_over(&Host::new());
    takes_over(&Host::with_key(1));
}

fn takes_over(host: &Host) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    assert_eq!(host.free_folders(options(host, path, SHARED)), Vec::<PathBuf>::new());
    let dead = open(host, path, SHARED);
    let address = host.write(&dead.disk, vec![host.outgoing(1, 11, 70_000, 0)])[0];
    assert!(host.free_folders(options(host, path, SHARED)).is_empty(), "its owner lives");
    let held = FolderChoice::Found(dead.spec.folder.clone());
    let error = host.try_open(options(host, path, held.clone())).unwrap_err().to_string();
    assert!(error.contains("cannot lock it"), "{error}");
    close(&dead);
    let own = open(host, path, FolderChoice::FirstOfOurs { bytes_of_all: 0 });
    assert_eq!(own.spec.folder, dead.spec.folder, "who starts takes what is free");
    close(&own);
    let before = files(&dead.spec.folder);
    let free = host.free_folders(options(host, path, SHARED));
    assert_eq!(free, std::slice::from_ref(&dead.spec.folder));
    // Whatever its new owner may use by its own settings.
    let small = DiskOptions { folder: held, ..host.options(path, 32 * MIB) };
    let adopted = host.try_open(small).unwrap();
    assert_eq!((&adopted.spec.id, adopted.spec.capacity_bytes), (&dead.spec.id, 64 * MIB));
    let found: Vec<_> = adopted.survivors.iter().map(|it| (it.hash, it.address)).collect();
    assert_eq!(found, [(1, address)]);
    assert!(is_read(&adopted.disk, address, 70_000, 11));
    close(&adopted);
    assert!(files(&dead.spec.folder) == before, "nothing was written there");
}

#[test]
fn folders_of_another_cluster_or_key_and_those_without_a_log_are_left_alone() {
    let (host, folder) = (Host::new(), tempfile::tempdir().unwrap());
    let path = folder.path();
    let foreign = DiskOptions { cluster: "other".to_owned(), ..options(&host, path, SHARED) };
    close(&host.try_open(foreign.clone()).unwrap());
    let keyed = Host::with_key(1);
    close(&open(&keyed, path, SHARED));
    std::fs::create_dir(path.join(format!("perigee-{:032x}", 7))).unwrap();
    let all = files_below(path);
    assert_eq!(host.free_folders(options(&host, path, SHARED)), Vec::<PathBuf>::new());
    assert!(files_below(path) == all, "nothing is changed");
    let own = open(&host, path, SHARED);
    assert!(own.survivors.is_empty());
    close(&own);
    assert_eq!(host.free_folders(options(&host, path, SHARED)), [own.spec.folder]);
    let found =
        (host.free_folders(foreign).len(), keyed.free_folders(options(&keyed, path, SHARED)).len());
    assert_eq!(found, (1, 1), "each has its own");
}

fn files_below(path: &Path) -> Vec<(PathBuf, BTreeMap<PathBuf, Vec<u8>>)> {
    let folders = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
    let mut all: Vec<_> = folders.map(|folder| (folder.clone(), files(&folder))).collect();
    all.sort();
    all
}

#[test]
fn all_folders_of_a_path_together_may_use_no_more_than_its_bound() {
    let (host, folder) = (Host::new(), tempfile::tempdir().unwrap());
    let path = folder.path();
    let bytes_of_all = 512 * MIB;
    let share = host.try_open(within(&host, path, 0, bytes_of_all)).unwrap();
    assert_eq!(share.spec.capacity_bytes, bytes_of_all / 8, "without a limit it is a share");
    let large = host.try_open(within(&host, path, 400 * MIB, bytes_of_all)).unwrap();
    assert_eq!(large.spec.capacity_bytes, 400 * MIB);
    let last = host.try_open(within(&host, path, 400 * MIB, bytes_of_all)).unwrap();
    assert_eq!(last.spec.capacity_bytes, 48 * MIB, "what is left");
    let error = host.try_open(within(&host, path, 0, bytes_of_all)).unwrap_err().to_string();
    assert!(error.contains("quota of its directory"), "{error}");
    close(&large);
    let again = host.try_open(within(&host, path, 0, bytes_of_all)).unwrap();
    assert_eq!(again.spec.folder, large.spec.folder);
    assert_eq!(again.spec.capacity_bytes, 400 * MIB, "it keeps what it has");
    [share, last, again].iter().for_each(close);
}
