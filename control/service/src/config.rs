//! The master's typed configuration, read from flags, environment and file.
//!
//! Invariant: every value here has passed its range check, so the rest of the daemon never
//! validates settings again. Unlike Mooncake, a flag equal to its default still beats the file, and
//! `MOONCAKE_CONFIG_PATH` is not read: it names a client's file, whose keys mean nothing here.

mod build;
mod events;
mod interface;
mod quotas;
mod shared;
pub mod table;

use perigee_events::EventSettings;
use perigee_flags::{FlagError, LogSettings, ProcessEnvironment, ProgramStart};
use perigee_master::{HeatSettings, OffloadSettings, PolicyName, PromotionSettings};
use std::path::PathBuf;

pub use shared::SharedDirectory;

/// Everything the master needs to know to start.
#[derive(Debug, Clone, PartialEq)]
pub struct MasterConfig {
    /// Calls of clients and nodes.
    pub rpc: RpcConfig,
    /// HTTP routes: metrics, health, keys, segments.
    pub http: Listen,
    /// The metadata service inside the master, when switched on.
    pub metadata: Option<Listen>,
    /// What happens to metadata records of a client that expired.
    pub metadata_cleanup: MetadataCleanup,
    /// Extra path part of metadata record names; empty for none.
    pub metadata_cluster: String,
    /// Print the periodic summary line.
    pub report_metrics: bool,
    /// Leases and pins.
    pub leases: LeaseConfig,
    /// Eviction of objects in memory.
    pub eviction: EvictionConfig,
    /// What goes to the SSDs of owners and when; nothing if `None`.
    pub offload: Option<OffloadSettings>,
    /// Where clients have disks beside their own, if there is such a place.
    pub shared: Option<SharedDirectory>,
    /// Whether objects come back from there to memory.
    pub promotion: Option<PromotionSettings>,
    /// Whether objects that lost a replica with its node get another one.
    pub repairs: bool,
    /// Whether keys that are read often get more replicas, or are only counted.
    pub heat: Option<HeatSettings>,
    /// Unfinished writes.
    pub writes: WriteConfig,
    /// Copies and moves of single objects.
    pub tasks: TaskConfig,
    /// Time without a ping after which a client is expired, in milliseconds.
    pub client_ttl_ms: u64,
    /// How segments are chosen for replicas.
    pub allocation: AllocationStrategy,
    /// Where the quotas of tenants are; tenants are mere name spaces if `None`.
    pub quota_file: Option<PathBuf>,
    /// What is published of keys; nothing if `None`.
    pub events: Option<EventSettings>,
    /// Log switches.
    pub log: LogSettings,
    /// `name=value` of every setting that differs from its default.
    pub changed: Vec<String>,
    /// What the operator should know about these settings; log each once.
    pub warnings: Vec<String>,
}

/// A host and port to listen on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listen {
    /// Address or host name.
    pub host: String,
    /// Port; 0 lets the system choose.
    pub port: u16,
}

/// The RPC service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RpcConfig {
    /// Where to listen.
    pub listen: Listen,
    /// Executors that serve calls, 1 to 16.
    pub shards: usize,
    /// Idle time after which a connection is closed, in milliseconds; `None` for never.
    pub idle_timeout_ms: Option<u64>,
    /// Segments take objects only after their owner has answered at their endpoint.
    pub verify_segments: bool,
}

/// Leases and pins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseConfig {
    /// Read lease in milliseconds.
    pub read_ttl_ms: u64,
    /// Soft pin when the request names none, in milliseconds.
    pub soft_pin_ttl_ms: u64,
    /// Longest soft pin a request may ask for, in milliseconds.
    pub soft_pin_ttl_ms_max: u64,
}

/// Eviction of objects in memory.
#[derive(Debug, Clone, PartialEq)]
pub struct EvictionConfig {
    /// Share of capacity freed by one round, 0 to 1.
    pub ratio: f64,
    /// Share of capacity in use above which eviction runs, 0 to 1.
    pub high_watermark_ratio: f64,
    /// Soft-pinned objects may go when nothing else is left.
    pub allow_soft_pinned: bool,
    /// Order of eviction.
    pub policy: PolicyName,
}

/// Unfinished writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteConfig {
    /// Age at which another writer may take over the key, in milliseconds.
    pub discard_timeout_ms: u64,
    /// Time the space of a discarded write stays parked, in milliseconds.
    pub release_timeout_ms: u64,
}

/// Copies and moves of single objects that clients ask for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskConfig {
    /// Tasks that no client has taken.
    pub pending_max: usize,
    /// Tasks that clients carry out.
    pub processing_max: usize,
    /// Tasks that have ended and can still be asked about.
    pub finished_max: usize,
    /// Longest a task may wait, in milliseconds; `None` forever.
    pub pending_timeout_ms: Option<u64>,
    /// Longest a task may run, in milliseconds; `None` forever.
    pub processing_timeout_ms: Option<u64>,
    /// Times that a failed copy is tried again.
    pub retries_max: u32,
}

/// How segments are chosen for replicas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AllocationStrategy {
    /// Any segment with room.
    Random,
    /// The segments with the highest share of free space.
    FreeRatioFirst,
    /// Segments on the writer's host first.
    LocalFirst,
}

/// What happens to the metadata records of an expired client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MetadataCleanup {
    /// They stay.
    Off,
    /// They are deleted from the service inside this process.
    Embedded,
    /// They are deleted over HTTP from the service at this URL (ends in `/metadata`).
    Remote(String),
}

/// Action of a start: serve, or print help or version.
#[derive(Debug)]
pub enum MasterStart {
    /// Serve with this configuration.
    Serve(Box<MasterConfig>),
    /// Print this text on standard output and exit with 0.
    Print(String),
}

impl MasterConfig {
    /// Reads the configuration of a start; `arguments` is without the program name.
    ///
    /// # Errors
    /// Any setting that is unknown, unreadable, out of range, or contradicts another one.
    pub fn load(
        arguments: &[String],
        environment: &ProcessEnvironment,
    ) -> Result<MasterStart, FlagError> {
        match table::MASTER.load(arguments, environment)? {
            ProgramStart::Print(text) => Ok(MasterStart::Print(text)),
            ProgramStart::Run(settings) => {
                build::master_config(&settings).map(|config| MasterStart::Serve(Box::new(config)))
            }
        }
    }
}

impl Listen {
    /// The socket address to bind.
    ///
    /// # Errors
    /// The host name does not resolve.
    pub fn socket_addr(&self) -> Result<std::net::SocketAddr, FlagError> {
        interface::resolve(&self.host, self.port)
    }
}

#[cfg(test)]
mod tests;
