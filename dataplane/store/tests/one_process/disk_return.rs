//! Disks that cannot be used at first and can be later, while their client goes on.
//! Invariant: a client asks for no restart, and what it was asked to leave it leaves.

use crate::cluster::{data, get, master};
use crate::tier::{AT_EVICTION, OBJECT_BYTES, OBJECTS, is_only_on_disk, key, lender, put_soon};
use perigee_schemas::{DiskHealth, Status};
use perigee_store::Store;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Longer than the pauses before the first two tries.
const TRIES: Duration = Duration::from_secs(20);

fn health(store: &Store) -> DiskHealth {
    store.disk_numbers()[0].health
}

/// Whether the only disk is used within the time of a few tries.
fn comes_into_use(store: &Store) -> bool {
    let begin = Instant::now();
    while begin.elapsed() < TRIES && health(store) != DiskHealth::Healthy {
        std::thread::sleep(Duration::from_millis(50));
    }
    health(store) == DiskHealth::Healthy
}

#[test]
fn a_folder_that_is_made_good_is_used_without_a_restart() {
    let (cluster, folder) = (master(&AT_EVICTION), TempDir::new().unwrap());
    let place = folder.path().join("place");
    std::fs::write(&place, "a file, where a folder must be").unwrap();
    let path = place.join("kv");
    let store = lender(&cluster, &path);
    assert_eq!(health(&store), DiskHealth::Failed);
    std::fs::remove_file(&place).unwrap();
    assert!(!path.exists(), "only the last part of a path is made");
    std::fs::create_dir(&place).unwrap();
    assert!(comes_into_use(&store));
    (0..OBJECTS).for_each(|number| put_soon(&store, number, number));
    assert!((0..OBJECTS).any(|number| is_only_on_disk(&store, number)), "the disk is used");
    for number in 0..OBJECTS {
        assert_eq!(get(&store, &key(number)).unwrap(), data(number, OBJECT_BYTES), "{number}");
    }
    drop(store);
    let again = lender(&cluster, &path);
    assert_eq!(health(&again), DiskHealth::Healthy, "the folder was given back");
}

#[test]
fn disks_that_their_user_has_withdrawn_are_not_tried_again() {
    let (cluster, folder) = (master(&AT_EVICTION), TempDir::new().unwrap());
    let place = folder.path().join("place");
    std::fs::write(&place, "a file").unwrap();
    let store = lender(&cluster, &place);
    assert_eq!(store.unmount_disks(0), Status::Ok);
    std::fs::remove_file(&place).unwrap();
    assert!(!comes_into_use(&store) && !place.exists());
}
