//! Reads the host into snapshots. Not for many threads: one collector, one thread.

mod checked_links;
mod disks;
mod distances;
mod flows;
mod links;
mod marks;
mod pages;
mod probed;
mod process_counts;
mod samples;
mod spans;
mod unseen;
mod verdicts;
mod waits;

use crate::explain::{ProbeLimit, sources};
use crate::host::{self, Cgroups, FoundProcesses, NetworkNamespace, OurProcess};
use crate::ledger::{self, Ledger};
use crate::limits::URING_TURNS;
use crate::options::AgentOptions;
use crate::otlp::ExportCounts;
use crate::persisted::StateFolder;
use crate::slow::SlowDetector;
use crate::snapshot::{ProcessSeries, Snapshot};
use crate::traces::SpanEntry;
use checked_links::CheckedLinks;
use flows::Flows;
use links::Links;
use marks::{Marks, MarksSeenBy};
use pages::Pages;
use perigee_activity::PageListing;
use perigee_probe_loader::{Feature, FeatureState, Probes};
use perigee_topology::Topology;
use process_counts::ProcessCounts;
use samples::Samples;
use spans::Spans;
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Instant, SystemTime};
use verdicts::Verdicts;

/// Reads the host.
pub struct Collector {
    options: AgentOptions,
    ledger: Ledger,
    keep: StateFolder,
    /// Whether the last try to keep the counters failed, which is logged once.
    is_unkept: bool,
    started: Instant,
    pages: Pages,
    flows: Flows,
    links: Links,
    programs: ProcessCounts,
    marks: Marks,
    spans: Spans,
    probes: Option<Probes>,
    /// Why there are no probes, feature by feature.
    refused: BTreeMap<Feature, FeatureState>,
    /// While it is open, the kernel measures the probes.
    measuring: Option<OwnedFd>,
    turn: u64,
    groups: Cgroups,
    network: NetworkNamespace,
    /// What probes that work cannot see, as of the last turn.
    troubles: BTreeMap<Feature, ProbeLimit>,
    samples: Samples,
    checked: CheckedLinks,
    judge: SlowDetector,
    verdicts: Verdicts,
}

impl Collector {
    /// A collector; loads the probes if that is wanted and allowed.
    pub fn new(options: AgentOptions) -> Self {
        let keep = StateFolder::new(options.state.as_deref(), &host::boot(&options.roots));
        let (probes, refused) = load_probes(&options);
        Self {
            ledger: Ledger::open(&keep),
            pages: Pages::new(options.activity.clone(), options.looks_only),
            flows: Flows::open(&keep),
            links: Links::open(&keep),
            programs: ProcessCounts::open(&keep),
            marks: Marks::new(options.slow),
            spans: Spans::default(),
            verdicts: Verdicts::open(&keep),
            keep,
            is_unkept: false,
            started: Instant::now(),
            probes,
            refused,
            measuring: None,
            turn: 0,
            groups: Cgroups::open(&options.roots),
            network: NetworkNamespace::open(&options.roots),
            troubles: BTreeMap::new(),
            samples: Samples::default(),
            checked: CheckedLinks::new(options.baseline.clone()),
            judge: SlowDetector::default(),
            options,
        }
    }

    /// Reads everything once.
    pub fn collect(&mut self) -> Snapshot {
        self.collect_with(None)
    }

    /// Reads everything once, with what became of exported spans.
    pub(crate) fn collect_with(&mut self, exported: Option<&ExportCounts>) -> Snapshot {
        let begun = Instant::now();
        let roots = self.options.roots.clone();
        let topology = Topology::discover(&roots);
        let pages = self.pages.read();
        let found = FoundProcesses::of(&roots, &pages.living);
        let nics = host::nics(&roots, &topology, &self.options.interfaces);
        let interfaces = host::interfaces(&roots, &topology, &self.options.interfaces);
        self.adjust(&interfaces, &pages, &found);
        let taken_ms = since_1970_ms();
        let mut snapshot = Snapshot {
            schema: Snapshot::SCHEMA,
            taken_ms,
            monotonic_ns: nanoseconds(self.started.elapsed()),
            host: host::name(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            flows: self.flows.read(&pages, self.network),
            links: self.links.read(&pages, self.network, taken_ms),
            programs: self.programs.read(&pages),
            disks: disks::disks(&pages, &found),
            processes: found.processes.iter().map(describe).collect(),
            nics,
            ..Snapshot::default()
        };
        self.ledger.begin();
        self.read_probes(&mut snapshot, &interfaces, &found.processes);
        let host = MarksSeenBy { pages: &pages, found: &found, network: self.network, taken_ms };
        self.marks.read(&host, &mut self.ledger, &mut snapshot);
        self.spans.read(&snapshot.host, &pages, &found, self.network);
        let [lost] = self.ledger.total(&ledger::name("lost", ["spans"]), [self.spans.lost()]);
        snapshot.lost.insert("spans".to_owned(), lost);
        for (result, count) in exported.into_iter().flat_map(ExportCounts::results) {
            let [total] = self.ledger.total(&ledger::name("exported", [result]), [count]);
            snapshot.exported_spans.insert(result.to_owned(), total);
        }
        self.ledger.end();
        self.judge(&mut snapshot, &found.processes);
        self.turn += 1;
        snapshot.sources = self.sources(&topology, pages.living.len(), &found);
        snapshot.collect_ns = nanoseconds(begun.elapsed());
        snapshot
    }

    /// Who is slow, and who was.
    fn judge(&mut self, snapshot: &mut Snapshot, processes: &[OurProcess]) {
        let waits = host::waits(&self.options.roots, processes, self.probes.as_ref());
        let mut signs = self.samples.take(snapshot, &waits);
        let checked = self.checked.of(snapshot);
        signs.links.iter_mut().for_each(|link| link.take_checked(&checked.speeds));
        signs.checked_ns = checked.round_trips;
        snapshot.suspects = self.judge.judge(snapshot.taken_ms, &signs);
        self.verdicts.take(snapshot.taken_ms, &mut snapshot.suspects);
        snapshot.past_suspects = self.verdicts.past();
    }

    /// Spans of requests that were kept since the last call.
    pub(crate) fn new_spans(&mut self) -> Vec<SpanEntry> {
        self.spans.taken()
    }

    /// Keeps the counters for the next agent.
    pub fn save(&mut self) {
        let saved = self.ledger.save(&self.keep);
        let saved = saved.and_then(|()| self.flows.save(&self.keep));
        let saved = saved.and_then(|()| self.links.save(&self.keep));
        let saved = saved.and_then(|()| self.programs.save(&self.keep));
        let saved = saved.and_then(|()| self.verdicts.save(&self.keep));
        if let Err(error) = &saved
            && !self.is_unkept
        {
            let folder = self.keep.folder().unwrap_or(Path::new(""));
            tracing::warn!(folder = %folder.display(), %error, "Counters cannot be kept over a restart of the agent");
        }
        self.is_unkept = saved.is_err();
    }

    fn sources(
        &self,
        topology: &Topology,
        pages: usize,
        found: &FoundProcesses,
    ) -> Vec<crate::explain::SourceState> {
        let ports = topology.rdma.iter().map(|device| device.ports.len()).sum();
        let states = self.probes.as_ref().map(Probes::states);
        let states = states.unwrap_or(&self.refused);
        let hidden = unseen::hidden(found);
        sources(states, &self.troubles, ports, pages, hidden.as_ref())
    }

    /// Watches what is there now: interfaces, our threads and processes.
    fn adjust(
        &mut self,
        interfaces: &BTreeSet<(u32, String)>,
        pages: &PageListing,
        found: &FoundProcesses,
    ) {
        let Some(probes) = &mut self.probes else {
            return;
        };
        for (target, error) in probes.watch_interfaces(interfaces) {
            tracing::debug!(%target, %error, "An interface cannot be watched");
        }
        let roots = &self.options.roots;
        self.troubles = unseen::watch_groups(probes, pages, found, &self.groups)
            .into_iter()
            .chain(unseen::watch_tasks(probes, found, roots))
            .collect();
        if let Err(error) = probes.sample_urings(self.turn.is_multiple_of(URING_TURNS)) {
            tracing::warn!(%error, "io_uring requests cannot be watched");
        }
        if self.options.measure_costs && self.measuring.is_none() {
            self.measuring = probes.measure_costs().ok();
        }
    }
}

fn load_probes(options: &AgentOptions) -> (Option<Probes>, BTreeMap<Feature, FeatureState>) {
    if !options.ebpf {
        let off = FeatureState::Off {
            reason: "it was turned off with --ebpf=false".to_owned(),
            remedy: "leave --ebpf=false out".to_owned(),
        };
        return (None, Feature::ALL.map(|each| (each, off.clone())).into());
    }
    let mut unused = BTreeMap::new();
    if !options.packets {
        let state = FeatureState::Unused {
            reason: "the kernel's own counters say the same, without a price for each packet"
                .to_owned(),
            remedy: "--packets=true, to compare the two".to_owned(),
        };
        unused.insert(Feature::Nics, state);
    }
    match Probes::load(&unused) {
        Ok(probes) => (Some(probes), BTreeMap::new()),
        Err(error) => {
            tracing::warn!(%error, "No eBPF probes; everything else works");
            let mut states = error.states();
            states.extend(unused);
            (None, states)
        }
    }
}

fn describe(process: &OurProcess) -> ProcessSeries {
    ProcessSeries { pid: process.pid, program: process.program.clone() }
}

fn since_1970_ms() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0, |now| u64::try_from(now.as_millis()).unwrap_or(u64::MAX))
}

fn nanoseconds(length: std::time::Duration) -> u64 {
    u64::try_from(length.as_nanos()).unwrap_or(u64::MAX)
}
