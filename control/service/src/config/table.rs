//! Every setting of the master as data. Invariant: a setting that is not in these tables does not
//! exist; help text, documentation, parsing and validation all read them.

mod availability;
mod disk;
mod events;
mod objects;
mod replication;
mod serving;
mod tenants;

use perigee_flags::{LOG_FLAGS, Program};

/// Most executors that serve calls.
pub const RPC_SHARDS_MAX: i128 = 16;

/// Longest period any setting may name: one year in seconds.
const PERIOD_SECONDS_MAX: i128 = 366 * 24 * 3600;

/// Longest period any setting may name, in milliseconds.
const PERIOD_MS_MAX: i128 = PERIOD_SECONDS_MAX * 1000;

/// Largest port number.
const PORT_MAX: i128 = 65_535;

/// The master as its settings see it.
pub const MASTER: Program = Program {
    name: "perigee master",
    version: env!("CARGO_PKG_VERSION"),
    summary: "metadata, placement, leases and eviction of a KV-cache cluster",
    variable_prefix: "PERIGEE_MASTER_",
    words: &[],
    tables: &[
        ("Serving", serving::FLAGS),
        ("Leases, eviction, allocation", objects::FLAGS),
        ("SSD and file tiers", disk::FLAGS),
        ("Replicas", replication::FLAGS),
        ("KV events", events::FLAGS),
        ("High availability, operation log, snapshots", availability::FLAGS),
        ("Tenants and background tasks", tenants::FLAGS),
        ("Logs", LOG_FLAGS),
    ],
};
