//! What our processes moved: the slots of their pages, and what processes that are gone had moved before.
//! Invariant: a page is counted once, also by an agent that was started again while its process lives.

use crate::histogram::Distribution;
use crate::keep::Keep;
use crate::snapshot::FlowSeries;
use perigee_activity::{Key, PageReader, SlotReading};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::io;

const FILE: &str = "flows.json";

#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Flows {
    /// The last reading of each page, by its name; what is left of it when its process has gone.
    last: BTreeMap<String, Vec<FlowSeries>>,
    /// Of processes that are gone.
    retired: Vec<FlowSeries>,
}

impl Flows {
    /// Goes on from what was kept.
    pub(super) fn open(keep: &Keep) -> Self {
        keep.read(FILE)
    }

    /// Keeps everything for the next agent.
    pub(super) fn save(&self, keep: &Keep) -> io::Result<()> {
        keep.write(FILE, self)
    }

    pub(super) fn read(&mut self, pages: &[PageReader]) -> Vec<FlowSeries> {
        for page in pages {
            match page.slots() {
                Ok(slots) => {
                    let read = slots.iter().map(|slot| series(page.program(), slot));
                    let mut read = sum(read);
                    let last = self.last.entry(name(page)).or_default();
                    keep_from_falling(&mut read, last);
                    *last = read;
                }
                Err(error) => {
                    tracing::debug!(page = %page.path().display(), %error, "A page cannot be read");
                }
            }
        }
        self.retire(&pages.iter().map(name).collect());
        let all = self.retired.iter().chain(self.last.values().flatten());
        sum(all.cloned())
    }

    fn retire(&mut self, living: &BTreeSet<String>) {
        let is_living = |page: &String| living.contains(page);
        let (last, gone) = std::mem::take(&mut self.last)
            .into_iter()
            .partition(|(page, _)| is_living(page));
        self.last = last;
        let gone: BTreeMap<String, Vec<FlowSeries>> = gone;
        let ended = gone.into_values().flatten().map(|mut flow| {
            flow.depth = 0;
            flow
        });
        self.retired = sum(std::mem::take(&mut self.retired).into_iter().chain(ended));
    }
}

/// Unique among the processes of a boot.
fn name(page: &PageReader) -> String {
    let name = page.path().file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// What tells flows apart.
fn label(flow: &FlowSeries) -> [&str; 5] {
    [
        &flow.program,
        &flow.device,
        &flow.route,
        &flow.direction,
        &flow.shard,
    ]
}

/// One series per label.
fn sum(flows: impl Iterator<Item = FlowSeries>) -> Vec<FlowSeries> {
    let mut sums: BTreeMap<[String; 5], FlowSeries> = BTreeMap::new();
    for flow in flows {
        match sums.get_mut(&label(&flow).map(str::to_owned)) {
            Some(sum) => add(sum, &flow),
            None => drop(sums.insert(label(&flow).map(str::to_owned), flow)),
        }
    }
    sums.into_values().collect()
}

fn add(sum: &mut FlowSeries, flow: &FlowSeries) {
    sum.operations += flow.operations;
    sum.bytes += flow.bytes;
    sum.errors += flow.errors;
    sum.retries += flow.retries;
    sum.depth += flow.depth;
    sum.queue_ns += flow.queue_ns;
    sum.latency.merge(&flow.latency);
}

/// A reading that raced with its writer must not make a counter fall.
fn keep_from_falling(read: &mut [FlowSeries], last: &[FlowSeries]) {
    for flow in read {
        let Some(before) = last.iter().find(|before| label(before) == label(flow)) else {
            continue;
        };
        flow.operations = flow.operations.max(before.operations);
        flow.bytes = flow.bytes.max(before.bytes);
        flow.errors = flow.errors.max(before.errors);
        flow.retries = flow.retries.max(before.retries);
        flow.queue_ns = flow.queue_ns.max(before.queue_ns);
        flow.latency.keep_from_falling(&before.latency);
    }
}

fn series(program: &str, slot: &SlotReading) -> FlowSeries {
    let key = slot.key;
    FlowSeries {
        device: key.device().to_owned(),
        route: key.route.label().to_owned(),
        direction: key.direction.label().to_owned(),
        program: program.to_owned(),
        shard: match key.shard {
            Key::CALLER => "caller".to_owned(),
            number => number.to_string(),
        },
        operations: slot.operations,
        bytes: slot.bytes,
        errors: slot.errors,
        retries: slot.retries,
        depth: slot.depth,
        queue_ns: slot.queue_ns,
        latency: Distribution::new(slot.operations, slot.latency_ns, &slot.buckets),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perigee_activity::{Direction, Directory, Page, Route, pages};

    struct Host {
        directory: Directory,
        keep: Keep,
        _folder: tempfile::TempDir,
    }

    /// A host on which one operation of 100 bytes was counted.
    fn host() -> Host {
        let folder = tempfile::tempdir().unwrap();
        let directory = Directory::new(folder.path().join("pages"));
        let page = Box::leak(Box::new(Page::create(&directory).unwrap()));
        let key = Key::new("eth0", Route::Tcp, Direction::Write, 0);
        let slot = Box::leak(Box::new(page.claim(key).unwrap()));
        slot.record(100, 1000, 10);
        slot.set_depth(3);
        Host {
            directory,
            keep: Keep::new(Some(&folder.path().join("state")), "boot"),
            _folder: folder,
        }
    }

    fn remove_page(host: &Host) {
        std::fs::remove_file(pages(&host.directory)[0].path()).unwrap();
    }

    #[test]
    fn what_a_process_moved_stays_counted_when_it_has_gone() {
        let host = host();
        let mut flows = Flows::default();
        let first = flows.read(&pages(&host.directory));
        assert_eq!((first[0].bytes, first[0].depth), (100, 3));
        remove_page(&host);
        let later = flows.read(&pages(&host.directory));
        assert_eq!((later[0].bytes, later[0].depth), (100, 0));
        assert_eq!(later[0].latency.count, 1);
    }

    #[test]
    fn an_agent_started_again_counts_living_processes_once_and_keeps_those_that_went_meanwhile() {
        let host = host();
        let mut first = Flows::open(&host.keep);
        first.read(&pages(&host.directory));
        first.save(&host.keep).unwrap();
        let mut second = Flows::open(&host.keep);
        assert_eq!(second.read(&pages(&host.directory))[0].bytes, 100);
        second.save(&host.keep).unwrap();
        remove_page(&host);
        let mut third = Flows::open(&host.keep);
        let left = third.read(&pages(&host.directory));
        assert_eq!((left[0].bytes, left[0].latency.count), (100, 1));
        assert_eq!(third.read(&[])[0].bytes, 100);
    }
}
