//! What our processes moved: the slots of their pages, and what processes that are gone had moved before.

use crate::histogram::Distribution;
use crate::ledger::Ledger;
use crate::snapshot::FlowSeries;
use perigee_activity::{Key, PageReader, SlotReading};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// Program and key: what flows are told apart by.
type Label = (String, Key);

/// Counters of one label.
#[derive(Clone, Debug, Default)]
struct Totals {
    numbers: [u64; 5],
    depth: u64,
    latency: Distribution,
}

#[derive(Debug, Default)]
pub(super) struct Flows {
    /// The last reading of each page; what is left of it when its process has gone.
    last: BTreeMap<PathBuf, BTreeMap<Label, Totals>>,
    /// Of processes that are gone.
    retired: BTreeMap<Label, Totals>,
}

impl Flows {
    pub(super) fn read(&mut self, pages: &[PageReader], ledger: &mut Ledger) -> Vec<FlowSeries> {
        for page in pages {
            match page.slots() {
                Ok(slots) => {
                    let totals = by_label(page.program(), &slots);
                    self.last.insert(page.path().to_owned(), totals);
                }
                Err(error) => {
                    tracing::debug!(page = %page.path().display(), %error, "A page cannot be read");
                }
            }
        }
        self.retire(&pages.iter().map(PageReader::path).collect());
        let mut sum = self.retired.clone();
        for (label, totals) in self.last.values().flatten() {
            sum.entry(label.clone()).or_default().add(totals);
        }
        sum.into_iter()
            .map(|(label, totals)| series(label, &totals, ledger))
            .collect()
    }

    fn retire(&mut self, living: &BTreeSet<&std::path::Path>) {
        let gone: Vec<_> = self
            .last
            .keys()
            .filter(|path| !living.contains(path.as_path()))
            .cloned()
            .collect();
        for path in gone {
            for (label, mut totals) in self.last.remove(&path).unwrap_or_default() {
                totals.depth = 0;
                self.retired.entry(label).or_default().add(&totals);
            }
        }
    }
}

impl Totals {
    fn add(&mut self, other: &Self) {
        for (number, more) in self.numbers.iter_mut().zip(other.numbers) {
            *number += more;
        }
        self.depth += other.depth;
        self.latency.merge(&other.latency);
    }
}

fn by_label(program: &str, slots: &[SlotReading]) -> BTreeMap<Label, Totals> {
    let mut totals: BTreeMap<Label, Totals> = BTreeMap::new();
    for slot in slots {
        totals
            .entry((program.to_owned(), slot.key))
            .or_default()
            .add(&Totals {
                numbers: [
                    slot.operations,
                    slot.bytes,
                    slot.errors,
                    slot.retries,
                    slot.queue_ns,
                ],
                depth: slot.depth,
                latency: Distribution::new(slot.operations, slot.latency_ns, &slot.buckets),
            });
    }
    totals
}

fn series((program, key): Label, totals: &Totals, ledger: &mut Ledger) -> FlowSeries {
    let shard = match key.shard {
        Key::CALLER => "caller".to_owned(),
        number => number.to_string(),
    };
    let (device, route, direction) = (key.device(), key.route.label(), key.direction.label());
    let name = format!("flow/{program}/{device}/{route}/{direction}/{shard}");
    let numbers = ledger.total(&name, &totals.numbers);
    let latency = ledger.total(&format!("{name}/latency"), &totals.latency.cells());
    FlowSeries {
        device: device.to_owned(),
        route: route.to_owned(),
        direction: direction.to_owned(),
        program,
        shard,
        operations: numbers[0],
        bytes: numbers[1],
        errors: numbers[2],
        retries: numbers[3],
        queue_ns: numbers[4],
        depth: totals.depth,
        latency: Distribution::of_cells(&latency),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perigee_activity::{Direction, Directory, Page, Route, pages};

    #[test]
    fn what_a_process_moved_stays_counted_when_it_has_gone() {
        let folder = tempfile::tempdir().unwrap();
        let directory = Directory::new(folder.path());
        let (mut flows, mut ledger) = (Flows::default(), Ledger::default());
        let key = Key::new("eth0", Route::Tcp, Direction::Write, 0);
        let page = Box::leak(Box::new(Page::create(&directory).unwrap()));
        let slot = page.claim(key).unwrap();
        slot.record(100, 1000, 10);
        slot.set_depth(3);
        let first = flows.read(&pages(&directory), &mut ledger);
        assert_eq!((first[0].bytes, first[0].depth), (100, 3));
        let living = pages(&directory);
        std::fs::remove_file(living[0].path()).unwrap();
        let later = flows.read(&pages(&directory), &mut ledger);
        assert_eq!((later[0].bytes, later[0].depth), (100, 0));
        assert_eq!(later[0].latency.count, 1);
    }
}
