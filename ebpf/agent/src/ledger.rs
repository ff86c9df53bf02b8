//! Counters that never fall: what a source counted before it was restarted is added to what it counts now.
//! Only for sources that live as long as the agent, such as probes; what outlives it must not be added to itself.

use crate::keep::Keep;
use std::collections::BTreeMap;
use std::io;

const FILE: &str = "counters.json";

/// Totals by series. A series is a name with its labels; its cells are a counter or the cells of a distribution.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// What had been served when this agent started.
    base: BTreeMap<String, Vec<u64>>,
    /// What was served last.
    served: BTreeMap<String, Vec<u64>>,
}

impl Ledger {
    /// Goes on from what was kept.
    pub(crate) fn open(keep: &Keep) -> Self {
        Self {
            base: keep.read(FILE),
            served: BTreeMap::new(),
        }
    }

    /// The total of a series whose source has counted `cells` since this agent started.
    pub(crate) fn total(&mut self, series: &str, cells: &[u64]) -> Vec<u64> {
        let mut total = cells.to_vec();
        if let Some(base) = self.base.get(series) {
            total.resize(total.len().max(base.len()), 0);
            for (cell, before) in total.iter_mut().zip(base) {
                *cell = cell.saturating_add(*before);
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
    pub(crate) fn save(&self, keep: &Keep) -> io::Result<()> {
        let mut series = self.base.clone();
        series.extend(self.served.clone());
        keep.write(FILE, &series)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_restarted_agent_goes_on_where_the_last_one_was() {
        let folder = tempfile::tempdir().unwrap();
        let keep = Keep::new(Some(folder.path()), "boot");
        let mut first = Ledger::open(&keep);
        assert_eq!(first.total("a", &[5, 1]), [5, 1]);
        first.total("gone", &[3]);
        first.save(&keep).unwrap();
        let mut second = Ledger::open(&keep);
        assert_eq!(second.total("a", &[2, 0]), [7, 1]);
        second.save(&keep).unwrap();
        let mut third = Ledger::open(&keep);
        assert_eq!(third.total("gone", &[0]), [3]);
        assert_eq!(third.total("a", &[0, 0]), [7, 1]);
    }

    #[test]
    fn a_source_that_falls_does_not_take_the_total_with_it() {
        let mut ledger = Ledger::default();
        ledger.total("a", &[5]);
        assert_eq!(ledger.total("a", &[4]), [5]);
        assert_eq!(ledger.total("a", &[6]), [6]);
    }
}
