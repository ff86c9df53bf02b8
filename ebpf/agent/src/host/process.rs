//! Our processes: those that leave an activity page, with their threads, control group and program files.

use super::group::group_of;
use crate::limits::{MAPS_BYTES_MAX, THREADS_MAX};
use perigee_activity::PageReader;
use perigee_topology::Roots;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read};
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
    /// Its control group, as this process's namespace of groups sees it: see [`super::Groups`].
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
        group: roots
            .proc()
            .text(&format!("{}/cgroup", page.pid()))
            .and_then(|text| group_of(&text)),
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

impl OurProcess {
    /// Its memory map, which shows the files that it runs.
    ///
    /// # Errors
    /// It belongs to somebody else, or the process has gone.
    pub(crate) fn maps(&self, roots: &Roots) -> io::Result<File> {
        File::open(roots.proc().top().join(format!("{}/maps", self.pid)))
    }

    /// Files with code that it has mapped, seen from this process's root: those may hold the mark.
    ///
    /// # Errors
    /// As for [`OurProcess::maps`].
    pub(crate) fn code_files(&self, roots: &Roots) -> io::Result<BTreeSet<PathBuf>> {
        let mut maps = Vec::new();
        let file = self.maps(roots)?.take(MAPS_BYTES_MAX);
        { file }.read_to_end(&mut maps)?;
        let maps = String::from_utf8_lossy(&maps);
        let code = maps.lines().filter_map(|line| {
            let mut words = line.split_whitespace();
            let permissions = words.nth(1)?;
            let path = words.nth(3)?;
            let ours = path.contains("perigee") || path.contains("mooncake");
            (permissions.contains('x') && path.starts_with('/') && ours).then_some(path)
        });
        // Through the process's own root, so that files in containers are found.
        let root = format!("/proc/{}/root", self.pid);
        Ok(code
            .map(|path| PathBuf::from(format!("{root}{path}")))
            .collect())
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
