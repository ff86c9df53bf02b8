//! Batches of the data plane, as its pages show them one by one. Names come from other processes.
//! Invariant: a batch counts once, also if it was overwritten before it was seen: then another one
//! of its thread stands for it.

use crate::histogram::Distribution;
use crate::host::{FoundProcesses, NetworkNamespace, foreign_name};
use crate::ledger::{self, CellSource, Ledger};
use crate::limits::{BATCH_SERIES_MAX, SLOW_BATCHES_MAX};
use crate::snapshot::{BatchSeries, SlowBatchEntry, Snapshot};
use perigee_activity::{
    BatchMark, Direction, PageListing, PageReader, RingsSeen, Route, SLOW_MARK_NS,
    slow_class_begin_ns,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::OsString;
use std::time::Duration;

const KIND: &str = "batch";
/// Numbers before the distribution in the cells of a series.
const NUMBERS: usize = 4;

/// NIC, peer, tenant, route, direction.
type Labels = [String; 5];

/// What a turn needs to know of the host.
pub(super) struct MarksSeenBy<'a> {
    pub(super) pages: &'a PageListing,
    pub(super) found: &'a FoundProcesses,
    pub(super) network: NetworkNamespace,
    pub(super) taken_ms: u64,
}

/// The batches of all pages.
#[derive(Debug)]
pub(super) struct Marks {
    threshold_ns: u64,
    /// By the name of the page.
    seen: BTreeMap<OsString, RingsSeen>,
    /// Sums since this agent began.
    sums: BTreeMap<Labels, Sums>,
    /// Those that took longer than the threshold, the newest first.
    slow: VecDeque<SlowBatchEntry>,
    lost: Lost,
    is_begun: bool,
}

#[derive(Debug, Default)]
struct Sums {
    numbers: [u64; NUMBERS],
    latency: Distribution,
}

/// Batches that are not shown, since this agent began; of the slow ones those that are surely above
/// the threshold.
#[derive(Clone, Copy, Debug, Default)]
struct Lost {
    slow: u64,
    unplaced: u64,
}

impl Marks {
    pub(super) fn new(slow: Duration) -> Self {
        Self {
            threshold_ns: u64::try_from(slow.as_nanos()).unwrap_or(u64::MAX),
            seen: BTreeMap::new(),
            sums: BTreeMap::new(),
            slow: VecDeque::new(),
            lost: Lost::default(),
            is_begun: false,
        }
    }

    /// Takes what is new in the pages, and adds it to the snapshot with what earlier agents saw.
    pub(super) fn read(
        &mut self,
        host: &MarksSeenBy<'_>,
        ledger: &mut Ledger,
        snapshot: &mut Snapshot,
    ) {
        let mut named: BTreeSet<Labels> = ledger.of_kind(KIND).into_iter().collect();
        for page in host.pages.opened() {
            self.take(page, host, &mut named);
        }
        self.seen.retain(|page, _| host.pages.holds(page));
        self.is_begun = true;
        for (labels, sums) in &self.sums {
            let series = name(labels);
            let cells = [&sums.numbers[..], &sums.latency.cells()].concat();
            ledger.count(&series, CellSource::Place(series.clone()), &cells);
        }
        let all = ledger.of_kind(KIND).into_iter();
        snapshot.batches = all.map(|labels| series(ledger, labels)).collect();
        snapshot.slow = self.slow.iter().cloned().collect();
        for (reason, count) in
            [("slow_batches", self.lost.slow), ("batch_rings", self.lost.unplaced)]
        {
            let [total] = ledger.total(&ledger::name("lost", [reason]), [count]);
            snapshot.lost.insert(reason.to_owned(), total);
        }
    }

    fn take(&mut self, page: &PageReader, host: &MarksSeenBy<'_>, named: &mut BTreeSet<Labels>) {
        let file = page.path().file_name().unwrap_or_default().to_owned();
        let is_known = self.seen.contains_key(&file);
        let reading = match page.marks(self.seen.entry(file.clone()).or_default()) {
            Ok(reading) => reading,
            Err(error) => {
                tracing::debug!(page = %page.path().display(), %error, "A page cannot be read");
                return;
            }
        };
        let place = Place {
            is_foreign: host.network.is_foreign(page),
            pid: host.found.pids.get(&file).copied().unwrap_or(page.pid()),
            program: page.program(),
        };
        // What a process did before this agent began, an earlier one may have counted.
        let counts = self.is_begun || is_known;
        for (mark, batches) in reading.recent {
            if counts {
                self.count(&mark, batches, place.nic(&mark), named);
            }
            // Those above stay in sight longer among the slow ones.
            let total_ns = mark.total_ns();
            if total_ns < SLOW_MARK_NS && total_ns > self.threshold_ns {
                let mut ended = mark;
                ended.ended_ms = host.taken_ms;
                self.list(&ended, &place, host.taken_ms);
            }
        }
        let threshold_ns = self.threshold_ns;
        for mark in reading.slow.iter().filter(|mark| mark.total_ns() > threshold_ns) {
            self.list(mark, &place, host.taken_ms);
        }
        if counts {
            let asked = reading.slow_lost.into_iter().enumerate();
            let asked = asked.filter(|(class, _)| slow_class_begin_ns(*class) >= threshold_ns);
            let lost = asked.fold(self.lost.slow, |sum, (_, more)| sum.saturating_add(more));
            self.lost.slow = lost;
            self.lost.unplaced = self.lost.unplaced.saturating_add(reading.unplaced);
        }
    }

    fn count(&mut self, mark: &BatchMark, batches: u64, nic: String, named: &mut BTreeSet<Labels>) {
        let labels = admit(named, labels(mark, nic));
        let sums = self.sums.entry(labels).or_default();
        for (sum, more) in
            sums.numbers.iter_mut().zip([mark.operations, mark.bytes, mark.queue_ns, mark.wire_ns])
        {
            *sum = sum.saturating_add(more.saturating_mul(batches));
        }
        sums.latency.add(mark.total_ns(), batches);
    }

    fn list(&mut self, mark: &BatchMark, place: &Place<'_>, taken_ms: u64) {
        let mut entry = entry(mark, place);
        // One that claims to end in the future would stay the newest for good.
        entry.ended_ms = entry.ended_ms.min(taken_ms);
        // Nearly in order: pages are read one after the other.
        let at = self.slow.partition_point(|other| other.ended_ms > entry.ended_ms);
        self.slow.insert(at, entry);
        self.slow.truncate(SLOW_BATCHES_MAX);
    }
}

/// Whose page it is.
struct Place<'a> {
    is_foreign: bool,
    pid: u32,
    program: &'a str,
}

impl Place<'_> {
    /// Name of a NIC, which the flows of that process call the same.
    fn nic(&self, mark: &BatchMark) -> String {
        match mark.nic() {
            name if self.is_foreign && mark.route() == Some(Route::Tcp) => foreign_name(&name),
            name => name,
        }
    }
}

fn name(labels: &Labels) -> String {
    ledger::name(KIND, labels.each_ref().map(String::as_str))
}

/// The labels if there is room for them, else those of the rest. Who comes first keeps its name, so
/// that no series falls because another one appears.
fn admit(named: &mut BTreeSet<Labels>, labels: Labels) -> Labels {
    if named.len() < BATCH_SERIES_MAX {
        named.insert(labels.clone());
    }
    if named.contains(&labels) {
        return labels;
    }
    let [_, _, _, route, direction] = labels;
    let other = || "other".to_owned();
    [other(), other(), other(), route, direction]
}

fn series(ledger: &Ledger, labels: Labels) -> BatchSeries {
    let cells = ledger.read(&name(&labels));
    let number = |index: usize| cells.get(index).copied().unwrap_or(0);
    let [device, peer, tenant, route, direction] = labels;
    BatchSeries {
        latency: Distribution::of_cells(cells.get(NUMBERS..).unwrap_or(&[])),
        operations: number(0),
        bytes: number(1),
        queue_ns: number(2),
        wire_ns: number(3),
        device,
        peer,
        tenant,
        route,
        direction,
    }
}

fn labels(mark: &BatchMark, nic: String) -> Labels {
    let peer = BatchSeries::peer_of(&mark.peer()).to_owned();
    [nic, peer, mark.tenant(), route(mark), direction(mark)]
}

fn entry(mark: &BatchMark, place: &Place<'_>) -> SlowBatchEntry {
    SlowBatchEntry {
        ended_ms: mark.ended_ms,
        pid: place.pid,
        program: place.program.to_owned(),
        device: place.nic(mark),
        peer: mark.peer(),
        tenant: mark.tenant(),
        route: route(mark),
        direction: direction(mark),
        operations: mark.operations,
        bytes: mark.bytes,
        status: mark.status,
        queue_ns: mark.queue_ns,
        wire_ns: mark.wire_ns.saturating_sub(mark.peer_ns),
        disk_ns: mark.disk_ns,
        peer_ns: mark.peer_ns,
    }
}

fn route(mark: &BatchMark) -> String {
    mark.route().map_or("unknown", Route::label).to_owned()
}

fn direction(mark: &BatchMark) -> String {
    mark.direction().map_or("unknown", Direction::label).to_owned()
}

#[cfg(test)]
mod tests;
