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
mod give_back;
mod inspect;
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
use crate::counters::{SegmentGauges, ShardCounters, ShardGauges};
use crate::demoting::Demoting;
use crate::departures::Departures;
use crate::disk_tier::DiskTier;
use crate::eviction_order::EvictionOrder;
use crate::group::GroupLedger;
use crate::heat::Heat;
use crate::hit_sketch::HitSketch;
use crate::key_reports::KeyReports;
use crate::outbox::Outbox;
use crate::owner_notes::OwnerNotes;
use crate::pending::PendingPuts;
use crate::read_view::ReadView;
use crate::rebuild::Rebuild;
use crate::relocating::Relocating;
use crate::relocation::Relocation;
use crate::removals::Removals;
use crate::segment_ranking::SegmentRanking;
use crate::settings::ShardSettings;
use crate::shard_quotas::ShardQuotas;
use crate::space::Space;
use crate::stored::StoredObjects;
use crate::victim_search::VictimSearch;
use crate::wishes::Wishes;
use crate::wishing::Wishing;

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

    /// Most keys there were since this was asked last.
    pub fn take_peak_keys(&mut self) -> u64 {
        self.stored.keys.take_peak() as u64
    }

    /// The state in numbers.
    pub fn gauges(&self) -> ShardGauges {
        let mut gauges = ShardGauges {
            keys: self.stored.keys.len() as u64,
            soft_pinned_keys: self.stored.soft_pins.len() as u64,
            pending_puts: self.pending.len() as u64,
            moves: self.relocation.moves().len() as u64,
            demotions: self.tier.demotions.len() as u64,
            demoting_bytes: self.tier.demotions.bytes(),
            ailing_disks: self.space.ailing_disks(),
            repairs: self.wishes.len() as u64,
            repairs_put_off: self.wishes.count_put_off() as u64,
            extra_replicas: self.stored.extras,
            promotions: self.relocation.moves().promotions().into(),
            tombstones: self.tier.tombstones.len() as u64,
            parked_bytes: self.space.quarantine().bytes(),
            staging_bytes: self.space.quarantine().staging_bytes(),
            ..ShardGauges::default()
        };
        for segment in self.segment_gauges() {
            gauges.allocated_bytes += segment.allocated_bytes;
            gauges.capacity_bytes += segment.capacity_bytes;
        }
        for disk in self.space.disks() {
            gauges.disk_copies += self.stored.replicas_in(*disk) as u64;
            gauges.disk_bytes += self.space.get(*disk).map_or(0, |share| share.copied_bytes);
            if let Some(budget) = self.write_budget(self.space.disk_id(*disk)) {
                gauges.budget_left_bytes += budget.left_bytes;
                gauges.budget_bytes_per_day += budget.bytes_per_day;
            }
        }
        gauges
    }

    /// Names of the segments in memory that take no objects whatever is free there: they are
    /// drained, being drained or unmounted, or their owners are not verified.
    pub fn closed_segments(&self) -> impl Iterator<Item = &str> {
        let is_closed =
            |share: &&crate::share::SegmentShare| share.is_memory() && share.is_closed();
        let shares = self.space.iter().map(|(_, share)| share);
        shares.filter(is_closed).map(|share| share.spec.name.as_str())
    }

    /// The state of each readable segment in numbers, in order of segment numbers.
    pub fn segment_gauges(&self) -> impl Iterator<Item = SegmentGauges> + '_ {
        (0..self.space.bound()).filter_map(|segment| self.segment_gauge(segment))
    }

    /// The state of one segment in numbers, if it is readable.
    pub fn segment_gauge(&self, segment: u32) -> Option<SegmentGauges> {
        self.space.gauges_of(segment, self.stored.replicas.count_in(segment))
    }

    /// This shard's copies on a mounted disk in numbers. Its room is not shared between shards.
    pub fn disk_gauge(&self, disk: u32) -> Option<SegmentGauges> {
        let share = self.space.readable(disk).filter(|share| share.is_disk())?;
        Some(SegmentGauges {
            segment: disk,
            capacity_bytes: 0,
            allocated_bytes: share.copied_bytes,
            largest_free_bytes: 0,
            replicas: self.stored.replicas_in(disk) as u64,
        })
    }

    /// What can be read now.
    fn view(&self) -> ReadView<'_> {
        ReadView { stored: &self.stored, space: &self.space }
    }

    /// The tier of disks, with what its steps change.
    fn demoting(&mut self) -> Demoting<'_> {
        Demoting {
            tier: &mut self.tier,
            stored: &mut self.stored,
            space: &mut self.space,
            outbox: &mut self.outbox,
            counters: &mut self.counters,
        }
    }

    /// The search for what is evicted next.
    fn victims(&mut self) -> VictimSearch<'_> {
        VictimSearch {
            order: &mut self.order,
            quotas: &self.quotas,
            relocation: &self.relocation,
            tier: &mut self.tier,
            stored: &mut self.stored,
            space: &mut self.space,
            outbox: &mut self.outbox,
            counters: &mut self.counters,
        }
    }

    /// The moves under way.
    fn relocating(&mut self) -> Relocating<'_> {
        Relocating {
            settings: &self.settings,
            quotas: &self.quotas,
            relocation: &mut self.relocation,
            stored: &mut self.stored,
            space: &mut self.space,
            hits: &mut self.hits,
            counters: &mut self.counters,
        }
    }

    /// The wishes for more replicas.
    fn wishing(&mut self) -> Wishing<'_> {
        Wishing {
            settings: &self.settings,
            wishes: &mut self.wishes,
            heat: &mut self.heat,
            rebuild: &mut self.rebuild,
            relocation: &self.relocation,
            pending: &self.pending,
            stored: &self.stored,
            space: &self.space,
            counters: &mut self.counters,
        }
    }

    /// What owners are told.
    fn owner_notes(&mut self) -> OwnerNotes<'_> {
        OwnerNotes {
            settings: &self.settings,
            outbox: &mut self.outbox,
            wishes: &self.wishes,
            rebuild: &self.rebuild,
            removals: &mut self.removals,
            tier: &self.tier,
            stored: &mut self.stored,
            space: &self.space,
        }
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
