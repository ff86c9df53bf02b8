//! Control groups of a test's own, of either version: for memory, and for what a disk does.
//! Invariant: it is removed with its value, after its processes.

use nix::libc;
use nix::unistd::Pid;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::deadline::comes_true;
use crate::limits::EXIT_DEADLINE;

/// Limits of operations a second of the older version...
const LEGACY: [&str; 2] = ["blkio.throttle.read_iops_device", "blkio.throttle.write_iops_device"];
/// ... and the file of all limits of the newer one.
const UNIFIED: &str = "io.max";

/// A group with a limit.
#[derive(Debug)]
pub struct MemoryGroup {
    path: PathBuf,
}

impl MemoryGroup {
    /// A group below this process's own; nothing, with the reason on stderr, where none can be
    /// made.
    pub fn limited_to(bytes: u64) -> Option<Self> {
        let made = Self::make(bytes);
        if made.is_none() {
            eprintln!("SKIP: no memory control group can be made here");
        }
        made
    }

    fn make(bytes: u64) -> Option<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("perigee-test-{}-{number}", std::process::id());
        let mounts = fs::read_to_string("/proc/mounts").ok()?;
        let own = fs::read_to_string("/proc/self/cgroup").ok()?;
        let of = |controllers: &str| {
            let mut lines = own.lines().filter_map(|line| line.split_once(':'));
            let line =
                lines.find_map(|(_, rest)| rest.split_once(':').filter(|it| it.0 == controllers));
            line.map(|(_, path)| path.trim_start_matches('/').to_owned())
        };
        let mounted = |kind: &str, option: &str| {
            mounts.lines().find_map(|line| {
                let words: Vec<&str> = line.split(' ').collect();
                let is_it =
                    words.get(2) == Some(&kind) && words.get(3)?.split(',').any(|it| it == option);
                is_it.then(|| PathBuf::from(words[1]))
            })
        };
        let legacy = mounted("cgroup", "memory").zip(of("memory"));
        let (root, below, limit) = match legacy {
            Some((root, below)) => (root, below, "memory.limit_in_bytes"),
            None => (mounted("cgroup2", "rw")?, of("")?, "memory.max"),
        };
        let group = Self { path: root.join(below).join(name) };
        fs::create_dir(&group.path).ok()?;
        fs::write(group.path.join(limit), bytes.to_string()).ok()?;
        Some(group)
    }

    /// Where a process is put in.
    pub fn processes(&self) -> PathBuf {
        self.path.join("cgroup.procs")
    }

    /// Bytes that are charged to it.
    pub fn used_bytes(&self) -> u64 {
        let read = |name| fs::read_to_string(self.path.join(name)).ok();
        let text = read("memory.usage_in_bytes").or_else(|| read("memory.current"));
        text.and_then(|text| text.trim().parse().ok()).unwrap_or(0)
    }

    /// Shell words that run `"$@"` inside.
    pub fn enter(&self, name: &str) -> String {
        let processes = self.processes();
        format!("echo $$ > {} && exec -a {name} \"$@\"", processes.display())
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        let path: &Path = &self.path;
        comes_true(EXIT_DEADLINE, || fs::remove_dir(path).is_ok());
    }
}

/// A group whose processes do few operations on a disk.
#[derive(Debug)]
pub struct DiskGroup {
    path: PathBuf,
}

impl DiskGroup {
    /// A group below the root; nothing, with the reason on stderr, where none can be made.
    pub fn make() -> Option<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("perigee-test-disk-{}-{number}", std::process::id());
        let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
        let roots = mounts.lines().filter_map(|line| line.split(' ').nth(1)).map(Path::new);
        let roots = roots.filter(|root| root.starts_with("/sys/fs/cgroup"));
        let found = roots.into_iter().find_map(|root| {
            let path = root.join(&name);
            fs::create_dir(&path).ok()?;
            let group = Self { path };
            (group.path.join(LEGACY[0]).exists() || group.path.join(UNIFIED).exists())
                .then_some(group)
        });
        if found.is_none() {
            eprintln!("SKIP: no control group for disks can be made here");
        }
        found
    }

    /// Puts a process in, with all of its threads.
    pub fn add(&self, process: Pid) {
        fs::write(self.path.join("cgroup.procs"), process.to_string()).expect("it is moved");
    }

    /// Operations a second, of each direction, on the disk that a folder lies on; none for no
    /// bound.
    pub fn limit(&self, folder: &Path, operations: Option<u64>) {
        let device = fs::metadata(folder).expect("it is mounted").dev();
        let device = format!("{}:{}", libc::major(device), libc::minor(device));
        if self.path.join(UNIFIED).exists() {
            let most = operations.map_or("max".to_owned(), |most| most.to_string());
            let line = format!("{device} riops={most} wiops={most}");
            return fs::write(self.path.join(UNIFIED), line).expect("a limit is set");
        }
        for name in LEGACY {
            let line = format!("{device} {}", operations.unwrap_or(0));
            fs::write(self.path.join(name), line).expect("a limit is set");
        }
    }
}

impl Drop for DiskGroup {
    fn drop(&mut self) {
        let path: &Path = &self.path;
        comes_true(EXIT_DEADLINE, || fs::remove_dir(path).is_ok());
    }
}
