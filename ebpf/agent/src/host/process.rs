//! Our processes: those that leave an activity page, with their threads, control group and program files.

use crate::limits::{MAPS_BYTES_MAX, THREADS_MAX};
use perigee_activity::PageReader;
use perigee_topology::Roots;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read;
use std::path::PathBuf;

/// How our threads are named.
const THREAD_PREFIX: &str = "perigee-";
/// It only looks whether the others still run: what it waits for delays no byte.
const WATCHDOG: &str = "perigee-watch";

/// A process of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OurProcess {
    pub(crate) pid: u32,
    pub(crate) program: String,
    /// Our threads in it, with their names.
    pub(crate) threads: BTreeMap<u32, String>,
    /// Its control group below the mount of cgroup2.
    pub(crate) group: Option<String>,
}

/// The processes behind these pages. A page from another container may bear a number that means another process here;
/// such a process has none of our threads and is left out.
pub(crate) fn processes(roots: &Roots, pages: &[PageReader]) -> Vec<OurProcess> {
    let mut seen = BTreeSet::new();
    let fresh = pages.iter().filter(|page| seen.insert(page.pid()));
    let found = fresh.map(|page| OurProcess {
        pid: page.pid(),
        program: page.program().to_owned(),
        threads: threads(roots, page.pid()),
        group: group(roots, page.pid()),
    });
    found
        .filter(|process| !process.threads.is_empty())
        .collect()
}

fn threads(roots: &Roots, pid: u32) -> BTreeMap<u32, String> {
    let proc = roots.proc();
    let numbers = proc.names(&format!("{pid}/task"));
    let named = |number: String| {
        let name = proc.text(&format!("{pid}/task/{number}/comm"))?;
        let number = number.parse().ok()?;
        // The main thread of a Python process or of the demo calls the data plane itself.
        let moves_bytes = number == pid || is_worker(&name);
        moves_bytes.then_some((number, name))
    };
    numbers
        .into_iter()
        .filter_map(named)
        .take(THREADS_MAX)
        .collect()
}

fn is_worker(thread: &str) -> bool {
    thread.starts_with(THREAD_PREFIX) && thread != WATCHDOG
}

fn group(roots: &Roots, pid: u32) -> Option<String> {
    let text = roots.proc().text(&format!("{pid}/cgroup"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("0::/"))?;
    Some(line.to_owned())
}

impl OurProcess {
    /// Files with code that it has mapped, seen from this process's root: those may hold the mark.
    pub(crate) fn code_files(&self, roots: &Roots) -> BTreeSet<PathBuf> {
        let path = roots.proc().top().join(format!("{}/maps", self.pid));
        let mut maps = String::new();
        let _ = File::open(path).map(|file| file.take(MAPS_BYTES_MAX).read_to_string(&mut maps));
        let code = maps.lines().filter_map(|line| {
            let mut words = line.split_whitespace();
            let permissions = words.nth(1)?;
            let path = words.nth(3)?;
            let ours = path.contains("perigee") || path.contains("mooncake");
            (permissions.contains('x') && path.starts_with('/') && ours).then_some(path)
        });
        // Through the process's own root, so that files in containers are found.
        let root = format!("/proc/{}/root", self.pid);
        code.map(|path| PathBuf::from(format!("{root}{path}")))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_work_are_told_by_their_names() {
        assert!(is_worker("perigee-data") && is_worker("perigee-rails"));
        assert!(!is_worker(WATCHDOG) && !is_worker("python3"));
    }
}
