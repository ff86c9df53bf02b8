//! What our processes moved: the slots of their pages, and what processes that are gone had moved
//! before.
//! Invariant: a page is counted once, also by an agent that was started again while its process
//! lives.

use crate::histogram::Distribution;
use crate::host::{NetworkNamespace, foreign_name};
use crate::limits::FLOWS_MAX;
use crate::persisted::StateFolder;
use crate::snapshot::FlowSeries;
use perigee_activity::{PageListing, PageReader, Route, SlotKey, SlotReading};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::io;

const FILE: &str = "flows.json";

#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Flows {
    /// The last reading of each page that lies there, by its name.
    last: BTreeMap<String, Vec<FlowSeries>>,
    /// Of pages that are gone.
    retired: Vec<FlowSeries>,
    /// The labels that have series of their own.
    #[serde(skip)]
    named: BTreeSet<[String; 5]>,
}

impl Flows {
    /// Goes on from what was kept.
    pub(super) fn open(keep: &StateFolder) -> Self {
        let mut flows: Self = keep.read(FILE);
        let kept = flows.retired.iter().chain(flows.last.values().flatten());
        flows.named = kept.map(owned_label).collect();
        flows
    }

    /// Keeps everything for the next agent.
    pub(super) fn save(&self, keep: &StateFolder) -> io::Result<()> {
        keep.write(FILE, self)
    }

    pub(super) fn read(
        &mut self,
        pages: &PageListing,
        network: NetworkNamespace,
    ) -> Vec<FlowSeries> {
        for page in pages.opened() {
            match page.slots() {
                Ok(slots) => {
                    let read = slots.iter().map(|slot| series(page, slot, network));
                    let mut read = sum(read.map(|flow| self.admit(flow)));
                    let last = self.last.entry(name(page)).or_default();
                    keep_from_falling(&mut read, last);
                    *last = read;
                }
                Err(error) => {
                    tracing::debug!(page = %page.path().display(), %error, "A page cannot be read");
                }
            }
        }
        self.retire(pages);
        let all = self.retired.iter().chain(self.last.values().flatten());
        sum(all.cloned())
    }

    /// A flow under its own labels while there is room for them. Pages are written by others, who
    /// may write any names; first come, first served, so that no series ever falls because another
    /// one appears.
    fn admit(&mut self, mut flow: FlowSeries) -> FlowSeries {
        let label = owned_label(&flow);
        if self.named.len() < FLOWS_MAX {
            self.named.insert(label);
        } else if !self.named.contains(&label) {
            for part in [&mut flow.program, &mut flow.device, &mut flow.shard] {
                "other".clone_into(part);
            }
        }
        flow
    }

    /// What a page counted stays its own for as long as it lies there, also after its process has
    /// ended, so that it is counted once.
    fn retire(&mut self, pages: &PageListing) {
        let is_there = |page: &String| pages.holds(page.as_ref());
        let (last, gone) =
            std::mem::take(&mut self.last).into_iter().partition(|(page, _)| is_there(page));
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
    [&flow.program, &flow.device, &flow.route, &flow.direction, &flow.shard]
}

fn owned_label(flow: &FlowSeries) -> [String; 5] {
    label(flow).map(str::to_owned)
}

/// One series per label.
fn sum(flows: impl Iterator<Item = FlowSeries>) -> Vec<FlowSeries> {
    let mut sums: BTreeMap<[String; 5], FlowSeries> = BTreeMap::new();
    for flow in flows {
        match sums.get_mut(&owned_label(&flow)) {
            Some(sum) => sum.add(&flow),
            None => drop(sums.insert(owned_label(&flow), flow)),
        }
    }
    sums.into_values().collect()
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
        flow.waited_ns = flow.waited_ns.max(before.waited_ns);
        flow.copied_ns = flow.copied_ns.max(before.copied_ns);
        flow.disk_ns = flow.disk_ns.max(before.disk_ns);
        flow.latency.keep_from_falling(&before.latency);
    }
}

fn series(page: &PageReader, slot: &SlotReading, network: NetworkNamespace) -> FlowSeries {
    let key = slot.key;
    FlowSeries {
        // Disks and RDMA devices bear the same names everywhere.
        device: match key.route {
            Route::Tcp if network.is_foreign(page) => foreign_name(key.device()),
            _ => key.device().to_owned(),
        },
        route: key.route.label().to_owned(),
        direction: key.direction.label().to_owned(),
        program: page.program().to_owned(),
        shard: match key.shard {
            SlotKey::CALLER => "caller".to_owned(),
            number => number.to_string(),
        },
        operations: slot.operations,
        bytes: slot.bytes,
        errors: slot.errors,
        retries: slot.retries,
        depth: if page.is_ended() { 0 } else { slot.depth },
        queue_ns: slot.queue_ns,
        latency: Distribution::new(slot.operations, slot.latency_ns, &slot.buckets)
            .with_quarters(&slot.quarters),
        waited_ns: slot.waited_ns,
        copied_ns: slot.copied_ns,
        disk_ns: slot.disk_ns,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perigee_activity::{Direction, Page, PageDirectory, Slot, Stages, pages};
    use perigee_topology::Roots;

    fn listing(directory: &PageDirectory) -> PageListing {
        PageListing::read(directory, |_| false)
    }

    struct Host {
        directory: PageDirectory,
        keep: StateFolder,
        _folder: tempfile::TempDir,
    }

    /// A host on which one operation of 100 bytes was counted.
    fn host() -> Host {
        let folder = tempfile::tempdir().unwrap();
        let directory = PageDirectory::new(folder.path().join("pages"));
        let page = Box::leak(Box::new(Page::create(&directory).unwrap()));
        let key = SlotKey::new("eth0", Route::Tcp, Direction::Write, 0);
        let slot = Box::leak(Box::new(Slot::claim(page, key).unwrap()));
        slot.record(100, &Stages::whole(1000, 10));
        slot.set_depth(3);
        Host {
            directory,
            keep: StateFolder::new(Some(&folder.path().join("state")), "boot"),
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
        let first = flows.read(&listing(&host.directory), NetworkNamespace::default());
        assert_eq!((first[0].bytes, first[0].depth), (100, 3));
        remove_page(&host);
        let later = flows.read(&listing(&host.directory), NetworkNamespace::default());
        assert_eq!((later[0].bytes, later[0].depth), (100, 0));
        assert_eq!(later[0].latency.count, 1);
    }

    #[test]
    fn the_last_counts_of_a_process_are_read_once_after_its_end_and_counted_once() {
        let host = host();
        let mut flows = Flows::open(&host.keep);
        let page = Page::create(&host.directory).unwrap();
        let path = page.path().unwrap().to_owned();
        let name = path.file_name().unwrap().to_owned();
        {
            // The page outlives this process's slot only here: elsewhere it is the process's own.
            let page: &'static Page = Box::leak(Box::new(page));
            let key = SlotKey::new("eth1", Route::Tcp, Direction::Write, 0);
            let slot = Slot::claim(page, key).unwrap();
            slot.record(7, &Stages::whole(1000, 10));
            let read = flows.read(&listing(&host.directory), NetworkNamespace::default());
            assert_eq!(bytes_of(&read, "eth1"), 7);
            slot.record(70, &Stages::whole(1000, 10));
            slot.set_depth(2);
        }
        let ended = host.directory.path().join("ended");
        std::fs::copy(&path, &ended).unwrap();
        std::fs::rename(&ended, &path).unwrap();
        let last = listing(&host.directory);
        assert_eq!(last.ended.len(), 1);
        let read = flows.read(&last, NetworkNamespace::default());
        assert_eq!(bytes_of(&read, "eth1"), 77);
        assert!(read.iter().all(|flow| flow.device != "eth1" || flow.depth == 0));
        let known = PageListing::read(&host.directory, |known| known == name);
        flows.save(&host.keep).unwrap();
        for agent in [&mut flows, &mut Flows::open(&host.keep)] {
            for pages in [&known, &listing(&host.directory)] {
                let read = agent.read(pages, NetworkNamespace::default());
                assert_eq!(bytes_of(&read, "eth1"), 77);
            }
        }
        host.directory.remove_ended(&name);
        let read = flows.read(&listing(&host.directory), NetworkNamespace::default());
        assert_eq!(bytes_of(&read, "eth1"), 77);
    }

    fn bytes_of(flows: &[FlowSeries], device: &str) -> u64 {
        flows.iter().filter(|flow| flow.device == device).map(|flow| flow.bytes).sum()
    }

    #[test]
    fn a_restarted_agent_counts_living_processes_once_and_keeps_those_that_ended() {
        let host = host();
        let mut first = Flows::open(&host.keep);
        first.read(&listing(&host.directory), NetworkNamespace::default());
        first.save(&host.keep).unwrap();
        let mut second = Flows::open(&host.keep);
        assert_eq!(
            second.read(&listing(&host.directory), NetworkNamespace::default())[0].bytes,
            100
        );
        second.save(&host.keep).unwrap();
        remove_page(&host);
        let mut third = Flows::open(&host.keep);
        let left = third.read(&listing(&host.directory), NetworkNamespace::default());
        assert_eq!((left[0].bytes, left[0].latency.count), (100, 1));
        assert_eq!(third.read(&PageListing::default(), NetworkNamespace::default())[0].bytes, 100);
    }

    /// A host with a page of that many NICs.
    fn crowded(nics: usize, bytes: u64) -> (PageDirectory, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let directory = PageDirectory::new(folder.path());
        for begin in (0..nics).step_by(500) {
            let page = Box::leak(Box::new(Page::create(&directory).unwrap()));
            for nic in begin..nics.min(begin + 500) {
                let key = SlotKey::new(&format!("nic{nic}"), Route::Tcp, Direction::Write, 0);
                Slot::claim(page, key).unwrap().record(bytes, &Stages::whole(1000, 10));
            }
        }
        (directory, folder)
    }

    #[test]
    fn names_that_others_write_become_no_more_series_than_there_is_room_for() {
        let (directory, _folder) = crowded(FLOWS_MAX + 500, 100);
        let mut flows = Flows::default();
        let read = flows.read(&listing(&directory), NetworkNamespace::default());
        assert_eq!(read.len(), FLOWS_MAX + 1);
        let others = read.iter().find(|flow| flow.device == "other").unwrap();
        assert_eq!((others.operations, others.bytes), (500, 50_000));
        let operations = |read: Vec<FlowSeries>| read.iter().map(|flow| flow.operations).sum();
        let again: u64 = operations(flows.read(&listing(&directory), NetworkNamespace::default()));
        assert_eq!(again, operations(read));
        assert_eq!(
            flows.read(&PageListing::default(), NetworkNamespace::default()).len(),
            FLOWS_MAX + 1
        );
    }

    #[test]
    fn numbers_at_their_end_stay_there() {
        let (directory, _folder) = crowded(2, u64::MAX);
        let mut flows = Flows::default();
        let read = flows.read(&listing(&directory), NetworkNamespace::default());
        let mut all = read[0].clone();
        (all.queue_ns, all.latency.sum_ns) = (u64::MAX, u64::MAX);
        all.latency.buckets.fill(u64::MAX);
        let twice = all.clone();
        all.add(&twice);
        assert_eq!((all.bytes, all.latency.sum_ns), (u64::MAX, u64::MAX));
        assert!(all.latency.quantile(0.5) > 0);
        assert!(all.latency.totals().counts.contains(&u64::MAX));
    }

    #[test]
    fn a_nic_of_another_network_namespace_is_not_the_hosts_nic_of_that_name() {
        let host = host();
        let here = NetworkNamespace::open(&Roots::system());
        // A tree in which the agent's own namespace is some other file.
        let tree = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(tree.path().join("self/ns")).unwrap();
        std::fs::write(tree.path().join("self/ns/net"), "").unwrap();
        let elsewhere = NetworkNamespace::open(&Roots::new("/sys", tree.path()));
        for (network, name) in
            [(here, "eth0"), (NetworkNamespace::default(), "eth0"), (elsewhere, "netns:eth0")]
        {
            let read = Flows::default().read(&listing(&host.directory), network);
            assert_eq!((read[0].device.as_str(), read[0].bytes), (name, 100));
        }
    }
}
