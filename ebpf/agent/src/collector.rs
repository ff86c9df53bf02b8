//! Reads the host into snapshots. Not for many threads: one collector, one thread.

mod distances;
mod flows;
mod links;
mod pages;
mod probed;
mod samples;
mod unseen;
mod verdicts;

use crate::explain::{ProbeLimit, sources};
use crate::host::{self, Cgroups, FoundProcesses, NetworkNamespace, OurProcess};
use crate::ledger::Ledger;
use crate::limits::{SLOW_BATCHES_MAX, SLOW_BATCHES_PER_TURN};
use crate::options::AgentOptions;
use crate::persisted::StateFolder;
use crate::slow::SlowDetector;
use crate::snapshot::{ProcessSeries, SlowBatchEntry, Snapshot};
use crate::watch::Watch;
use flows::Flows;
use links::Links;
use pages::Pages;
use perigee_activity::PageListing;
use perigee_probe_loader::{Feature, FeatureState, Probes, SlowBatches};
use perigee_topology::Topology;
use samples::Samples;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::{Instant, SystemTime};
use verdicts::Verdicts;

/// Reads the host.
pub struct Collector {
    options: AgentOptions,
    watch: Arc<Watch>,
    ledger: Ledger,
    keep: StateFolder,
    /// Whether the last try to keep the counters failed, which is logged once.
    is_unkept: bool,
    started: Instant,
    pages: Pages,
    flows: Flows,
    links: Links,
    probes: Option<Probes>,
    /// Why there are no probes, feature by feature.
    refused: BTreeMap<Feature, FeatureState>,
    ring: Option<SlowBatches>,
    slow: VecDeque<SlowBatchEntry>,
    measuring: Option<OwnedFd>,
    groups: Cgroups,
    network: NetworkNamespace,
    /// What probes that work cannot see, as of the last turn.
    troubles: BTreeMap<Feature, ProbeLimit>,
    samples: Samples,
    judge: SlowDetector,
    verdicts: Verdicts,
}

impl Collector {
    /// A collector; loads the probes if that is wanted and allowed.
    pub fn new(options: AgentOptions, watch: Arc<Watch>) -> Self {
        let keep = StateFolder::new(options.state.as_deref(), &host::boot(&options.roots));
        let (mut probes, refused) = load_probes(&options);
        let ring = probes.as_mut().and_then(|probes| probes.take_slow_batches().ok());
        Self {
            ledger: Ledger::open(&keep),
            pages: Pages::new(options.activity.clone()),
            flows: Flows::open(&keep),
            links: Links::open(&keep),
            verdicts: Verdicts::open(&keep),
            keep,
            is_unkept: false,
            started: Instant::now(),
            probes,
            refused,
            ring,
            slow: VecDeque::new(),
            measuring: None,
            groups: Cgroups::open(&options.roots),
            network: NetworkNamespace::open(&options.roots),
            troubles: BTreeMap::new(),
            samples: Samples::default(),
            judge: SlowDetector::default(),
            options,
            watch,
        }
    }

    /// Reads everything once.
    pub fn collect(&mut self) -> Snapshot {
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
            taken_ms,
            monotonic_ns: nanoseconds(self.started.elapsed()),
            host: host::name(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            flows: self.flows.read(&pages, self.network),
            links: self.links.read(&pages, self.network, taken_ms),
            processes: found.processes.iter().map(describe).collect(),
            nics,
            ..Snapshot::default()
        };
        self.read_probes(&mut snapshot, &interfaces, &found.processes);
        self.judge(&mut snapshot, &found.processes);
        snapshot.slow = self.slow.iter().cloned().collect();
        snapshot.sources = self.sources(&topology, pages.living.len(), &found);
        snapshot.collect_ns = nanoseconds(begun.elapsed());
        snapshot
    }

    /// Who is slow, and who was.
    fn judge(&mut self, snapshot: &mut Snapshot, processes: &[OurProcess]) {
        let waits = host::waits(&self.options.roots, processes, self.probes.as_ref());
        let signs = self.samples.take(snapshot, &waits);
        snapshot.suspects = self.judge.judge(snapshot.taken_ms, &signs);
        self.verdicts.take(snapshot.taken_ms, &snapshot.suspects);
        snapshot.past_suspects = self.verdicts.past();
    }

    /// Keeps the counters for the next agent.
    pub fn save(&mut self) {
        let saved = self.ledger.save(&self.keep);
        let saved = saved.and_then(|()| self.flows.save(&self.keep));
        let saved = saved.and_then(|()| self.links.save(&self.keep));
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

    /// Watches what is there now: interfaces, our threads and processes, batches while the agent is
    /// read.
    fn adjust(
        &mut self,
        interfaces: &BTreeSet<(u32, String)>,
        pages: &PageListing,
        found: &FoundProcesses,
    ) {
        let Some(probes) = &mut self.probes else {
            return;
        };
        let watched = self.watch.is_watched();
        for (target, error) in probes.watch_interfaces(interfaces) {
            tracing::debug!(%target, %error, "An interface cannot be watched");
        }
        let roots = &self.options.roots;
        self.troubles = [
            unseen::watch_groups(probes, pages, found, &self.groups),
            unseen::watch_batches(probes, found, roots, watched),
        ]
        .into_iter()
        .flatten()
        .chain(unseen::watch_tasks(probes, found, roots))
        .collect();
        let measure = watched || self.options.measure_costs;
        match (&self.measuring, measure && probes.works(Feature::Batches)) {
            (None, true) => self.measuring = probes.measure_costs().ok(),
            (Some(_), false) => self.measuring = None,
            _ => {}
        }
    }

    fn take_slow_batches(&mut self) {
        let Some(ring) = &mut self.ring else {
            return;
        };
        for _ in 0..SLOW_BATCHES_PER_TURN {
            let Some(batch) = ring.take() else {
                break;
            };
            self.slow.push_front(probed::slow_entry(&batch));
        }
        self.slow.truncate(SLOW_BATCHES_MAX);
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
    match Probes::load(options.slow) {
        Ok(probes) => (Some(probes), BTreeMap::new()),
        Err(error) => {
            tracing::warn!(%error, "No eBPF probes; everything else works");
            (None, error.states())
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
