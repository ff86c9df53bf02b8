//! File systems of our own: past the page cache or not, without space, without a disk below.
//! Each is mounted in a process of its own, and goes with it.

use crate::host::{Host, LONG, MIB, disk_read, is_read, whole};
use crate::kills::kill_again_and_again;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::geteuid;
use perigee_schemas::DiskHealth;
use perigee_ssd::{DiskOptions, OpenedDisk, ReadError};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// In the environment of the process that mounts: what it plays.
const PLAY: &str = "PERIGEE_TEST_FILE_SYSTEM";

/// Runs a test again in a process that can mount. True in that process.
fn is_inside(test: &str) -> bool {
    if std::env::var(PLAY).is_ok_and(|play| play == test) {
        unshare(CloneFlags::CLONE_NEWNS).unwrap();
        let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
        mount(None::<&str>, "/", None::<&str>, private, None::<&str>).unwrap();
        return true;
    }
    if !geteuid().is_root() {
        eprintln!("SKIP: only root mounts file systems");
        return false;
    }
    if Command::new("mkfs.ext4").arg("-V").output().is_err() || !Path::new("/dev/loop0").exists() {
        eprintln!("SKIP: no mkfs.ext4 or no loop device on this host");
        return false;
    }
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", &format!("file_systems::{test}"), "--nocapture"]);
    let Output { status, stdout, stderr } = child.env(PLAY, test).output().unwrap();
    let said = [String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr)].concat();
    assert!(status.success(), "{status}\n{said}");
    false
}

fn run(program: &str, words: &[&str]) {
    let Output { status, stderr, .. } = Command::new(program).args(words).output().unwrap();
    let said = String::from_utf8_lossy(&stderr);
    assert!(status.success(), "{program} {words:?}: {said}");
}

/// An ext4 in an image in a folder, mounted in another one.
fn ext4(image_folder: &Path, folder: &Path, bytes: u64) -> PathBuf {
    let image = image_folder.join("image");
    std::fs::File::create(&image).unwrap().set_len(bytes).unwrap();
    let image = image.to_str().unwrap();
    run("mkfs.ext4", &["-q", "-F", "-m", "0", "-E", "lazy_itable_init=0,nodiscard", image]);
    let place = folder.join("mounted");
    std::fs::create_dir(&place).unwrap();
    run("mount", &["-o", "loop", image, place.to_str().unwrap()]);
    place
}

fn tmpfs(folder: &Path, bytes: u64) -> PathBuf {
    let place = folder.join("tmpfs");
    std::fs::create_dir(&place).unwrap();
    let size = format!("size={bytes}");
    mount(Some("tmpfs"), &place, Some("tmpfs"), MsFlags::empty(), Some(size.as_str())).unwrap();
    place
}

#[test]
fn past_the_page_cache_of_ext4_nothing_is_lost_by_kills() {
    if is_inside("past_the_page_cache_of_ext4_nothing_is_lost_by_kills") {
        let folder = tempfile::tempdir().unwrap();
        let place = ext4(folder.path(), folder.path(), 160 * MIB);
        let opened = Host::new().open(&place, 64 * MIB);
        assert!(opened.spec.direct, "ext4 takes O_DIRECT");
        opened.disk.close().wait(LONG).unwrap();
        kill_again_and_again(&place, false, 25);
    }
}

#[test]
fn a_tmpfs_is_a_disk_too() {
    if is_inside("a_tmpfs_is_a_disk_too") {
        let folder = tempfile::tempdir().unwrap();
        let place = tmpfs(folder.path(), 200 * MIB);
        let host = Host::new();
        let opened = host.open(&place, 0);
        eprintln!("a tmpfs takes O_DIRECT: {}", opened.spec.direct);
        let address = host.write(&opened.disk, vec![host.outgoing(1, 7, 70_000, 0)])[0];
        assert!(is_read(&opened.disk, address, 70_000, 7));
        opened.disk.close().wait(LONG).unwrap();
        let again = host.open(&place, 0);
        assert_eq!(again.survivors.len(), 1);
        assert!(is_read(&again.disk, address, 70_000, 7));
        again.disk.close().wait(LONG).unwrap();
    }
}

/// Fills what is free with a file.
fn fill(place: &Path) -> PathBuf {
    let path = place.join("others");
    let mut others = std::fs::File::create(&path).unwrap();
    while std::io::Write::write_all(&mut others, &[1; 64 << 10]).is_ok() {}
    path
}

/// So many objects of 1 MiB, one call for each; the places of those that were written.
fn write_many(
    host: &Host,
    opened: &OpenedDisk,
    generations: std::ops::Range<u64>,
) -> Vec<(u64, perigee_schemas::disk_address::DiskAddress)> {
    let write = |generation: u64| {
        let object = host.outgoing(generation.into(), generation, 1 << 20, 0);
        let written = opened.disk.write(vec![object]).wait(LONG).unwrap().remove(0);
        written.ok().map(|address| (generation, address))
    };
    generations.filter_map(write).collect()
}

#[test]
fn a_file_system_that_others_fill_takes_new_objects_in_the_place_of_old_ones() {
    if is_inside("a_file_system_that_others_fill_takes_new_objects_in_the_place_of_old_ones") {
        let folder = tempfile::tempdir().unwrap();
        let place = ext4(folder.path(), folder.path(), 160 * MIB);
        let host = Host::new();
        let opened = host.open(&place, 100 * MIB);
        let first = write_many(&host, &opened, 1..41);
        assert_eq!(first.len(), 40);
        let others = fill(&place);
        let second = write_many(&host, &opened, 101..201);
        assert_eq!(second.len(), 100, "no call fails: {:?}", opened.disk.status());
        let oldest = opened.disk.oldest();
        assert!(oldest > 0, "old segments went");
        for (generation, address) in first.iter().chain(&second) {
            let piece = whole(*address, 1 << 20, *generation);
            match address.sequence >= oldest {
                true => assert!(is_read(&opened.disk, *address, 1 << 20, *generation)),
                false => assert_eq!(disk_read(&opened.disk, piece), Err(ReadError::Gone)),
            }
        }
        let held_back = opened.disk.status().capacity_bytes;
        assert!(held_back < opened.spec.capacity_bytes, "what there is room for is shown");
        std::fs::remove_file(others).unwrap();
        assert_eq!(write_many(&host, &opened, 301..401).len(), 100);
        let status = opened.disk.status();
        assert_eq!(status.capacity_bytes, opened.spec.capacity_bytes, "it has grown again");
        assert_eq!(status.used_bytes, status.capacity_bytes);
        opened.disk.close().wait(LONG).unwrap();
    }
}

#[test]
fn a_disk_that_was_full_before_its_first_segment_is_used_once_there_is_room() {
    if is_inside("a_disk_that_was_full_before_its_first_segment_is_used_once_there_is_room") {
        let folder = tempfile::tempdir().unwrap();
        let place = ext4(folder.path(), folder.path(), 160 * MIB);
        let host = Host::new();
        let opened = host.open(&place, 100 * MIB);
        let others = fill(&place);
        assert_eq!(write_many(&host, &opened, 1..4).len(), 0);
        assert_eq!(opened.disk.status().state.health, DiskHealth::Full);
        std::fs::remove_file(others).unwrap();
        let begun = Instant::now();
        while write_many(&host, &opened, 11..12).is_empty() {
            assert!(begun.elapsed() < 2 * LONG, "{:?}", opened.disk.status());
            std::thread::sleep(Duration::from_millis(50));
        }
        assert_eq!(write_many(&host, &opened, 12..20).len(), 8);
        assert_eq!(opened.disk.status().state.health, DiskHealth::Healthy);
        opened.disk.close().wait(LONG).unwrap();
    }
}

#[test]
fn a_disk_keeps_what_it_has_where_others_have_filled_the_file_system() {
    if is_inside("a_disk_keeps_what_it_has_where_others_have_filled_the_file_system") {
        let folder = tempfile::tempdir().unwrap();
        let place = ext4(folder.path(), folder.path(), 160 * MIB);
        let host = Host::new();
        let opened = host.open(&place, 0);
        let written = write_many(&host, &opened, 1..60);
        assert_eq!(written.len(), 59);
        opened.disk.close().wait(LONG).unwrap();
        for round in 0..4 {
            let others = place.join(format!("others-{round}"));
            std::fs::rename(fill(&place), others).unwrap();
            let again = host.open(&place, 0);
            assert_eq!(again.survivors.len(), written.len(), "start {round}");
            again.disk.close().wait(LONG).unwrap();
        }
        // One that is to be smaller gives up its oldest objects.
        let smaller = host.open(&place, 48 * MIB);
        assert!(smaller.survivors.len() < written.len());
        assert_eq!(smaller.spec.capacity_bytes, 48 * MIB);
        smaller.disk.close().wait(LONG).unwrap();
    }
}

#[test]
fn disks_that_share_a_file_system_leave_some_of_it_free_and_keep_what_they_have() {
    if is_inside("disks_that_share_a_file_system_leave_some_of_it_free_and_keep_what_they_have") {
        let folder = tempfile::tempdir().unwrap();
        let place = ext4(folder.path(), folder.path(), 400 * MIB);
        let host = Host::new();
        let [first, second] = [(); 2].map(|()| host.open(&place, 0));
        for part in 0..20 {
            for (disk, from) in [(&first, 1_000), (&second, 2_000)] {
                let from = from + part * 20;
                assert_eq!(write_many(&host, disk, from..from + 20).len(), 20);
            }
        }
        let space = nix::sys::statvfs::statvfs(&place).unwrap();
        let free = space.blocks_available() as f64 / space.blocks() as f64;
        assert!((0.08..0.3).contains(&free), "{free}");
        let live = |opened: &OpenedDisk| opened.disk.status().used_bytes;
        let used = [live(&first), live(&second)];
        assert!(used.iter().all(|bytes| *bytes >= 64 * MIB), "{used:?}");
        [first, second].into_iter().for_each(|it| it.disk.close().wait(LONG).unwrap());
        let again = [(); 2].map(|()| host.open(&place, 0));
        let mut live = again.each_ref().map(live);
        live.sort();
        let mut used = used;
        used.sort();
        assert_eq!(live, used, "a start takes nothing away");
        again.into_iter().for_each(|it| it.disk.close().wait(LONG).unwrap());
    }
}

#[test]
fn a_disk_whose_writes_fail_is_for_reading_and_brings_no_wrong_byte() {
    if is_inside("a_disk_whose_writes_fail_is_for_reading_and_brings_no_wrong_byte") {
        let folder = tempfile::tempdir().unwrap();
        // An image that promises more than the memory below it has.
        let small = tmpfs(folder.path(), 60 * MIB);
        let place = ext4(&small, folder.path(), 200 * MIB);
        let host = Host::new();
        let options = DiskOptions { segment_bytes: 16 << 20, ..host.options(&place, 128 * MIB) };
        let opened = host.try_open(options.clone()).unwrap();
        let written = write_many(&host, &opened, 1..100);
        assert!((5..60).contains(&written.len()), "{}", written.len());
        let state = opened.disk.status().state;
        let takes_no_writes = [DiskHealth::Full, DiskHealth::ReadOnly].contains(&state.health);
        assert!(takes_no_writes, "{state:?}");
        assert_eq!(opened.disk.oldest(), 0, "none makes room for one that cannot be written");
        // A loop device takes a short write of the file below it for a whole one: what was lost so
        // is a miss.
        let mut lost = 0;
        for (generation, address) in &written {
            let read = disk_read(&opened.disk, whole(*address, 1 << 20, *generation));
            match read {
                Err(ReadError::Gone) => lost += 1,
                _ => lost += usize::from(!is_read(&opened.disk, *address, 1 << 20, *generation)),
            }
        }
        assert!(lost <= 2, "{lost} of {}", written.len());
        opened.disk.close().wait(LONG).unwrap();
    }
}
