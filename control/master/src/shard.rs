//! One shard of the master: the objects of its keys and the space of each segment that it holds.
//! Invariant: no two live extents overlap, and an extent under a running read lease is never handed
//! out.
//!
//! A shard consists of parts; `KeyShard` names them all. What concerns one part is a method of it;
//! what reads or changes several is a method of a view that borrows those alone, such as
//! `ReadView`, `Demoting` or `VictimSearch`. A part whose records must agree has a `check` of its
//! own, and `KeyShard::check` calls them all and compares parts with each other. Each file below
//! holds one call, or one step of several calls, that spans most parts.

mod announcement;
mod check;
mod copy;
mod demote;
mod disk;
mod disk_health;
mod drain;
mod evict;
mod gather_space;
mod gauges;
mod give_back;
mod inspect;
mod learn;
mod lend;
mod mount;
mod notes;
mod overtaken;
mod pack;
mod parts;
mod place_request;
mod placing;
mod put;
mod put_end;
mod put_start;
mod quota;
mod read;
mod rebuild;
mod relocate;
mod removal;
mod remove;
mod repair;
mod repair_turn;
mod save;
mod scan;
mod scan_position;
mod space;
mod started_puts;
mod task_turn;
mod tasks;
mod tick;
mod unreadable;
mod views;

#[cfg(test)]
mod tests;

pub use crate::demotion_task::{AnnouncedCopy, DemotionTask, EndedDemotions};
pub use crate::given_back::GivenBack;
pub use crate::inspected_key::{InspectedKey, InspectedObject, InspectedReplica};
pub use crate::listed_key::ListedKey;
pub use crate::loan::{Need, SpaceLoan};
pub use crate::move_task::{EndedMoves, MoveTask};
pub use announcement::Announcement;

pub use put_start::{Effort, PutStart};
pub use repair_turn::RepairTurn;
pub use scan_position::Scan;
pub use started_puts::StartedPuts;
pub use task_turn::TaskTurn;

use crate::continued::Continued;
use crate::counters::ShardCounters;
use crate::departures::Departures;
use crate::disk_tier::DiskTier;
use crate::eviction_order::EvictionOrder;
use crate::group::GroupLedger;
use crate::heat::Heat;
use crate::hit_sketch::HitSketch;
use crate::key_reports::KeyReports;
use crate::outbox::Outbox;
use crate::pending::PendingPuts;
use crate::rebuild::Rebuild;
use crate::relocation::Relocation;
use crate::removals::Removals;
use crate::segment_ranking::SegmentRanking;
use crate::settings::ShardSettings;
use crate::shard_quotas::ShardQuotas;
use crate::space::Space;
use crate::stored::StoredObjects;
use crate::wishes::Wishes;

/// The owner of the keys with `shard_of(key, count) == index`.
///
/// All calls take the time as monotonic milliseconds; a time before an earlier call's counts as
/// that call's.
#[derive(Debug)]
pub struct KeyShard {
    settings: ShardSettings,
    stored: StoredObjects,
    space: Space,
    ranking: SegmentRanking,
    pending: PendingPuts,
    relocation: Relocation,
    wishes: Wishes,
    /// How often keys are read; not counted if `None`.
    heat: Option<Box<Heat>>,
    tier: DiskTier,
    hits: HitSketch,
    departures: Departures,
    outbox: Outbox,
    rebuild: Rebuild,
    removals: Removals,
    order: EvictionOrder,
    continued: Continued,
    quotas: ShardQuotas,
    reports: KeyReports,
    counters: ShardCounters,
}

impl KeyShard {
    /// An empty shard without segments.
    pub fn new(settings: ShardSettings) -> Self {
        let groups = GroupLedger::new(settings.count);
        Self::sharing(settings, &groups)
    }

    /// An empty shard without segments whose groups may have members on the other shards with this
    /// ledger.
    pub fn sharing(settings: ShardSettings, groups: &GroupLedger) -> Self {
        Self {
            stored: StoredObjects::new(&settings, groups),
            space: Space::default(),
            ranking: SegmentRanking::new(&settings),
            pending: PendingPuts::new(settings.generation_base),
            relocation: Relocation::default(),
            wishes: Wishes::default(),
            heat: settings.heat.map(|heat| Box::new(Heat::new(heat, settings.count))),
            tier: DiskTier::new(&settings),
            hits: HitSketch::default(),
            departures: Departures::default(),
            outbox: Outbox::new(settings.generation_base),
            rebuild: Rebuild::default(),
            removals: Removals::default(),
            order: EvictionOrder::new(&settings),
            continued: Continued::new(),
            quotas: ShardQuotas::new(&settings),
            reports: KeyReports::default(),
            counters: ShardCounters::default(),
            settings,
        }
    }

    /// What the shard was made with.
    pub fn settings(&self) -> &ShardSettings {
        &self.settings
    }

    /// Counters since the start.
    pub fn counters(&self) -> &ShardCounters {
        &self.counters
    }

    /// Starts a call: time never goes back.
    fn begin(&mut self, now_ms: u64) {
        self.stored.clock.begin_call(now_ms);
        if self.rebuild.advance(self.stored.clock.now_ms()) {
            self.drop_partial();
        }
        self.drop_retired();
    }
}
