//! The master's deterministic state machine: objects, space, leases, eviction, membership.
//! Invariant: no I/O, no clock, no threads; the same calls with the same times give the same state.
//!
//! Two machines make up a master. The [`Registry`] knows clients and segments and emits
//! [`SegmentEvent`]s; every [`Shard`] applies them in order. A shard owns the keys with
//! `shard_of(key, count) == index` and holds bytes of each segment: an equal part at first, later what it needs, because
//! shards that run out of room are lent free bytes of others ([`Loan`]). All other work concerns one shard alone.
#![forbid(unsafe_code)]

mod ages;
mod columns;
mod counters;
mod draining;
mod errand;
mod ghosts;
mod group;
mod index;
mod key;
pub mod limits;
mod moving;
mod object;
mod parking;
mod pending;
mod placement;
mod random;
mod recency;
mod refusal;
mod registry;
mod replica;
mod segment;
mod settings;
mod shard;
mod share;
mod slab;
mod soft_pins;

pub use columns::{Location, PlacementColumns, ReplicaColumns, ReplicaState};
pub use counters::{SegmentGauges, ShardCounters, ShardGauges, VALUE_BYTES_BUCKETS};
pub use draining::{DrainOrder, DrainReport};
pub use errand::{TaskNews, TaskRequest, TaskWish};
pub use group::GroupLedger;
pub use key::{hash_key, shard_of, shard_of_hash};
pub use placement::{PutConfig, SoftPin, Strategy};
pub use refusal::JobRefusal;
pub use registry::{
    ClientState, DrainJob, DrainRequest, Holdings, JobState, Registry, RegistrySettings,
    SegmentState, SegmentView, Task, TaskKind, TaskSettings, TaskState,
};
pub use segment::{SegmentEvent, SegmentSpec};
pub use settings::ShardSettings;
pub use shard::{
    AdoptedReplica, Effort, EndedMoves, GivenBack, Loan, MoveTask, Need, Pattern, PutStart, Scan,
    Shard, StartedPuts, TaskTurn,
};
