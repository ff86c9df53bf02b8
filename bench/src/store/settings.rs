//! Settings of `perigee bench store`. Invariant: a call's blocks fit each thread's part of the pool
//! twice, so a put always finds room beside what is stored.

use std::path::PathBuf;
use std::time::Duration;

use perigee_flags::{Flag, Program, Settings, ValueKind};

use crate::baseline::rounds::Quiet;
use crate::cpu::pin_to_cpu;
use crate::ends::cluster::LEASE_MS;
use crate::error::BenchError;
use crate::limits::{BUFFER_BYTES_MAX, FOREIGN_LEASE, KEYS_PER_CALL_MAX, SEGMENT_POOLS};
use crate::report::bytes_text;
use crate::settings::{self, Load, LoadWords};
use perigee_schemas::Route;

const WHERE: &[Flag] = &[
    settings::CLUSTER,
    settings::ROUTE,
    Flag::new("pool", ValueKind::SizeBytes, "256MiB", "Most bytes stored at once")
        .within(1 << 20, BUFFER_BYTES_MAX),
    Flag::new(
        "disk",
        ValueKind::Text,
        "",
        "Folder on a disk: also rows of more blocks than memory holds; what is made in it is removed",
    ),
    Flag::new(
        "serve",
        ValueKind::Bool,
        "false",
        "Only serve a cluster of one node, until a signal",
    ),
    settings::PIN,
];

const LOAD: &[Flag] = &[
    Flag::new("operation", ValueKind::Text, "all", "put, get, exist, or all in this order")
        .one_of(&["all", "put", "get", "exist"]),
    settings::size("64KiB", "Bytes per block"),
    settings::ALL,
    Flag::new("batch", ValueKind::Int64, "8", "Keys per call").within(1, KEYS_PER_CALL_MAX),
    settings::THREADS,
    settings::DURATION,
    settings::ITERATIONS,
    settings::RATE,
    Flag::new(
        "verify",
        ValueKind::Bool,
        "false",
        "Read every call's blocks again and compare them",
    ),
    Flag::new(
        "baseline",
        ValueKind::Bool,
        "false",
        "Hold rows against a streaming copy, over TCP against a memcpy and a bare pump",
    ),
    settings::ROUNDS,
    settings::ANY_NOISE,
];

/// The command as its settings see it.
pub(super) const PROGRAM: Program = Program {
    name: "perigee bench store",
    version: env!("CARGO_PKG_VERSION"),
    summary: "put, get and exist against a cluster, or one of its own",
    variable_prefix: "PERIGEE_BENCH_STORE_",
    words: &[],
    tables: &[("Cluster", WHERE), ("Load", LOAD), ("Output", settings::OUTPUT)],
};

/// Examples of the help text.
pub(super) const EXAMPLES: &[&str] = &[
    "perigee bench store                   # a cluster of its own, shared memory",
    "perigee bench store --route tcp --all",
    "perigee bench store --baseline --batch 4 --size 1MiB   # against this machine",
    "perigee bench store --disk /mnt/ssd   # and with a disk behind the memory",
    "perigee bench store --master 10.0.0.1:50051 --threads 8 --verify",
];

const ALL_BYTES: [u64; 5] = [4 << 10, 64 << 10, 1 << 20, 4 << 20, 16 << 20];
/// Content is compared by words.
const BLOCK_BYTES_MIN: u64 = 8;

/// The settings of one run.
#[derive(Debug, Clone)]
pub(super) struct StoreSettings {
    pub(super) master: String,
    pub(super) route: Route,
    pub(super) pool_bytes: u64,
    pub(super) serve: bool,
    /// Where tier rows have their disk; empty for none.
    pub(super) disk: PathBuf,
    pub(super) load: Load,
    /// The rounds of a run that is held against this machine.
    pub(super) quiet: Option<Quiet>,
    pub(super) lease: Duration,
    pin: bool,
}

impl StoreSettings {
    /// Of the values of the flags.
    pub(super) fn of(settings: &Settings) -> Result<Self, BenchError> {
        let master = settings.text("master").to_owned();
        let words = LoadWords {
            operations: &["put", "get", "exist"],
            usual: 3,
            depth: "batch",
            sizes: ALL_BYTES.to_vec(),
            least_bytes: BLOCK_BYTES_MIN,
        };
        let read = Self {
            lease: if master.is_empty() {
                Duration::from_millis(LEASE_MS * 2)
            } else {
                FOREIGN_LEASE
            },
            master,
            route: settings::route(settings),
            pool_bytes: settings.integer("pool"),
            serve: settings.bool("serve"),
            disk: settings.text("disk").into(),
            load: Load::of(settings, words)?,
            quiet: settings.bool("baseline").then(|| settings::quiet(settings)),
            pin: settings.bool("pin"),
        };
        read.check()?;
        Ok(read)
    }

    fn check(&self) -> Result<(), BenchError> {
        let is_alone = self.master.is_empty() && self.load.threads == 1;
        if self.quiet.is_some() && (!is_alone || self.load.verify) {
            return Err(BenchError::conflict(
                "--baseline holds one thread and a cluster of its own against this machine; leave --master, \
                 --threads and --verify out",
            ));
        }
        if self.pin && !self.master.is_empty() {
            return Err(BenchError::conflict(
                "--pin is for a cluster of its own; leave --master or --pin out",
            ));
        }
        if self.has_disk() && (self.quiet.is_some() || !self.master.is_empty()) {
            return Err(BenchError::conflict(
                "--disk is for a cluster of its own and plain rows; leave --master and --baseline out",
            ));
        }
        let load = &self.load;
        let call = load.largest().saturating_mul(load.depth);
        let needed = call.saturating_mul(2 * load.threads);
        if !self.serve && needed > self.pool_bytes {
            return Err(BenchError::conflict(format!(
                "{} blocks of {} for {} threads do not fit a pool of {} twice; pass --pool {}",
                load.depth,
                bytes_text(load.largest()),
                load.threads,
                bytes_text(self.pool_bytes),
                bytes_text(needed).replace(' ', "")
            )));
        }
        Ok(())
    }

    /// Whether rows with a disk behind the memory are wanted.
    pub(super) fn has_disk(&self) -> bool {
        !self.disk.as_os_str().is_empty()
    }

    /// Memory that a cluster of our own donates.
    pub(super) fn segment_bytes(&self) -> u64 {
        self.pool_bytes.saturating_mul(SEGMENT_POOLS)
    }

    /// The word of the flag.
    pub(super) fn route_word(&self) -> &'static str {
        settings::route_word(self.route)
    }

    /// The CPU of the other end, if each has its own.
    pub(super) fn far_cpu(&self) -> Option<usize> {
        self.pin.then_some(1)
    }

    /// Keeps this end on its CPU, if each has its own.
    pub(super) fn pin_near(&self) -> Result<(), BenchError> {
        if self.pin {
            pin_to_cpu(0)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use perigee_flags::{ProcessEnvironment, ProgramStart};

    use super::*;

    fn load(words: &[&str]) -> Result<StoreSettings, BenchError> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        match PROGRAM.load(&words, &ProcessEnvironment::of(&[]))? {
            ProgramStart::Run(settings) => StoreSettings::of(&settings),
            ProgramStart::Print(text) => panic!("{text}"),
        }
    }

    #[test]
    fn all_operations_are_the_usual_ones() {
        assert_eq!(load(&[]).unwrap().load.operations, ["put", "get", "exist"]);
        assert_eq!(load(&["--operation=get"]).unwrap().load.operations, ["get"]);
    }

    #[test]
    fn a_cluster_in_use_has_longer_leases_than_our_own() {
        let own = load(&[]).unwrap().lease;
        assert!(load(&["--master=a:1"]).unwrap().lease > own);
    }

    #[test]
    fn settings_that_cannot_be_run_say_what_to_do() {
        for (words, part) in [
            (&["--size=0"][..], "size"),
            (&["--size=64MiB", "--batch=4"], "--pool 512MiB"),
            (&["--all", "--size=4k"], "not both"),
            (&["--route=pigeon"], "auto, tcp"),
            (&["--baseline", "--master=a:1"], "leave --master"),
            (&["--pin", "--master=a:1"], "--pin"),
            (&["--disk=/x", "--master=a:1"], "--disk is for a cluster of its own"),
            (&["--disk=/x", "--baseline"], "--disk is for a cluster of its own"),
        ] {
            let error = load(words).unwrap_err();
            assert!(error.to_string().contains(part), "{words:?}: {error}");
            assert_eq!(error.exit_code(), 2);
        }
    }
}
