//! Runs against a cluster that is not their own. Invariant: such a run leaves none of its blocks
//! there.

use perigee_flags::{ProcessEnvironment, ProgramStart};
use perigee_service::Cluster as Master;

use std::collections::BTreeMap;

use super::*;
use crate::ends::cluster::start_master;
use crate::facts::samples::machine;
use perigee_schemas::Route;

/// What the keys of these runs begin with.
const NAME: &str = "run";

/// A cluster of one node that others use, too.
struct Foreign {
    master: Master,
    node: Store,
}

impl Foreign {
    fn start(segment_bytes: u64) -> Self {
        let master = start_master().unwrap();
        let address = master.address().to_string();
        let node = open_store(&address, segment_bytes, Route::SharedMemory).unwrap();
        Self { master, node }
    }

    /// Runs the tool against it.
    fn measure(&self, words: &[&str], stop: &Stop) -> Result<Report, BenchError> {
        let mut all = vec![format!("--master={}", self.master.address())];
        all.extend(words.iter().map(|word| (*word).to_owned()));
        let settings = match TOOL.program.load(&all, &ProcessEnvironment::of(&[])).unwrap() {
            ProgramStart::Run(settings) => StoreSettings::of(&settings).unwrap(),
            ProgramStart::Print(text) => panic!("{text}"),
        };
        let mut report = Report::begin("store", machine(), BTreeMap::new());
        let client = open_store(&settings.master, 0, settings.route).unwrap();
        let own = [std::process::id()];
        let cluster = Cluster { client: &client, master: &settings.master, name: NAME, pids: &own };
        let outcome = against(&cluster, &settings, stop, &mut report);
        client.close();
        outcome.map(|()| report)
    }

    /// Whether a run has stored its first block.
    fn has_first_block(&self) -> bool {
        let key = format!("{NAME}-0-65536-0");
        self.node.exist(&[&key])[0].unwrap()
    }

    /// Removes what runs have left; returns how many blocks.
    fn left_over(&self) -> u64 {
        self.node.remove_by_regex(NAME, true).unwrap()
    }

    fn stop(self) {
        self.node.close();
        self.master.stop();
    }
}

#[test]
fn a_run_that_is_interrupted_removes_its_blocks() {
    let foreign = Foreign::start(64 << 20);
    for operation in ["put", "get", "exist"] {
        let operation = format!("--operation={operation}");
        let stop = Stop::default();
        let words = [&operation[..], "--duration=1h", "--pool=16MiB"];
        let outcome = std::thread::scope(|scope| {
            let run = scope.spawn(|| foreign.measure(&words, &stop));
            // As soon as there is something to leave behind.
            while !foreign.has_first_block() && !run.is_finished() {}
            stop.set();
            run.join().unwrap()
        });
        let is_interrupted = matches!(outcome, Err(BenchError::Interrupted));
        assert!(is_interrupted, "{operation}: {outcome:?}");
        assert_eq!(foreign.left_over(), 0, "{operation}");
    }
    foreign.stop();
}

#[test]
fn a_run_that_does_not_fit_the_cluster_names_the_pool_and_leaves_nothing() {
    let foreign = Foreign::start(16 << 20);
    let words = ["--operation=get", "--duration=1h", "--pool=64MiB"];
    let error = foreign.measure(&words, &Stop::default()).unwrap_err();
    assert_eq!(error.exit_code(), 75, "{error}");
    let text = error.to_string();
    assert!(text.contains("pass a smaller --pool"), "{text}");
    assert_eq!(foreign.left_over(), 0);
    foreign.stop();
}

#[test]
fn a_cluster_on_this_machine_is_loopback_however_it_was_started() {
    let foreign = Foreign::start(16 << 20);
    let words = ["--pool=4MiB", "--iterations=5"];
    let report = foreign.measure(&words, &Stop::default()).unwrap();
    assert_eq!((report.rows.len(), report.loopback), (3, true));
    foreign.stop();
}

#[test]
fn the_wait_for_space_between_two_sizes_can_be_interrupted() {
    let foreign = Foreign::start(64 << 20);
    let client = open_store(&foreign.master.address().to_string(), 0, Route::Tcp).unwrap();
    let pair = MemoryPair::new(1 << 20).unwrap();
    let hour = std::time::Duration::from_secs(3600);
    let mut workload = Workload::named(&client, &pair, 65_536, 4, (NAME, hour));
    workload.fill(&Stop::default()).unwrap();
    workload.get().unwrap();
    workload.remove().unwrap();
    let stop = Stop::default();
    stop.set();
    let outcome = workload.settle(&stop);
    assert!(matches!(outcome, Err(BenchError::Interrupted)));
    client.close();
    foreign.stop();
}
