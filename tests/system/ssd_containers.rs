//! Nodes with disks where users run them: without rights, on epoll, with little memory to lock, on
//! file systems that are not theirs, read-only or full, and several on one path.
//! Invariant: a disk that cannot be used costs its room and one line that says what to do, never
//! the node.

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::{Gid, Uid, chown, geteuid};
use perigee_schemas::{SegmentKind, Status};
use perigee_tests::cluster::{Master, NODE, Node, node_flags};
use perigee_tests::deadline::wait_until;
use perigee_tests::http;
use perigee_tests::limits::MEMBERSHIP_DEADLINE;
use perigee_tests::network::{free_ports, loopback};
use perigee_tests::objects::{Objects, key_name};
use perigee_tests::program::{Program, path};
use perigee_tests::seccomp::refuse_io_uring;
use std::ops::Range;
use std::path::Path;
use tempfile::TempDir;

pub(super) const OBJECT_BYTES: usize = 256 << 10;
const MEMORY_BYTES: u64 = 24 << 20;
/// Twice what memory holds.
pub(super) const KEYS: u64 = 192;
/// A user with nothing.
const STRANGER: u32 = 65_534;
/// Nothing leaves memory without a copy: what is missing was lost.
pub(super) const FLAGS: [&str; 4] = [
    "--enable_offload",
    "--offload_on_evict",
    "--offload_force_evict=false",
    "--default_kv_lease_ttl=50",
];

/// What a node is started with beside its disk.
fn flags(folder: &Path, http: u16) -> [String; 4] {
    [
        "--enable_offload".to_owned(),
        format!("--ssd_offload_path={}", folder.display()),
        "--enable_http_server=true".to_owned(),
        format!("--http_port={http}"),
    ]
}

/// A node and where its metrics are.
pub(super) struct DiskNode {
    pub(super) node: Node,
    http: u16,
}

impl DiskNode {
    pub(super) fn start(master: &Master, folder: &Path) -> Self {
        Self::launch(master, folder, |flags| Program::start(perigee_tests::cluster::NODE, flags))
    }

    /// One with flags of its own.
    pub(super) fn start_for(master: &Master, folder: &Path, flags: &[&str]) -> Self {
        Self::launch(master, folder, |others| {
            let all: Vec<&str> =
                others.iter().map(String::as_str).chain(flags.iter().copied()).collect();
            Program::start(perigee_tests::cluster::NODE, &all)
        })
    }

    /// One whose disk takes no more than so much.
    pub(super) fn start_with(master: &Master, folder: &Path, limit: &str) -> Self {
        Self::launch(master, folder, |flags| {
            let variables = [("MOONCAKE_OFFLOAD_TOTAL_SIZE_LIMIT_BYTES", limit)];
            Program::start_with(perigee_tests::cluster::NODE, flags, &variables)
        })
    }

    /// One without rights: another user, 8 MiB to lock, no capability.
    fn start_without_rights(master: &Master, folder: &Path) -> Self {
        Self::launch(master, folder, |flags| {
            let script = format!(
                "ulimit -l 8192 && exec setpriv --reuid={STRANGER} --regid={STRANGER} --clear-groups \
                 --bounding-set=-all --no-new-privs \"$0\" node \"$@\""
            );
            let mut words = vec!["-c".to_owned(), script, path().display().to_string()];
            words.extend_from_slice(flags);
            Program::start_file("/bin/bash", &words)
        })
    }

    fn launch(master: &Master, folder: &Path, launch: impl FnOnce(&[String]) -> Program) -> Self {
        let [http] = free_ports();
        let flags = flags(folder, http);
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        Self { node: Node::launch(master, MEMORY_BYTES, &flags, launch), http }
    }

    pub(super) fn log(&self) -> String {
        self.node.program.log()
    }

    /// The state that its metrics tell of its only disk.
    pub(super) fn state(&self) -> String {
        let text = http::get(loopback(self.http), "/metrics").body;
        let is_it = |line: &&str| line.starts_with("perigee_disk_state{") && line.ends_with(" 1");
        let line = text.lines().find(is_it).unwrap_or_default().to_owned();
        let state = line.split("state=\"").nth(1).and_then(|rest| rest.split('"').next());
        state.unwrap_or_default().to_owned()
    }
}

/// Puts objects, each as soon as there is room.
pub(super) fn fill(objects: &Objects) {
    for key in 0..KEYS {
        wait_until("room for an object", MEMBERSHIP_DEADLINE, || {
            let status = objects.put_object(key, 1, OBJECT_BYTES);
            assert!(matches!(status, Status::Ok | Status::NoAvailableHandle), "{status:?}");
            status == Status::Ok
        });
    }
}

/// How many of these objects disks alone have.
pub(super) fn only_on_disk(objects: &Objects, keys: Range<u64>) -> usize {
    let is_only_there = |key: &u64| {
        let found = objects.store.replicas(&[&key_name(*key)]).remove(0).unwrap_or_default();
        !found.is_empty() && found.iter().all(|it| it.kind == Some(SegmentKind::Disk))
    };
    keys.filter(is_only_there).count()
}

/// Everything is there, and part of it on disks alone.
pub(super) fn check_whole(objects: &Objects) {
    for key in 0..KEYS {
        assert_eq!(objects.get_object(key, OBJECT_BYTES), Ok(1), "key {key}");
    }
    let on_disk = only_on_disk(objects, 0..KEYS);
    assert!(on_disk as u64 > KEYS / 4, "{on_disk} of {KEYS}");
}

/// The node serves memory, and its log, its metrics and the master tell of the disk.
fn check_without(master: &Master, node: &mut DiskNode, reason: &str) {
    let log = node.log();
    let lines = log.lines().filter(|line| line.contains("A disk cannot be used"));
    let lines: Vec<&str> = lines.collect();
    assert_eq!(lines.len(), 1, "{log}");
    assert!(lines[0].contains(reason), "{}", lines[0]);
    assert!(!log.contains("panicked"), "{log}");
    assert_eq!(node.state(), "failed");
    wait_until("the master knows of it", MEMBERSHIP_DEADLINE, || {
        let text = http::get(master.http, "/metrics").body;
        text.contains("perigee_disks{state=\"failed\"} 1")
    });
    let objects = Objects::open(&master.address());
    fill(&objects);
    assert_eq!(objects.get_object(KEYS - 1, OBJECT_BYTES), Ok(1));
    assert_eq!(only_on_disk(&objects, 0..KEYS), 0);
    assert!(node.node.program.is_running(), "{log}");
    let status = Program::run("perigee", &["status", &master.address()]);
    assert!(status.output.contains("A disk is failed"), "{}", status.output);
    node.node.program.stop();
}

pub(super) fn is_root() -> bool {
    if !geteuid().is_root() {
        eprintln!("SKIP: only root mounts and gives folders away");
    }
    geteuid().is_root()
}

/// A mount namespace of this thread and of what it starts.
pub(super) fn own_mounts() {
    unshare(CloneFlags::CLONE_NEWNS).expect("root gets a mount namespace");
    let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    mount(None::<&str>, "/", None::<&str>, private, None::<&str>).expect("mounts can be private");
}

pub(super) fn tmpfs(place: &Path, size: &str) {
    let size = format!("size={size},mode=1777");
    let mounted = mount(Some("tmpfs"), place, Some("tmpfs"), MsFlags::empty(), Some(size.as_str()));
    mounted.expect("a tmpfs is mounted");
}

#[test]
fn an_unprivileged_node_with_a_small_dev_shm_uses_its_own_folder() {
    if !is_root() {
        return;
    }
    own_mounts();
    tmpfs(Path::new("/dev/shm"), "4m");
    let (master, folder) = (Master::start(&FLAGS), TempDir::new().expect("a folder"));
    let (user, group) = (Some(Uid::from_raw(STRANGER)), Some(Gid::from_raw(STRANGER)));
    chown(folder.path(), user, group).expect("root gives a folder away");
    let mut node = DiskNode::start_without_rights(&master, folder.path());
    let objects = Objects::open_over_tcp(&master.address());
    fill(&objects);
    check_whole(&objects);
    assert_eq!(node.state(), "healthy", "{}", node.log());
    node.node.program.stop();
}

#[test]
fn a_folder_of_another_user_is_refused_in_one_sentence_and_the_node_goes_on() {
    if !is_root() {
        return;
    }
    let (master, folder) = (Master::start(&FLAGS), TempDir::new().expect("a folder"));
    let mut node = DiskNode::start_without_rights(&master, folder.path());
    check_without(&master, &mut node, "let the user of this process write there");
}

#[test]
fn a_read_only_file_system_is_refused_in_one_sentence_and_the_node_goes_on() {
    if !is_root() {
        return;
    }
    own_mounts();
    let (master, folder) = (Master::start(&FLAGS), TempDir::new().expect("a folder"));
    tmpfs(folder.path(), "64m");
    let flags = MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY;
    mount(None::<&str>, folder.path(), None::<&str>, flags, None::<&str>).expect("it is ours");
    let mut node = DiskNode::start(&master, folder.path());
    check_without(&master, &mut node, "Read-only file system");
    let mut node = DiskNode::start(&master, &folder.path().join("below"));
    assert!(node.log().contains("mount a file system there"), "{}", node.log());
    node.node.program.stop();
}

#[test]
fn a_disk_full_from_the_start_is_refused_and_the_node_goes_on() {
    if !is_root() {
        return;
    }
    own_mounts();
    let (master, folder) = (Master::start(&FLAGS), TempDir::new().expect("a folder"));
    tmpfs(folder.path(), "16m");
    let mut node = DiskNode::start(&master, folder.path());
    check_without(&master, &mut node, "free space");
}

#[test]
fn objects_go_to_disks_on_epoll() {
    refuse_io_uring();
    let (master, folder) = (Master::start(&FLAGS), TempDir::new().expect("a folder"));
    let mut node = DiskNode::start(&master, folder.path());
    assert!(node.log().contains("epoll"), "{}", node.log());
    for objects in [Objects::open(&master.address()), Objects::open_over_tcp(&master.address())] {
        fill(&objects);
        check_whole(&objects);
        for key in 0..KEYS {
            assert_eq!(objects.store.remove(&[&key_name(key)], true), [Status::Ok]);
        }
    }
    node.node.program.stop();
}

#[test]
fn four_nodes_that_start_at_once_on_one_path_have_a_folder_each() {
    let (master, folder) = (Master::start(&FLAGS), TempDir::new().expect("a folder"));
    let start = |port: u16| {
        let mut all = node_flags(&master, port, &MEMORY_BYTES.to_string());
        all.push("--enable_offload".to_owned());
        all.push(format!("--ssd_offload_path={}", folder.path().display()));
        Program::start(NODE, &all)
    };
    let mut nodes: [Program; 4] = free_ports().map(start);
    wait_until("all disks are in use", MEMBERSHIP_DEADLINE, || {
        let text = http::get(master.http, "/metrics").body;
        text.contains("perigee_disks{state=\"healthy\"} 4\n")
    });
    let folders = std::fs::read_dir(folder.path()).expect("a folder");
    assert_eq!(folders.count(), 4, "each has its own");
    for node in &mut nodes {
        assert!(!node.log().contains("A disk cannot be used"), "{}", node.log());
        node.stop();
    }
}
