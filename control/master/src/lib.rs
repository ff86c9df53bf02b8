//! The master's deterministic state machine: objects, space, leases, eviction, membership.
//! Invariant: no I/O, no clock, no threads; the same calls with the same times give the same state.
//!
//! Two machines make up a master. The [`Registry`] knows clients and segments and emits
//! [`SegmentEvent`]s; every [`KeyShard`] applies them in order. A shard owns the keys with
//! `shard_of(key, count) == index` and holds bytes of each segment: an equal part at first, later
//! what it needs, because shards that run out of room are lent free bytes of others
//! ([`SpaceLoan`]). All other work concerns one shard alone.
#![forbid(unsafe_code)]

mod absences;
mod changed_keys;
mod columns;
mod continued;
mod counters;
mod demoting;
mod demotion;
mod demotion_task;
mod departures;
mod destination;
mod disk_tier;
mod disk_wish;
mod draining;
mod event_queue;
mod event_records;
mod eviction_order;
mod free_numbers;
mod generations;
mod given_back;
mod group;
mod heat;
mod hit_sketch;
mod index;
mod inspected_key;
mod key;
mod key_event;
mod key_reports;
mod keys;
mod leaving;
pub mod limits;
mod list_name;
mod listed_key;
mod loan;
mod move_task;
mod moving;
mod object;
mod outbox;
mod overtaken;
mod owner_notes;
mod packed;
mod packing;
mod pattern;
mod pending;
mod placement;
mod policy;
mod put_name;
mod quarantine;
mod random;
mod read_view;
mod rebuild;
mod recency;
mod refusal;
mod registry;
mod relocating;
mod relocation;
mod removals;
mod replica;
mod replicas;
mod segment;
mod segment_lists;
mod segment_ranking;
mod settings;
mod shard;
mod shard_quotas;
mod shard_task;
mod share;
mod slab;
mod slab_list;
mod soft_pins;
mod space;
mod stored;
mod strategy;
mod striped;
mod tenant;
mod tombstone;
mod touch;
mod touch_clock;
mod tries;
mod victim;
mod victim_run;
mod victim_search;
mod wishes;
mod wishing;
mod write_budget;
mod write_budgets;

pub use columns::{PlacementColumns, ReplicaColumns, ReplicaLocation, ReplicaState};
pub use counters::{
    HeatCounts, RefusedDemotions, RejectedPromotions, RelocationCounts, SegmentGauges,
    ShardCounters, ShardGauges, VALUE_BYTES_BUCKETS,
};
pub use departures::{Departure, DepartureCause, DiskOutcome};
pub use draining::{DrainOrder, DrainReport};
pub use event_queue::{KeyEventQueue, WaitingEvents};
pub use event_records::EventRecords;
pub use group::GroupLedger;
pub use key::{hash_key, shard_of, shard_of_hash};
pub use key_event::{KeyChange, KeyEvent, Media, Medium};
pub use pattern::Pattern;
pub use perigee_allocator::Extent;
pub use perigee_schemas::SegmentKind;
pub use placement::{PutConfig, SoftPin};
pub use policy::PolicyName;
pub use refusal::JobRefusal;
pub use registry::{
    ClientState, DiskReport, DrainJob, DrainJobRequest, JobState, ListedSegments, Registry,
    RegistrySettings, SegmentState, SegmentView, TaskKind, TaskRecord, TaskSettings, TaskState,
};
pub use segment::{Announces, SegmentEvent, SegmentSpec};
pub use settings::{HeatSettings, OffloadSettings, PromotionSettings, ShardSettings};
pub use shard::{
    AnnouncedCopy, Announcement, DemotionTask, Effort, EndedDemotions, EndedMoves, GivenBack,
    InspectedKey, InspectedObject, InspectedReplica, KeyShard, ListedKey, MoveTask, Need, PutStart,
    RepairTurn, Scan, SpaceLoan, StartedPuts, TaskTurn,
};
pub use shard_task::{TaskAction, TaskRequest, TaskUpdate};
pub use strategy::Strategy;
pub use tenant::{TenantLedger, TenantTotals, TenantUsage};
pub use tombstone::{DamagedPlace, Tombstone};
pub use write_budget::{AdmissionLevel, BudgetState};
