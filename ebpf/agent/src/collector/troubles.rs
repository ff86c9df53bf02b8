//! What is attached to processes of ours, and what of them stays unseen. Invariant: whoever cannot be watched is told in the
//! table of sources, not only in a log.

use crate::explain::Trouble;
use crate::host::{Groups, OurProcess};
use perigee_probe_loader::{Feature, Probes};
use perigee_topology::Roots;
use std::collections::BTreeSet;
use std::io;

const GROUPS_REMEDY: &str = "run the agent in the host's namespace of control groups, or mount the host's /sys/fs/cgroup \
                             into its container (see the DaemonSet)";
const FILES_REMEDY: &str = "give the agent CAP_SYS_PTRACE, and let its user read the program files";

/// Watches the connections of all groups that our processes are in.
pub(super) fn watch_groups(
    probes: &mut Probes,
    processes: &[OurProcess],
    groups: &Groups,
) -> Option<(Feature, Trouble)> {
    let (mut folders, mut unseen) = (BTreeSet::new(), Unseen::default());
    for process in processes {
        let Some(group) = &process.group else {
            unseen.add(process, "it is in no control group of version 2");
            continue;
        };
        match groups.folder(group) {
            Ok(folder) => drop(folders.insert(folder)),
            Err(error) => unseen.add(process, &error.to_string()),
        }
    }
    for (target, error) in probes.watch_groups(&folders) {
        unseen.note(format!("{target}: {error}"));
    }
    let (_, watched, _) = probes.watched();
    let trouble = unseen.trouble("connections of", watched == 0, GROUPS_REMEDY)?;
    Some((Feature::RoundTrips, trouble))
}

/// Watches batches of all our processes while somebody looks; that it could is seen at any time.
pub(super) fn watch_batches(
    probes: &mut Probes,
    processes: &[OurProcess],
    roots: &Roots,
    is_watched: bool,
) -> Option<(Feature, Trouble)> {
    let (mut files, mut unseen, mut seen) = (BTreeSet::new(), Unseen::default(), 0);
    let looks = probes.works(Feature::Batches);
    for process in processes.iter().filter(|_| looks) {
        let read = match is_watched {
            true => process.code_files(roots),
            false => process.maps(roots).map(|_| BTreeSet::new()),
        };
        match read {
            Ok(more) => {
                seen += 1;
                files.extend(more);
            }
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                unseen.add(process, &format!("its memory map: {error}"));
            }
            // It has just ended.
            Err(_) => {}
        }
    }
    let failed = probes.watch_batches(&files);
    let all_failed = !files.is_empty() && failed.len() == files.len();
    for (target, error) in failed {
        unseen.note(format!("{target}: {error}"));
    }
    let trouble = unseen.trouble("batches of", seen == 0 || all_failed, FILES_REMEDY)?;
    Some((Feature::Batches, trouble))
}

/// Those that are not seen; the first one stands for all.
#[derive(Default)]
struct Unseen {
    count: usize,
    first: Option<String>,
}

impl Unseen {
    fn add(&mut self, process: &OurProcess, why: &str) {
        self.note(format!(
            "process {} ({}): {why}",
            process.pid, process.program
        ));
    }

    fn note(&mut self, text: String) {
        tracing::debug!(%text, "Not watched");
        self.count += 1;
        self.first.get_or_insert(text);
    }

    fn trouble(self, what: &str, is_total: bool, remedy: &'static str) -> Option<Trouble> {
        let first = self.first?;
        let more = match self.count {
            1 => String::new(),
            count => format!(", and {} more", count - 1),
        };
        Some(Trouble {
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
        assert_eq!(none.trouble("batches of", true, "x"), None);
        let mut some = Unseen::default();
        some.note("one: why".to_owned());
        some.note("two: why".to_owned());
        let trouble = some.trouble("batches of", false, "x").unwrap();
        assert!(trouble.reason.ends_with("not seen: one: why, and 1 more"));
        assert!(!trouble.is_total);
    }
}
