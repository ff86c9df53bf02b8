//! Our processes: those that leave an activity page, with their threads and control group.
//! Invariant: a number that a page tells is never taken for a process of this namespace; who holds
//! its lock is the process.

use super::group::group_of;
use super::lock::Holders;
use crate::limits::THREADS_MAX;
use perigee_activity::PageReader;
use perigee_topology::Roots;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;

/// How our threads are named.
const THREAD_PREFIX: &str = "perigee-";
/// It only looks whether the others still run: what it waits for delays no byte.
const WATCHDOG: &str = "perigee-watch";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OurProcess {
    pub(crate) pid: u32,
    pub(crate) program: String,
    /// Our threads in it, with their names.
    pub(crate) threads: BTreeMap<u32, String>,
    /// Its control group, as this process's namespace of groups sees it: see [`super::Cgroups`].
    pub(crate) group: Option<String>,
}

/// What is behind the pages of this host.
#[derive(Debug, Default)]
pub(crate) struct FoundProcesses {
    pub(crate) processes: Vec<OurProcess>,
    /// Pages that a process holds which is not seen from here: its program, and its number as it
    /// tells it itself.
    pub(crate) hidden: Vec<(String, u32)>,
    /// The process of each page, by the name of the page.
    pub(crate) pids: BTreeMap<OsString, u32>,
}

impl FoundProcesses {
    /// The processes behind these pages.
    pub(crate) fn of(roots: &Roots, pages: &[PageReader]) -> Self {
        let holders = Holders::read(roots);
        let (mut found, mut seen) = (Self::default(), BTreeSet::new());
        for page in pages {
            let held_by = page.file_id().map(|file| holders.of(file));
            let held_by = held_by.unwrap_or_default().iter().copied();
            // Any process may lock a file that it can read, so the holder also has to be the one
            // the page names.
            let is_it = |pid: &u32| innermost_pid(roots, *pid) == Some(page.pid());
            let held_by = held_by.filter(is_it).min();
            if let (Some(pid), Some(name)) = (held_by, page.path().file_name()) {
                found.pids.insert(name.to_owned(), pid);
            }
            match held_by {
                Some(pid) if !seen.insert(pid) => {}
                Some(pid) => found.processes.push(OurProcess::read(roots, pid, page)),
                // One that has just ended is not hidden.
                None if !page.is_held() => {}
                None => found.hidden.push((page.program().to_owned(), page.pid())),
            }
        }
        found
    }
}

/// A process's number in its own PID namespace.
fn innermost_pid(roots: &Roots, pid: u32) -> Option<u32> {
    let status = roots.proc().text(&format!("{pid}/status"))?;
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    // A kernel without PID namespaces tells none.
    numbers.map_or(Some(pid), |numbers| numbers.split_whitespace().next_back()?.parse().ok())
}

/// Whether the numbers of processes seen here are the kernel's own, which probes count by.
pub(crate) fn is_in_first_pid_namespace(roots: &Roots) -> bool {
    /// The first namespace has this number on all kernels.
    const FIRST: &str = "pid:[4026531836]";
    let own = std::fs::read_link(roots.proc().top().join("self/ns/pid"));
    own.map_or(true, |own| own.as_os_str() == FIRST)
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
    numbers.into_iter().filter_map(named).take(THREADS_MAX).collect()
}

fn is_worker(thread: &str) -> bool {
    thread.starts_with(THREAD_PREFIX) && thread != WATCHDOG
}

impl OurProcess {
    fn read(roots: &Roots, pid: u32, page: &PageReader) -> Self {
        let group = roots.proc().text(&format!("{pid}/cgroup"));
        Self {
            pid,
            program: page.program().to_owned(),
            threads: threads(roots, pid),
            group: group.and_then(|text| group_of(&text)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::stat::{major, minor};
    use perigee_activity::{Page, PageDirectory, pages};

    #[test]
    fn threads_that_work_are_recognized_by_their_names() {
        assert!(is_worker("perigee-data") && is_worker("perigee-rails"));
        assert!(!is_worker(WATCHDOG) && !is_worker("python3"));
    }
    /// A `/proc` where process 1 runs a thread named like ours, and a page whose process calls
    /// itself 1 as well.
    fn pod(holder: &str) -> (FoundProcesses, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let directory = PageDirectory::new(folder.path().join("pages"));
        Box::leak(Box::new(Page::create(&directory).unwrap()));
        let pages = pages(&directory);
        let (device, number) = pages[0].file_id().unwrap();
        let place = format!("{:02x}:{:02x}:{number}", major(device), minor(device));
        let own = std::process::id();
        let files = [
            ("locks".to_owned(), format!("1: FLOCK  ADVISORY  READ {holder} {place} 0 EOF\n")),
            (format!("{own}/status"), format!("NSpid:\t{own}\n")),
            (format!("{own}/task/{own}/comm"), "perigee-data\n".to_owned()),
            ("9001/status".to_owned(), format!("Name:\tperigee\nNSpid:\t9001\t{own}\n")),
            ("9001/task/9001/comm".to_owned(), "perigee\n".to_owned()),
            ("9001/task/9002/comm".to_owned(), "perigee-data\n".to_owned()),
            ("9003/status".to_owned(), "NSpid:\t9003\t7\n".to_owned()),
        ];
        for (name, text) in files {
            let path = folder.path().join("proc").join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let roots = Roots::new("/sys", folder.path().join("proc"));
        (FoundProcesses::of(&roots, &pages), folder)
    }

    #[test]
    fn the_process_in_a_pod_is_its_pages_holder_and_not_the_hosts_process_of_that_number() {
        let (found, _folder) = pod("9001");
        assert_eq!(found.hidden, []);
        assert_eq!(found.processes.len(), 1);
        let (pid, threads) = (found.processes[0].pid, &found.processes[0].threads);
        assert_eq!(pid, 9001);
        assert_eq!(threads.keys().copied().collect::<Vec<_>>(), [9001, 9002]);
    }

    #[test]
    fn a_page_whose_holder_is_unseen_or_another_belongs_to_no_process_here() {
        for holder in ["9003", "9004", "0"] {
            let (found, _folder) = pod(holder);
            assert_eq!(found.processes, [], "{holder}");
            assert_eq!(found.hidden.len(), 1);
            assert_eq!(found.hidden[0].1, std::process::id());
        }
    }
}
