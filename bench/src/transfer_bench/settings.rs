//! Mooncake's flags of `transfer_engine_bench`, with its defaults. Invariant: every flag of
//! Mooncake's program is accepted; one without effect says why.

use std::time::Duration;

use perigee_flags::{Flag, LOG_FLAGS, Program, Settings, ValueKind};

use crate::error::BenchError;
use crate::limits::{
    BATCH_MAX, BUFFER_BYTES_MAX, DURATION_MS_MAX, PRECISION_MAX, THREADS_MAX, TRANSFER_TIMEOUT,
};
use crate::load::drive::Span;
use crate::report::{BandwidthUnit, bytes_text};
use perigee_schemas::Direction;

const HOST_MEMORY: &str = "buffers lie in host memory";

const FLAGS: &[Flag] = &[
    Flag::new("mode", ValueKind::Text, "initiator", "initiator reads or writes blocks of a target")
        .one_of(&["initiator", "target"]),
    Flag::new(
        "metadata_server",
        ValueKind::Text,
        "192.168.3.77:2379",
        "P2PHANDSHAKE, http://, redis:// or etcd:// address; HOST:PORT is an etcd",
    ),
    Flag::new("local_server_name", ValueKind::Text, "", "Own name; the host's name if empty"),
    Flag::new("segment_id", ValueKind::Text, "192.168.3.76", "Name of the target"),
    Flag::new("operation", ValueKind::Text, "read", "read or write").one_of(&["read", "write"]),
    Flag::new("protocol", ValueKind::Text, "rdma", "rdma or tcp"),
    Flag::new("device_name", ValueKind::Text, "mlx5_2", "RDMA devices, separated by commas"),
    Flag::new(
        "auto_discovery",
        ValueKind::Bool,
        "false",
        "Take all devices instead of device_name",
    ),
    Flag::new("nic_priority_matrix", ValueKind::Text, "", "File with devices per memory location"),
    Flag::new(
        "buffer_size",
        ValueKind::SizeBytes,
        "1073741824",
        "Bytes of the buffer, on both ends",
    )
    .within(1, BUFFER_BYTES_MAX),
    Flag::new("batch_size", ValueKind::Int32, "128", "Blocks per batch").within(1, BATCH_MAX),
    Flag::new("block_size", ValueKind::SizeBytes, "65536", "Bytes per block")
        .within(1, BUFFER_BYTES_MAX),
    Flag::new("threads", ValueKind::Int32, "12", "Threads that submit batches")
        .within(1, THREADS_MAX),
    Flag::new("duration", ValueKind::Int32, "10", "Seconds").within(1, DURATION_MS_MAX / 1000),
    Flag::new("report_unit", ValueKind::Text, "GB", "GB, GiB, Gb, MB, MiB, Mb, KB, KiB or Kb")
        .one_of(BandwidthUnit::WORDS),
    Flag::new("report_precision", ValueKind::Uint32, "2", "Digits behind the point")
        .within(0, PRECISION_MAX),
    Flag::new("backend", ValueKind::Text, "classic", "Engine")
        .one_of(&["classic", "tent"])
        .ignored("there is one engine"),
    Flag::new("use_vram", ValueKind::Bool, "true", "Buffers in GPU memory").ignored(HOST_MEMORY),
    Flag::new("gpu_id", ValueKind::Int32, "0", "GPU of the buffers").ignored(HOST_MEMORY),
    Flag::new("init_mem", ValueKind::Bool, "true", "Write the buffer before the run")
        .ignored("every page is touched in any case"),
];

/// The program as its settings see it.
pub const PROGRAM: Program = Program {
    name: "transfer_engine_bench",
    version: env!("CARGO_PKG_VERSION"),
    summary: "moves batches of blocks between two transfer engines",
    variable_prefix: "TRANSFER_ENGINE_BENCH_",
    words: &[],
    tables: &[("Bench", FLAGS), ("Log", LOG_FLAGS)],
};

/// Examples of the help text.
pub(super) const EXAMPLES: &[&str] = &[
    "transfer_engine_bench --mode=target --protocol=tcp \\",
    "    --metadata_server=http://10.0.0.1:8080/metadata --local_server_name=10.0.0.1:12345",
    "transfer_engine_bench --mode=initiator --protocol=tcp --segment_id=10.0.0.1:12345 \\",
    "    --metadata_server=http://10.0.0.1:8080/metadata --local_server_name=10.0.0.2:12346",
];

/// Which end this process is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Initiator,
    Target,
}

/// The settings of one run.
#[derive(Debug, Clone)]
pub(super) struct TransferSettings {
    pub(super) mode: Mode,
    pub(super) local_server_name: String,
    pub(super) metadata: String,
    pub(super) segment_id: String,
    pub(super) direction: Direction,
    pub(super) protocol: String,
    pub(super) devices: String,
    pub(super) buffer_bytes: u64,
    pub(super) batch_size: u64,
    pub(super) block_bytes: u64,
    pub(super) threads: u64,
    pub(super) span: Span,
    pub(super) unit: BandwidthUnit,
    pub(super) precision: usize,
    /// Longest time for one batch.
    pub(super) deadline: Duration,
}

impl TransferSettings {
    /// Of the values of the flags.
    pub(super) fn of(settings: &Settings) -> Result<Self, BenchError> {
        let seconds: u64 = settings.integer("duration");
        let read = Self {
            mode: match settings.text("mode") {
                "target" => Mode::Target,
                _ => Mode::Initiator,
            },
            local_server_name: local_name(settings.text("local_server_name")),
            metadata: metadata(settings.text("metadata_server")),
            segment_id: settings.text("segment_id").to_owned(),
            direction: match settings.text("operation") {
                "write" => Direction::Write,
                _ => Direction::Read,
            },
            protocol: settings.text("protocol").to_owned(),
            devices: devices(settings)?,
            buffer_bytes: settings.integer("buffer_size"),
            batch_size: settings.integer("batch_size"),
            block_bytes: settings.integer("block_size"),
            threads: settings.integer("threads"),
            span: Span::of(Duration::from_secs(seconds), 0),
            unit: settings.text("report_unit").parse().unwrap_or_default(),
            precision: settings.integer("report_precision"),
            deadline: TRANSFER_TIMEOUT,
        };
        read.check()?;
        Ok(read)
    }

    /// Bytes of all blocks that are on their way at once.
    fn needed_bytes(&self) -> u64 {
        let batch = self.block_bytes.saturating_mul(self.batch_size);
        batch.saturating_mul(self.threads)
    }

    /// Refuses a target whose buffer is too small for the blocks.
    pub(super) fn check_target(&self, target_bytes: u64) -> Result<(), BenchError> {
        let needed = self.needed_bytes();
        if needed <= target_bytes {
            return Ok(());
        }
        Err(BenchError::conflict(format!(
            "{} blocks of {} for {} threads do not fit the target's buffer of {}; start the target with \
             --buffer_size={needed}, or pass fewer",
            self.batch_size,
            bytes_text(self.block_bytes),
            self.threads,
            bytes_text(target_bytes),
        )))
    }

    fn check(&self) -> Result<(), BenchError> {
        let needed = self.needed_bytes();
        if self.mode == Mode::Initiator && needed > self.buffer_bytes {
            return Err(BenchError::conflict(format!(
                "{} blocks of {} for {} threads do not fit a buffer of {}; pass --buffer_size={needed} \
                 on both ends",
                self.batch_size,
                bytes_text(self.block_bytes),
                self.threads,
                bytes_text(self.buffer_bytes),
            )));
        }
        Ok(())
    }
}

fn local_name(given: &str) -> String {
    if !given.is_empty() {
        return given.to_owned();
    }
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match host.trim() {
        "" => "127.0.0.1".to_owned(),
        host => host.to_owned(),
    }
}

/// As Mooncake's program: an address without a scheme is that of an etcd.
fn metadata(given: &str) -> String {
    if given.contains("://") || given == "P2PHANDSHAKE" {
        given.to_owned()
    } else {
        format!("etcd://{given}")
    }
}

fn devices(settings: &Settings) -> Result<String, BenchError> {
    if settings.text("protocol") != "rdma" || settings.bool("auto_discovery") {
        return Ok(String::new());
    }
    match settings.optional_text("nic_priority_matrix") {
        Some(path) => super::matrix::devices(path),
        None => Ok(settings.text("device_name").to_owned()),
    }
}
