//! Settings of `perigee bench store`. Invariant: a call's blocks fit each thread's part of the pool twice, so a put always
//! finds room beside what is stored.

use std::collections::BTreeMap;
use std::time::Duration;

use perigee_flags::{Flag, Kind, Program, Settings};

use super::{FOREIGN_LEASE, SEGMENT_POOLS};
use crate::cluster::{LEASE_MS, Route};
use crate::drive::Span;
use crate::error::BenchError;
use crate::limits::{BUFFER_BYTES_MAX, KEYS_PER_CALL_MAX, THREADS_MAX};
use crate::load_flags;
use crate::report::{BandwidthUnit, Format, bytes_text};

const WHERE: &[Flag] = &[
    load_flags::CLUSTER,
    load_flags::ROUTE,
    Flag::new(
        "pool",
        Kind::SizeBytes,
        "256MiB",
        "Most bytes stored at once",
    )
    .within(1 << 20, BUFFER_BYTES_MAX),
    Flag::new(
        "serve",
        Kind::Bool,
        "false",
        "Only serve a cluster of one node, until a signal",
    ),
];

const LOAD: &[Flag] = &[
    Flag::new(
        "operation",
        Kind::Text,
        "all",
        "put, get, exist, or all in this order",
    )
    .one_of(&["all", "put", "get", "exist"]),
    Flag::new("size", Kind::SizeBytes, "64KiB", "Bytes per block").within(8, BUFFER_BYTES_MAX),
    Flag::new(
        "all",
        Kind::Bool,
        "false",
        "Blocks of 4 KiB, 64 KiB, 1 MiB and 4 MiB",
    ),
    Flag::new("batch", Kind::Int64, "8", "Keys per call").within(1, KEYS_PER_CALL_MAX),
    Flag::new("threads", Kind::Int64, "1", "Threads that call").within(1, THREADS_MAX),
    load_flags::DURATION,
    load_flags::iterations("Calls per row instead of a time; 0 is by time"),
    Flag::new(
        "verify",
        Kind::Bool,
        "false",
        "Read every call's blocks again and compare them",
    ),
];

const OUTPUT: &[Flag] = &[load_flags::FORMAT, load_flags::UNIT];

/// The command as its settings see it.
pub(super) const STORE: Program = Program {
    name: "perigee bench store",
    version: env!("CARGO_PKG_VERSION"),
    summary: "put, get and exist against a cluster, or one of its own",
    variable_prefix: "PERIGEE_BENCH_STORE_",
    words: &[],
    tables: &[("Cluster", WHERE), ("Load", LOAD), ("Output", OUTPUT)],
};

/// Examples of the help text.
pub(super) const EXAMPLES: &[&str] = &[
    "perigee bench store                            # a cluster of its own, shared memory",
    "perigee bench store --route tcp --all",
    "perigee bench store --master 10.0.0.1:50051 --threads 8 --size 1MiB --verify",
];

const ALL_BYTES: [u64; 4] = [4 << 10, 64 << 10, 1 << 20, 4 << 20];

/// The settings of one run.
#[derive(Debug, Clone)]
pub(super) struct StoreSettings {
    pub(super) master: String,
    pub(super) route: Route,
    pub(super) pool_bytes: u64,
    pub(super) serve: bool,
    pub(super) operations: Vec<&'static str>,
    pub(super) sizes: Vec<u64>,
    pub(super) batch: u64,
    pub(super) threads: u64,
    pub(super) span: Span,
    pub(super) verify: bool,
    pub(super) lease: Duration,
    pub(super) format: Format,
    pub(super) unit: BandwidthUnit,
}

impl StoreSettings {
    /// Of the values of the flags.
    pub(super) fn of(settings: &Settings) -> Result<Self, BenchError> {
        let master = settings.text("master").to_owned();
        let read = Self {
            lease: if master.is_empty() {
                Duration::from_millis(LEASE_MS * 2)
            } else {
                FOREIGN_LEASE
            },
            master,
            route: load_flags::route(settings),
            pool_bytes: settings.integer("pool"),
            serve: settings.bool("serve"),
            operations: match settings.text("operation") {
                "put" => vec!["put"],
                "get" => vec!["get"],
                "exist" => vec!["exist"],
                _ => vec!["put", "get", "exist"],
            },
            sizes: if settings.bool("all") {
                ALL_BYTES.to_vec()
            } else {
                vec![settings.integer("size")]
            },
            batch: settings.integer("batch"),
            threads: settings.integer("threads"),
            span: load_flags::span(settings),
            verify: settings.bool("verify"),
            format: load_flags::format(settings),
            unit: load_flags::unit(settings),
        };
        if settings.bool("all") && settings.is_given("size") {
            return Err(BenchError::conflict("Give --all or --size, not both"));
        }
        read.check()?;
        Ok(read)
    }

    fn check(&self) -> Result<(), BenchError> {
        let largest = self.sizes.iter().copied().max().unwrap_or(0);
        let call = largest.saturating_mul(self.batch);
        let needed = call.saturating_mul(2 * self.threads);
        if !self.serve && needed > self.pool_bytes {
            return Err(BenchError::conflict(format!(
                "{} blocks of {} for {} threads do not fit a pool of {} twice; pass --pool {}",
                self.batch,
                bytes_text(largest),
                self.threads,
                bytes_text(self.pool_bytes),
                bytes_text(needed).replace(' ', "")
            )));
        }
        Ok(())
    }

    /// Memory that a cluster of our own donates.
    pub(super) fn segment_bytes(&self) -> u64 {
        self.pool_bytes.saturating_mul(SEGMENT_POOLS)
    }

    /// The word of the flag.
    pub(super) fn route_word(&self) -> &'static str {
        load_flags::route_word(self.route)
    }

    /// What the report says of the settings.
    pub(super) fn echo(&self) -> BTreeMap<String, String> {
        let pairs = [
            ("master", self.master.clone()),
            ("route", self.route_word().to_owned()),
            ("pool", bytes_text(self.pool_bytes)),
            ("duration", load_flags::duration_word(&self.span)),
            ("iterations", self.span.iterations.to_string()),
            ("verify", self.verify.to_string()),
        ];
        load_flags::echo(pairs)
    }
}

#[cfg(test)]
mod tests {
    use perigee_flags::{Environment, Outcome};

    use super::*;

    fn load(words: &[&str]) -> Result<StoreSettings, BenchError> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        match STORE.load(&words, &Environment::of(&[]))? {
            Outcome::Run(settings) => StoreSettings::of(&settings),
            Outcome::Print(text) => panic!("{text}"),
        }
    }

    #[test]
    fn the_table_is_sound() {
        assert_eq!(STORE.check(), Vec::<String>::new());
        assert_eq!(load(&[]).unwrap().operations, ["put", "get", "exist"]);
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
        ] {
            let error = load(words).unwrap_err();
            assert!(error.to_string().contains(part), "{words:?}: {error}");
            assert_eq!(error.exit_code(), 2);
        }
    }
}
