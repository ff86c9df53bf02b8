//! What processes count as a whole, by program. Invariant: counts never fall, and nothing counts
//! twice, also over a restart of the agent: what was read last of each page is kept with the sums.

use crate::limits::PROGRAMS_MAX;
use crate::persisted::StateFolder;
use crate::snapshot::ProgramSeries;
use perigee_activity::{PageListing, ProcessReading};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;

const FILE: &str = "programs.json";
/// The program of those for which there is no room.
const OTHER: &str = "other";

/// The counts so far.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct ProcessCounts {
    /// By the name of the page.
    last: BTreeMap<String, [u64; 3]>,
    sums: BTreeMap<String, [u64; 3]>,
}

impl ProcessCounts {
    /// Goes on from what was kept.
    pub(super) fn open(keep: &StateFolder) -> Self {
        keep.read(FILE)
    }

    /// Keeps everything for the next agent.
    pub(super) fn save(&self, keep: &StateFolder) -> io::Result<()> {
        keep.write(FILE, self)
    }

    /// Adds what processes have counted since the last call.
    pub(super) fn read(&mut self, pages: &PageListing) -> Vec<ProgramSeries> {
        for page in pages.opened() {
            let name = page.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
            let Ok(reading) = page.process() else { continue };
            self.add(name, page.program(), reading);
        }
        self.last.retain(|name, _| pages.holds(name.as_ref()));
        let sums = self.sums.iter();
        sums.map(|(program, [calls, wrong_bytes, unreachable_owners])| ProgramSeries {
            program: program.clone(),
            calls: *calls,
            wrong_bytes: *wrong_bytes,
            unreachable_owners: *unreachable_owners,
        })
        .collect()
    }

    fn add(&mut self, page: String, program: &str, reading: ProcessReading) {
        let now = [reading.calls, reading.wrong_bytes, reading.unreachable_owners];
        let before = self.last.insert(page, now).unwrap_or_default();
        let has_room = self.sums.contains_key(program) || self.sums.len() < PROGRAMS_MAX;
        let program = if has_room { program } else { OTHER };
        let sums = self.sums.entry(program.to_owned()).or_default();
        for ((sum, now), before) in sums.iter_mut().zip(now).zip(before) {
            *sum = sum.saturating_add(now.saturating_sub(before));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(calls: u64, wrong_bytes: u64) -> ProcessReading {
        ProcessReading { calls, wrong_bytes, unreachable_owners: 1 }
    }

    #[test]
    fn processes_of_a_program_are_summed_and_the_next_agent_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let keep = StateFolder::new(Some(folder.path()), "boot");
        let mut counts = ProcessCounts::open(&keep);
        counts.add("1".to_owned(), "python", reading(10, 0));
        counts.add("2".to_owned(), "python", reading(5, 1));
        counts.save(&keep).unwrap();
        let mut next = ProcessCounts::open(&keep);
        // The first one did more while no agent looked, the second one nothing.
        next.add("1".to_owned(), "python", reading(30, 2));
        next.add("2".to_owned(), "python", reading(5, 1));
        assert_eq!(next.sums["python"], [35, 3, 2]);
    }

    #[test]
    fn programs_beyond_the_last_are_counted_together() {
        let mut counts = ProcessCounts::default();
        for number in 0..PROGRAMS_MAX + 3 {
            counts.add(number.to_string(), &number.to_string(), reading(1, 0));
        }
        assert_eq!(counts.sums.len(), PROGRAMS_MAX + 1);
        assert_eq!(counts.sums[OTHER][0], 3);
    }
}
