//! A memory control group of a test's own, of either version.
//! Invariant: it is removed with its value, after its processes.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::deadline::comes_true;
use crate::limits::EXIT_DEADLINE;

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
