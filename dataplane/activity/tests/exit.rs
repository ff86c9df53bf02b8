//! What a process leaves in the folder of pages when it ends.
#![allow(clippy::unwrap_used, reason = "tests")]

use perigee_activity::{
    Direction, PageDirectory, PageListing, Route, SlotKey, Stages, page, pages, record,
};
use std::path::Path;
use std::process::{Command, Stdio};

const FOLDER: &str = "PERIGEE_ACTIVITY_DIR";

/// Runs this test again in a process of its own that has a page; how it ends is up to `end`.
fn run_in_child(name: &str, folder: &Path) {
    let mut child = Command::new(std::env::current_exe().unwrap());
    let child = child.args(["--exact", name]).env(FOLDER, folder);
    child.stdout(Stdio::null()).stderr(Stdio::null());
    let _ = child.status().unwrap();
}

/// Whether this is the child, which now has a page.
fn is_child() -> bool {
    let is_child = std::env::var_os(FOLDER).is_some_and(|folder| !folder.is_empty());
    if is_child {
        let path = page().unwrap().path().unwrap();
        std::fs::write(path.parent().unwrap().join(".seen"), b"").unwrap();
        let directory = PageDirectory::from_environment().unwrap();
        assert_eq!(pages(&directory).len(), 1);
    }
    is_child
}

fn left(folder: &Path) -> usize {
    assert!(folder.join(".seen").exists(), "the child had a page");
    std::fs::read_dir(folder).unwrap().count() - 1
}

#[test]
fn a_process_that_ends_in_order_takes_its_page_with_it() {
    if is_child() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    run_in_child("a_process_that_ends_in_order_takes_its_page_with_it", folder.path());
    assert_eq!(left(folder.path()), 0);
}

#[test]
fn a_process_that_ends_in_order_leaves_its_page_to_a_reader() {
    if is_child() {
        let key = SlotKey::new("eth0", Route::Tcp, Direction::Write, 0);
        record(key, 4096, &Stages::whole(1000, 0));
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let directory = PageDirectory::new(folder.path());
    directory.note_reader().unwrap();
    run_in_child("a_process_that_ends_in_order_leaves_its_page_to_a_reader", folder.path());
    let listing = PageListing::read(&directory, |_| false);
    assert_eq!((listing.living.len(), listing.ended.len()), (0, 1));
    let slots = listing.ended[0].slots().unwrap();
    assert_eq!((slots[0].operations, slots[0].bytes), (1, 4096));
}

#[test]
fn a_process_that_is_killed_leaves_a_page_for_the_next_reader() {
    if is_child() {
        nix::sys::signal::raise(nix::sys::signal::Signal::SIGKILL).unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let name = "a_process_that_is_killed_leaves_a_page_for_the_next_reader";
    run_in_child(name, folder.path());
    assert_eq!(left(folder.path()), 1);
    let directory = PageDirectory::new(folder.path());
    assert!(pages(&directory).is_empty());
    assert_eq!(PageListing::read(&directory, |_| false).ended.len(), 1);
}
