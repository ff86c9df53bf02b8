//! Nodes whose disk fails and is well again, at the start and in service.
//! Invariant: the node goes on without it and uses it again without a restart, and no object comes
//! back older than it was acknowledged.

use super::ssd_containers::{
    DiskNode, FLAGS, KEYS, OBJECT_BYTES, check_whole, fill, is_root, only_on_disk, own_mounts,
    tmpfs,
};
use nix::libc;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use perigee_schemas::Status;
use perigee_tests::cluster::Master;
use perigee_tests::deadline::wait_until;
use perigee_tests::limits::MEMBERSHIP_DEADLINE;
use perigee_tests::objects::{Objects, key_name};
use perigee_tests::program::Program;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// `EXT4_IOC_SHUTDOWN`: from now on the file system answers everything with EIO.
const SHUTDOWN: libc::c_ulong = 0x8004_587d;

/// An ext4 in an image, mounted on a folder.
pub(super) struct Ext4 {
    image: PathBuf,
    pub(super) place: PathBuf,
}

impl Ext4 {
    pub(super) fn new(folder: &Path) -> Self {
        let (image, place) = (folder.join("image"), folder.join("place"));
        std::fs::create_dir(&place).expect("a folder");
        let file = std::fs::File::create(&image).expect("a file");
        file.set_len(256 << 20).expect("a sparse file");
        let own = Self { image, place };
        run("mkfs.ext4", &["-q", "-F", "-m", "0", own.image.to_str().expect("a text")]);
        own.mount();
        own
    }

    fn mount(&self) {
        let [image, place] = [&self.image, &self.place].map(|it| it.to_str().expect("a text"));
        run("mount", &["-o", "loop", image, place]);
    }

    /// The disk dies.
    fn die(&self) {
        let root = std::fs::File::open(&self.place).expect("it is mounted");
        let how: u32 = 0;
        #[expect(unsafe_code, reason = "there is no other way to have a disk fail")]
        // SAFETY: the kernel reads one number.
        let done = unsafe { libc::ioctl(root.as_raw_fd(), SHUTDOWN as _, &raw const how) };
        assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
    }

    /// Another disk with the same files takes its place.
    fn replace(&self) {
        let mut copy = self.image.clone();
        copy.set_extension("copy");
        std::fs::copy(&self.image, &copy).expect("there is room");
        Self { image: copy, place: self.place.clone() }.mount();
    }

    pub(super) fn unmount(&self) {
        umount2(&self.place, MntFlags::MNT_DETACH).expect("it is mounted");
    }
}

fn run(program: &str, words: &[&str]) {
    let ended = Command::new(program).args(words).output().expect("it is installed");
    assert!(ended.status.success(), "{program} {words:?}: {ended:?}");
}

/// Root, in mounts of its own, where an ext4 can be made.
pub(super) fn can_mount() -> bool {
    if !is_root() {
        return false;
    }
    if Command::new("mkfs.ext4").arg("-V").output().is_err() || !Path::new("/dev/loop0").exists() {
        eprintln!("SKIP: no mkfs.ext4 or no loop device on this host");
        return false;
    }
    own_mounts();
    true
}

fn lines(node: &DiskNode, text: &str) -> usize {
    node.log().lines().filter(|line| line.contains(text)).count()
}

pub(super) fn wait_for_state(node: &DiskNode, states: &[&str]) {
    wait_until(&format!("the disk is {states:?}"), MEMBERSHIP_DEADLINE, || {
        states.contains(&node.state().as_str())
    });
}

/// Its user sees what is wrong with the disk and that it is tried again.
fn check_status(master: &Master, reason: &str) {
    wait_until("the master knows of it", MEMBERSHIP_DEADLINE, || {
        let status = Program::run("perigee", &["status", &master.address()]).output;
        status.contains(reason) && status.contains("tried again in")
    });
}

/// Puts objects, each as soon as there is room; those that are there stay.
fn add(objects: &Objects, keys: Range<u64>) {
    for key in keys {
        wait_until("room for an object", MEMBERSHIP_DEADLINE, || {
            let status = objects.put_object(key, 1, OBJECT_BYTES);
            [Status::Ok, Status::ObjectAlreadyExists].contains(&status)
        });
    }
}

/// Objects that can be read; none of them has other bytes.
fn there(objects: &Objects) -> usize {
    let read = (0..KEYS).map(|key| match objects.get_object(key, OBJECT_BYTES) {
        Ok(version) => {
            assert_eq!(version, 1, "key {key}");
            true
        }
        Err(_) => false,
    });
    read.filter(|is_there| *is_there).count()
}

#[test]
fn a_disk_that_is_full_at_the_start_is_used_as_soon_as_there_is_room() {
    if !can_mount() {
        return;
    }
    let (master, folder) = (Master::start(&FLAGS), TempDir::new().expect("a folder"));
    tmpfs(folder.path(), "16m");
    let mut node = DiskNode::start(&master, folder.path());
    assert_eq!(node.state(), "failed", "{}", node.log());
    check_status(&master, "free space");
    let flags = MsFlags::MS_REMOUNT;
    mount(None::<&str>, folder.path(), None::<&str>, flags, Some("size=256m")).expect("it is ours");
    wait_for_state(&node, &["healthy"]);
    assert_eq!(lines(&node, "A disk cannot be used"), 1, "{}", node.log());
    assert_eq!(lines(&node, "A disk is back in use"), 1, "{}", node.log());
    let objects = Objects::open(&master.address());
    fill(&objects);
    check_whole(&objects);
    node.node.program.stop();
}

#[test]
fn a_disk_whose_reads_fail_is_back_with_its_objects_when_it_is_well_again() {
    if !can_mount() {
        return;
    }
    let (master, folder) = (Master::start(&FLAGS), TempDir::new().expect("a folder"));
    let disk = Ext4::new(folder.path());
    let mut node = DiskNode::start(&master, &disk.place);
    let objects = Objects::open(&master.address());
    fill(&objects);
    check_whole(&objects);
    disk.die();
    wait_until("reads fail", MEMBERSHIP_DEADLINE, || {
        assert!(there(&objects) > 0, "memory goes on");
        lines(&node, "A disk is out of use") == 1
    });
    let removed = 0..KEYS / 8;
    for key in removed.clone() {
        let status = objects.store.remove(&[&key_name(key)], true)[0];
        assert!(matches!(status, Status::Ok | Status::ObjectNotFound), "{status:?}");
    }
    let before = there(&objects);
    disk.unmount();
    check_status(&master, "is not mounted any more");
    disk.mount();
    wait_for_state(&node, &["healthy"]);
    assert_eq!(lines(&node, "A disk is back in use"), 1, "{}", node.log());
    wait_until("its objects are there again", MEMBERSHIP_DEADLINE, || {
        there(&objects) >= before + KEYS as usize / 8
    });
    for key in removed {
        assert!(!objects.exists(&key_name(key)), "key {key} was removed");
    }
    add(&objects, 0..KEYS);
    check_whole(&objects);
    assert!(!node.log().contains("panicked"), "{}", node.log());
    node.node.program.stop();
}

#[test]
fn a_disk_whose_log_has_ended_is_opened_again_as_soon_as_it_takes_writes() {
    if !can_mount() {
        return;
    }
    let flags = [&FLAGS[..], &["--offload_drive_writes_per_day=0"]].concat();
    let (master, folder) = (Master::start(&flags), TempDir::new().expect("a folder"));
    let disk = Ext4::new(folder.path());
    let mut node = DiskNode::start_with(&master, &disk.place, "64MB");
    let objects = Objects::open(&master.address());
    // So many that segments are used again.
    add(&objects, 0..2 * KEYS);
    disk.die();
    let mut key = 2 * KEYS;
    wait_until("its log ends", MEMBERSHIP_DEADLINE, || {
        for _ in 0..16 {
            objects.put_object(key, 1, OBJECT_BYTES);
            key += 1;
        }
        lines(&node, "its log has ended") > 0
    });
    assert_eq!(node.state(), "read_only", "what it has can be read");
    check_status(&master, "its log has ended");
    disk.replace();
    wait_until("it is opened again", MEMBERSHIP_DEADLINE, || {
        lines(&node, "A disk is back in use") == 1
    });
    let later = 10 * KEYS..11 * KEYS;
    add(&objects, later.clone());
    assert!(only_on_disk(&objects, later) > 0, "{}", node.log());
    node.node.program.stop();
}
