//! What is attached to processes of ours, and what of them stays unseen. Invariant: a process that
//! cannot be watched is listed in the table of sources, not only in a log.

use crate::explain::ProbeLimit;
use crate::host::{self, Cgroups, FoundProcesses, OurProcess};
use perigee_activity::{PageListing, PageReader};
use perigee_probe_loader::{Feature, Probes};
use perigee_topology::Roots;
use std::collections::BTreeSet;

const GROUPS_REMEDY: &str = "run the agent in the host's namespace of control groups, or mount the host's /sys/fs/cgroup \
                             into its container (see the DaemonSet)";
const NAMESPACE_REMEDY: &str = "run the agent in the host's PID namespace: hostPID: true (see the \
                                DaemonSet), or docker run --pid=host";

/// Watches the connections of all groups that our processes are in, or were when they made their
/// pages.
pub(super) fn watch_groups(
    probes: &mut Probes,
    pages: &PageListing,
    found: &FoundProcesses,
    groups: &Cgroups,
) -> Option<(Feature, ProbeLimit)> {
    let mut numbers: BTreeSet<u64> = pages.opened().filter_map(PageReader::group).collect();
    let (mut unseen, mut seen) = (Unseen::default(), 0);
    for process in &found.processes {
        let Some(group) = &process.group else {
            unseen.add(process, "it is in no control group of version 2");
            continue;
        };
        match groups.number(group) {
            Ok(number) => {
                seen += 1;
                numbers.insert(number);
            }
            Err(error) => unseen.add(process, &error.to_string()),
        }
    }
    match groups.top() {
        Ok(top) => {
            if let Err(error) = probes.watch_groups(top, &numbers) {
                unseen.note(error.to_string());
                numbers.clear();
            }
        }
        Err(error) => {
            unseen.note(error.to_string());
            numbers.clear();
        }
    }
    // The group of a process that is not seen is known all the same, if its page names it.
    let is_known = |(program, pid): &(String, u32)| {
        let mut named = pages.living.iter().filter(|page| page.group().is_some());
        named.any(|page| page.pid() == *pid && page.program() == program)
    };
    let hidden = found.hidden.iter().filter(|hidden| !is_known(hidden)).cloned().collect();
    let found = FoundProcesses { hidden, ..FoundProcesses::default() };
    let is_total = numbers.is_empty() || seen == 0 && unseen.count > 0;
    let trouble = unseen.and_hidden(&found, "connections of", is_total, GROUPS_REMEDY)?;
    Some((Feature::RoundTrips, trouble))
}

/// Watches the threads and the io_uring requests of our processes.
pub(super) fn watch_tasks(
    probes: &mut Probes,
    found: &FoundProcesses,
    roots: &Roots,
) -> Vec<(Feature, ProbeLimit)> {
    // Elsewhere the numbers that the probes count by mean other threads.
    let processes: &[OurProcess] = match host::is_in_first_pid_namespace(roots) {
        true => &found.processes,
        false => &[],
    };
    let threads = processes.iter().flat_map(|process| process.threads.keys().copied());
    let pids = processes.iter().map(|process| process.pid);
    let watching = probes
        .watch_threads(&threads.collect())
        .and_then(|()| probes.watch_processes(&pids.collect()));
    if let Err(error) = watching {
        tracing::warn!(%error, "Our threads cannot be watched");
    }
    let features = [(Feature::Tasks, "threads of"), (Feature::Urings, "requests of")];
    let troubles = features.into_iter().filter_map(|(feature, what)| {
        let mut unseen = Unseen::default();
        for process in found.processes.iter().skip(processes.len()) {
            unseen.add(process, "the agent is in a PID namespace of its own");
        }
        let is_total = processes.is_empty();
        let trouble = unseen.and_hidden(found, what, is_total, NAMESPACE_REMEDY)?;
        Some((feature, trouble))
    });
    troubles.collect()
}

/// What of our processes cannot be seen without probes either.
pub(super) fn hidden(found: &FoundProcesses) -> Option<ProbeLimit> {
    let is_total = found.processes.is_empty();
    Unseen::default().and_hidden(found, "threads of", is_total, NAMESPACE_REMEDY)
}

/// Those that are not seen; the first one stands for all.
#[derive(Default)]
struct Unseen {
    count: usize,
    first: Option<String>,
}

impl Unseen {
    fn add(&mut self, process: &OurProcess, why: &str) {
        self.note(format!("process {} ({}): {why}", process.pid, process.program));
    }

    fn note(&mut self, text: String) {
        tracing::debug!(%text, "Not watched");
        self.count += 1;
        self.first.get_or_insert(text);
    }

    /// The trouble with these and with those behind pages that this namespace does not see. Their
    /// remedy comes first.
    fn and_hidden(
        mut self,
        found: &FoundProcesses,
        what: &str,
        is_total: bool,
        remedy: &'static str,
    ) -> Option<ProbeLimit> {
        let Some((program, pid)) = found.hidden.first() else {
            return self.trouble(what, is_total, remedy);
        };
        self.count += found.hidden.len();
        self.first = Some(format!(
            "{program}, which counts itself as process {pid}, is in a PID namespace that the \
             agent does not see"
        ));
        self.trouble(what, is_total, NAMESPACE_REMEDY)
    }

    fn trouble(self, what: &str, is_total: bool, remedy: &'static str) -> Option<ProbeLimit> {
        let first = self.first?;
        let more = match self.count {
            1 => String::new(),
            count => format!(", and {} more", count - 1),
        };
        Some(ProbeLimit {
            reason: format!("{what} some of our processes are not seen: {first}{more}"),
            remedy,
            is_total,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_who_is_not_seen_is_named_and_the_rest_counted() {
        let none = Unseen::default();
        assert_eq!(none.trouble("threads of", true, "x"), None);
        let mut some = Unseen::default();
        some.note("one: why".to_owned());
        some.note("two: why".to_owned());
        let trouble = some.trouble("threads of", false, "x").unwrap();
        assert!(trouble.reason.ends_with("not seen: one: why, and 1 more"));
        assert!(!trouble.is_total);
    }

    #[test]
    fn a_page_whose_process_is_not_seen_is_listed_with_the_pods_remedy() {
        let found = FoundProcesses {
            hidden: vec![("node".to_owned(), 1), ("client".to_owned(), 1)],
            ..FoundProcesses::default()
        };
        let limit = hidden(&found).unwrap();
        assert!(limit.is_total && limit.remedy.contains("hostPID: true"));
        assert!(limit.reason.contains("node, which counts itself as process 1"));
        assert!(limit.reason.ends_with(", and 1 more"));
        assert_eq!(hidden(&FoundProcesses::default()), None);
    }
}
