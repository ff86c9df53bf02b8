//! Counters that never fall: what a source counted before it was restarted is added to what it counts now.

use crate::limits::STATE_BYTES_MAX;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

const FILE: &str = "counters.json";

/// Totals by series. A series is a name with its labels; its cells are a counter or the cells of a distribution.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// What had been served when this agent started.
    base: BTreeMap<String, Vec<u64>>,
    /// What was served last.
    served: BTreeMap<String, Vec<u64>>,
    file: Option<PathBuf>,
}

#[derive(Serialize, Deserialize)]
struct State {
    /// The kernel's life: after a reboot everything begins anew.
    boot: String,
    series: BTreeMap<String, Vec<u64>>,
}

impl Ledger {
    /// Goes on from what the folder holds, if it is of this boot.
    pub(crate) fn open(folder: Option<&Path>, boot: &str) -> Self {
        let file = folder.map(|folder| folder.join(FILE));
        let state = file.as_deref().and_then(read_state);
        let base = state.filter(|state| state.boot == boot);
        Self {
            base: base.map(|state| state.series).unwrap_or_default(),
            served: BTreeMap::new(),
            file,
        }
    }

    /// The total of a series whose source has counted `cells` since this agent started.
    pub(crate) fn total(&mut self, series: &str, cells: &[u64]) -> Vec<u64> {
        let mut total = cells.to_vec();
        if let Some(base) = self.base.get(series) {
            total.resize(total.len().max(base.len()), 0);
            for (cell, before) in total.iter_mut().zip(base) {
                *cell += before;
            }
        }
        match self.served.get_mut(series) {
            // A reading that raced with its writer must not make a counter fall.
            Some(last) => {
                for (cell, before) in total.iter_mut().zip(last.iter()) {
                    *cell = (*cell).max(*before);
                }
                last.clone_from(&total);
            }
            None => drop(self.served.insert(series.to_owned(), total.clone())),
        }
        total
    }

    /// Keeps what was served for the next agent.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub(crate) fn save(&self, boot: &str) -> io::Result<()> {
        let Some(file) = &self.file else {
            return Ok(());
        };
        let mut series = self.base.clone();
        series.extend(self.served.clone());
        let boot = boot.to_owned();
        let text = serde_json::to_vec(&State { boot, series })?;
        if let Some(folder) = file.parent() {
            std::fs::create_dir_all(folder)?;
        }
        // Whoever is killed here leaves the old file or the new one, never half of one.
        let new = file.with_extension("new");
        std::fs::write(&new, text)?;
        std::fs::rename(new, file)
    }
}

fn read_state(file: &Path) -> Option<State> {
    let mut text = Vec::new();
    let open = File::open(file).ok()?;
    open.take(STATE_BYTES_MAX).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_restarted_agent_goes_on_where_the_last_one_was() {
        let folder = tempfile::tempdir().unwrap();
        let mut first = Ledger::open(Some(folder.path()), "boot");
        assert_eq!(first.total("a", &[5, 1]), [5, 1]);
        first.total("gone", &[3]);
        first.save("boot").unwrap();
        let mut second = Ledger::open(Some(folder.path()), "boot");
        assert_eq!(second.total("a", &[2, 0]), [7, 1]);
        second.save("boot").unwrap();
        let mut third = Ledger::open(Some(folder.path()), "boot");
        assert_eq!(third.total("gone", &[0]), [3]);
        assert_eq!(third.total("a", &[0, 0]), [7, 1]);
    }

    #[test]
    fn a_reboot_starts_from_zero_and_so_does_a_damaged_file() {
        let folder = tempfile::tempdir().unwrap();
        let mut first = Ledger::open(Some(folder.path()), "boot");
        first.total("a", &[5]);
        first.save("boot").unwrap();
        assert_eq!(
            Ledger::open(Some(folder.path()), "later").total("a", &[1]),
            [1]
        );
        std::fs::write(folder.path().join(FILE), b"{\"boot\": \"boot\", \"ser").unwrap();
        assert_eq!(
            Ledger::open(Some(folder.path()), "boot").total("a", &[1]),
            [1]
        );
    }

    #[test]
    fn a_source_that_falls_does_not_take_the_total_with_it() {
        let mut ledger = Ledger::default();
        ledger.total("a", &[5]);
        assert_eq!(ledger.total("a", &[4]), [5]);
        assert_eq!(ledger.total("a", &[6]), [6]);
    }
}
