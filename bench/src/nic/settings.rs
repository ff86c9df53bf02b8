//! Settings of `perigee bench nic`. Invariant: what this accepts can be run; sizes, threads and
//! depth fit the buffer.

use std::time::Duration;

use perigee_flags::{Flag, Origin, Program, Settings, ValueKind};
use perigee_topology::Selection;

use crate::error::BenchError;
use crate::limits::{BUFFER_BYTES_MAX, DEPTH_MAX, DURATION_MS_MAX, SWEEP_BYTES};
use crate::report::bytes_text;
use crate::settings::{self, Load, LoadWords};

const WHO: &[Flag] = &[
    Flag::new(
        "role",
        ValueKind::Text,
        "loopback",
        "initiator, target, or loopback: both on this machine",
    )
    .one_of(&["loopback", "initiator", "target"]),
    Flag::new("peer", ValueKind::Text, "", "Name of the target, as the target prints it"),
    Flag::new("name", ValueKind::Text, "", "Own name or address; chosen if empty"),
    Flag::new(
        "metadata",
        ValueKind::Text,
        "P2PHANDSHAKE",
        "P2PHANDSHAKE, http://, etcd:// or redis:// address",
    ),
    Flag::new("transport", ValueKind::Text, "auto", "auto, tcp, rdma or shm").one_of(TRANSPORTS),
    Flag::new(
        "device",
        ValueKind::Text,
        "",
        "RDMA devices, or interfaces for TCP at the target, separated by commas",
    ),
    Flag::new("buffer", ValueKind::SizeBytes, "256MiB", "Memory on each end, the same on both")
        .within(1, BUFFER_BYTES_MAX),
];

const LOAD: &[Flag] = &[
    Flag::new(
        "operation",
        ValueKind::Text,
        "both",
        "write, read, mixed (in turn), or both: first all writes, then all reads",
    )
    .one_of(&["both", "write", "read", "mixed"]),
    settings::size("1MiB", "Bytes per operation"),
    settings::ALL,
    Flag::new("depth", ValueKind::Int64, "4", "Operations in flight per thread")
        .within(1, DEPTH_MAX),
    settings::THREADS,
    settings::DURATION,
    settings::ITERATIONS,
    settings::RATE,
    Flag::new("verify", ValueKind::Bool, "false", "Compare every byte; lowers the bandwidth"),
    Flag::new("timeout", ValueKind::DurationMs, "10s", "Longest time for one operation")
        .within(100, DURATION_MS_MAX),
    Flag::new(
        "progress",
        ValueKind::Bool,
        "false",
        "Name each row on standard error, as on a terminal",
    ),
];

const TRANSPORTS: &[&str] = &["auto", "tcp", "rdma", "shm"];

/// The command as its settings see it.
pub(super) const PROGRAM: Program = Program {
    name: "perigee bench nic",
    version: env!("CARGO_PKG_VERSION"),
    summary: "bandwidth and latency between two machines, or of this one",
    variable_prefix: "PERIGEE_BENCH_NIC_",
    words: &[],
    tables: &[("Ends", WHO), ("Load", LOAD), ("Output", settings::OUTPUT)],
};

/// Examples of the help text.
pub(super) const EXAMPLES: &[&str] = &[
    "perigee bench nic                              # loopback, 1 MiB",
    "perigee bench nic --role target             # on one machine; prints its name",
    "perigee bench nic --role initiator --peer NAME --all   # on the other",
    "perigee bench nic --transport rdma --device mlx5_0,mlx5_1 --unit Gb ...",
    "perigee bench nic --role target --transport tcp --device eth0,eth1",
    "perigee bench nic --format json > run.json     # for perigee bench compare",
];

/// Which end this process is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Loopback,
    Initiator,
    Target,
}

/// The settings of one run.
#[derive(Debug, Clone)]
pub(super) struct NicSettings {
    pub(super) role: Role,
    pub(super) peer: String,
    pub(super) name: String,
    pub(super) metadata: String,
    pub(super) transport: String,
    pub(super) device: String,
    pub(super) buffer_bytes: u64,
    pub(super) load: Load,
    pub(super) timeout: Duration,
    pub(super) progress: bool,
}

impl NicSettings {
    /// Of the values of the flags.
    pub(super) fn of(settings: &Settings) -> Result<Self, BenchError> {
        let read = Self {
            role: match settings.text("role") {
                "initiator" => Role::Initiator,
                "target" => Role::Target,
                _ => Role::Loopback,
            },
            peer: settings.text("peer").to_owned(),
            name: settings.text("name").to_owned(),
            metadata: settings.text("metadata").to_owned(),
            transport: settings.text("transport").to_owned(),
            device: settings.text("device").to_owned(),
            buffer_bytes: settings.integer("buffer"),
            load: load(settings)?,
            timeout: Duration::from_millis(settings.integer("timeout")),
            progress: settings.bool("progress"),
        };
        read.check(settings)?;
        Ok(read)
    }

    /// Which devices are to be used.
    pub(super) fn selection(&self) -> Result<Selection, BenchError> {
        let variable = |name: &str| std::env::var(name).ok();
        Ok(Selection::new(&self.device, None, &variable)?)
    }

    pub(super) fn named_devices(&self) -> Result<Vec<String>, BenchError> {
        if self.device.is_empty() {
            return Ok(Vec::new());
        }
        Ok(self.selection()?.asked())
    }

    /// Refuses a target whose buffer is shorter: the load would leave it.
    pub(super) fn check_target(&self, target_bytes: u64) -> Result<(), BenchError> {
        if self.buffer_bytes <= target_bytes {
            return Ok(());
        }
        let flag = |bytes| format!("--buffer {}", bytes_text(bytes).replace(' ', ""));
        Err(BenchError::conflict(format!(
            "The target has a buffer of {}, this end one of {}; pass {} here, or start the target with {}",
            bytes_text(target_bytes),
            bytes_text(self.buffer_bytes),
            flag(target_bytes),
            flag(self.buffer_bytes),
        )))
    }

    fn check(&self, settings: &Settings) -> Result<(), BenchError> {
        if self.role == Role::Loopback && !self.name.is_empty() {
            return Err(BenchError::conflict(
                "--name is the name of one end, and a loopback run has both; leave it out, or pass --role \
                 target or --role initiator too",
            ));
        }
        if self.role == Role::Target && !self.peer.is_empty() {
            return Err(BenchError::conflict(
                "A target waits for any initiator; leave --peer out, or pass --role initiator",
            ));
        }
        if self.role == Role::Initiator && self.peer.is_empty() {
            return Err(BenchError::conflict(
                "An initiator needs a target: start perigee bench nic --role target on the other \
                 machine and pass the name it prints as --peer",
            ));
        }
        if self.role == Role::Loopback && !self.peer.is_empty() {
            return Err(BenchError::conflict(
                "--peer names a target on another machine; pass --role initiator too",
            ));
        }
        let load = &self.load;
        if settings.integer::<u64>("rate") > 0 && settings.is_given("depth") && load.depth > 1 {
            return Err(BenchError::conflict(
                "With --rate a thread has one operation in flight; leave --depth out and pass more --threads",
            ));
        }
        let largest = load.largest();
        let needed = largest.saturating_mul(load.depth).saturating_mul(load.threads);
        if self.role != Role::Target && needed > self.buffer_bytes {
            return Err(BenchError::conflict(format!(
                "{} x {} in flight x {} threads do not fit a buffer of {}; pass --buffer {} on both \
                 ends",
                bytes_text(largest),
                load.depth,
                load.threads,
                bytes_text(self.buffer_bytes),
                bytes_text(needed).replace(' ', "")
            )));
        }
        Ok(())
    }
}

/// The load; operations that begin on time have none beside them in their thread.
fn load(settings: &Settings) -> Result<Load, BenchError> {
    let words = LoadWords {
        operations: &["write", "read", "mixed"],
        usual: 2,
        depth: "depth",
        sizes: sweep(),
        least_bytes: 1,
    };
    let mut load = Load::of(settings, words)?;
    if !load.span.every.is_zero() && !settings.is_given("depth") {
        load.depth = 1;
    }
    Ok(load)
}

/// Flags of the command line that only an initiator follows.
pub(super) fn without_effect(given: &Settings) -> Vec<&'static str> {
    let is_target = given.text("role") == "target";
    let flags = LOAD.iter().chain(settings::OUTPUT).filter(|_| is_target);
    let names = flags.map(|flag| flag.name);
    names.filter(|name| *given.origin(name) == Origin::CommandLine).collect()
}

fn sweep() -> Vec<u64> {
    let (first, last) = SWEEP_BYTES;
    let next = |bytes: &u64| Some(bytes * 2).filter(|next| *next <= last);
    std::iter::successors(Some(first), next).collect()
}

#[cfg(test)]
mod tests;
