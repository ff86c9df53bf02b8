//! The master's cells and numbers as samples of the catalogue. Invariant: a name used here is in
//! the catalogue; a test checks that none is refused.

use super::build::BuildInfo;
use super::numbers::{MasterNumbers, SegmentNumbers};
use super::{CallTotals, MasterCells};
use crate::exposition::Samples;
use crate::family::MetricSource;
use crate::rpc_kind::RpcKind;
use perigee_schemas::DiskHealth;
use std::fmt::Display;
use std::sync::Arc;

impl Samples {
    /// Samples of a master: cells of its shards and numbers of its state.
    #[must_use]
    pub fn of_master<'a>(
        shards: impl IntoIterator<Item = &'a MasterCells>,
        numbers: &MasterNumbers,
        build: BuildInfo,
    ) -> Self {
        let shards: Vec<&MasterCells> = shards.into_iter().collect();
        let mut samples = Self::new(MetricSource::Master);
        let labels = [build.version, build.commit, build.reactor];
        samples.value("perigee_build_info", &labels, 1);
        add_space(&mut samples, numbers);
        add_disks(&mut samples, numbers);
        add_objects(&mut samples, numbers);
        add_eviction(&mut samples, numbers);
        for kind in RpcKind::ALL {
            add_calls(&mut samples, &shards, *kind);
        }
        for (index, shard) in shards.iter().enumerate() {
            add_shard(&mut samples, &index.to_string(), shard);
        }
        samples
    }

    /// Adds a sample of each mounted segment to the families of segments; their lines are made when
    /// their piece of the text is.
    pub fn add_segments(&mut self, segments: Vec<SegmentNumbers>) {
        self.value("perigee_segments", &[], segments.len());
        let segments: Arc<[SegmentNumbers]> = SegmentNumbers::by_name(segments).into();
        let used = |it: &SegmentNumbers| ratio(it.allocated_bytes, it.capacity_bytes);
        self.of_each(&segments, "segment_allocated_bytes", |it| it.allocated_bytes);
        self.of_each(&segments, "segment_total_capacity_bytes", |it| it.capacity_bytes);
        self.of_each(&segments, "perigee_segment_used_ratio", used);
        self.of_each(&segments, "perigee_segment_largest_free_bytes", |it| it.largest_free_bytes);
    }

    fn of_each<V: Display>(
        &mut self,
        segments: &Arc<[SegmentNumbers]>,
        name: &str,
        value: impl Fn(&SegmentNumbers) -> V + Send + 'static,
    ) {
        let segments = segments.clone();
        let rows = (0..segments.len()).map(move |at| {
            let segment = &segments[at];
            (segment.name.clone(), value(segment))
        });
        self.rows(name, rows);
    }
}

#[expect(clippy::cast_precision_loss, reason = "a shown ratio needs no more than 53 bits")]
fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

#[expect(clippy::cast_precision_loss, reason = "a shown duration needs no more than 53 bits")]
fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

fn add_space(samples: &mut Samples, numbers: &MasterNumbers) {
    samples.value("master_allocated_bytes", &[], numbers.allocated_bytes);
    samples.value("master_total_capacity_bytes", &[], numbers.capacity_bytes);
    samples.value("perigee_parked_bytes", &[], numbers.parked_bytes);
}

fn add_disks(samples: &mut Samples, numbers: &MasterNumbers) {
    for (name, value) in [
        ("master_allocated_file_size_bytes", numbers.disk_bytes),
        ("master_total_file_capacity_bytes", numbers.disk_capacity_bytes),
        ("file_cache_nums_", numbers.disk_copies),
        ("file_cache_hit_nums_", numbers.disk_hits),
        ("file_cache_hit_bytes_total", numbers.disk_hit_bytes),
        ("perigee_demotions_active", numbers.demotions),
        ("master_promotion_in_flight", numbers.promotions),
        ("master_promotion_admitted_total", numbers.promoted[0]),
        ("master_promotion_completed_total", numbers.promoted[1]),
        ("master_promotion_completed_bytes_total", numbers.promoted_bytes),
        ("master_promotion_failed_total", numbers.promoted[2]),
        ("master_promotion_rejected_frequency_total", numbers.promotions_rejected[0]),
        ("master_promotion_rejected_watermark_total", numbers.promotions_rejected[1]),
        ("master_promotion_rejected_cap_total", numbers.promotions_rejected[2]),
        ("perigee_promotions_on_exist_total", numbers.promotions_on_exist),
        ("perigee_demoted_bytes_total", numbers.demoted_bytes),
        ("perigee_unsaved_keys_total", numbers.unsaved_keys),
        ("perigee_write_budget_bytes", numbers.write_budget[0]),
        ("perigee_write_budget_bytes_per_day", numbers.write_budget[1]),
        ("perigee_disk_copies_recycled_total", numbers.recycled_copies),
        ("perigee_disk_copies_unreadable_total", numbers.unreadable_copies),
        ("perigee_disk_tombstones", numbers.tombstones),
    ] {
        samples.value(name, &[], value);
    }
    for (health, disks) in DiskHealth::ALL.iter().zip(numbers.disks) {
        samples.value("perigee_disks", &[health.name()], disks);
    }
    let demotions = "perigee_demotions_total";
    samples.value(demotions, &["written"], numbers.demoted[1]);
    samples.value(demotions, &["failed"], numbers.demoted[2]);
}

fn add_objects(samples: &mut Samples, numbers: &MasterNumbers) {
    for (name, value) in [
        ("master_key_count", numbers.keys),
        ("master_soft_pin_key_count", numbers.soft_pinned_keys),
        ("master_active_clients", numbers.active_clients),
        ("master_put_start_alloc_failures_total", numbers.allocation_failures),
        ("master_put_start_partial_allocations_total", numbers.partial_allocations),
        ("mem_cache_hit_nums_", numbers.memory_hits),
        ("mem_cache_hit_bytes_total", numbers.memory_hit_bytes),
        ("mem_cache_nums_", numbers.memory_replicas),
        ("valid_get_nums_", numbers.valid_gets),
        ("total_get_nums_", numbers.total_gets),
        ("perigee_clients_expired_total", numbers.clients_expired),
        ("perigee_moves_active", numbers.moves),
        ("perigee_moved_bytes_total", numbers.moved_bytes),
        ("perigee_repairs_pending", numbers.repairs),
        ("perigee_hot_replicas", numbers.extra_replicas),
        ("perigee_lease_probe_breaks_total", numbers.probe_leases_broken),
    ] {
        samples.value(name, &[], value);
    }
    for (call, found, asked) in [
        ("exist", numbers.valid_checks, numbers.total_checks),
        ("get", numbers.valid_gets, numbers.total_gets),
    ] {
        let lookups = "perigee_lookups_total";
        samples.value(lookups, &[call, "hit"], found);
        samples.value(lookups, &[call, "miss"], asked.saturating_sub(found));
    }
    let moves = "perigee_moves_total";
    samples.value(moves, &["moved"], numbers.moved_replicas);
    samples.value(moves, &["failed"], numbers.failed_moves);
    let repairs = "perigee_repairs_total";
    samples.value(repairs, &["repaired"], numbers.repaired[1]);
    samples.value(repairs, &["failed"], numbers.repaired[2]);
    samples.value(repairs, &["dropped"], numbers.repairs_dropped);
    for (admitted, keys) in ["heads_too", "hits", "nothing"].iter().zip(numbers.demotions_refused) {
        samples.value("perigee_demotions_refused_total", &[admitted], keys);
    }
    for (decision, keys) in
        ["replicate", "enough", "paused", "no_room"].iter().zip(numbers.hot_keys)
    {
        samples.value("perigee_hot_keys_total", &[decision], keys);
    }
    let heated = "perigee_hot_replicas_total";
    samples.value(heated, &["made"], numbers.heated[1]);
    samples.value(heated, &["failed"], numbers.heated[2]);
    samples.value(heated, &["evicted"], numbers.extras_evicted);
    let steps = [
        ("master_copy_start_requests_total", numbers.copies[0]),
        ("master_copy_end_requests_total", numbers.copies[1]),
        ("master_copy_revoke_requests_total", numbers.copies[2]),
        ("master_move_start_requests_total", numbers.replacements[0]),
        ("master_move_end_requests_total", numbers.replacements[1]),
        ("master_move_revoke_requests_total", numbers.replacements[2]),
    ];
    for (name, value) in steps {
        samples.value(name, &[], value);
    }
    samples.histogram("master_value_size_bytes", &[], &numbers.value_sizes);
    samples.value("perigee_lease_grants_total", &["read"], numbers.read_leases);
    samples.value("perigee_lease_grants_total", &["probe"], numbers.probe_leases);
}

fn add_eviction(samples: &mut Samples, numbers: &MasterNumbers) {
    // All evictions are from memory.
    for (all, of_memory, value) in [
        (
            "master_successful_evictions_total",
            "master_successful_evictions_mem",
            numbers.evictions_successful,
        ),
        (
            "master_attempted_evictions_total",
            "master_attempted_evictions_mem",
            numbers.evictions_attempted,
        ),
        ("master_evicted_key_count", "master_evicted_key_count_mem", numbers.evicted_keys),
        ("master_evicted_size_bytes", "master_evicted_size_bytes_mem", numbers.evicted_bytes),
    ] {
        samples.value(all, &[], value);
        samples.value(of_memory, &[], value);
    }
    for (name, value) in [
        ("master_put_start_discard_cnt", numbers.discarded_writes),
        ("master_put_start_release_cnt", numbers.released_writes),
        ("master_put_start_discarded_staging_size", numbers.staging_bytes),
    ] {
        samples.value(name, &[], value);
    }
    let evicted = "perigee_evicted_objects_total";
    samples.value(evicted, &["watermark"], numbers.evicted_for_watermark);
    samples.value(evicted, &["write"], numbers.evicted_for_write);
}

fn add_calls(samples: &mut Samples, shards: &[&MasterCells], kind: RpcKind) {
    let totals = MasterCells::call_totals(shards.iter().copied(), kind);
    let durations = MasterCells::duration_totals(shards.iter().copied(), kind);
    let label = [kind.label()];
    samples.value("perigee_rpc_requests_total", &label, totals.requests);
    samples.value("perigee_rpc_failures_total", &label, totals.failures);
    samples.value("perigee_rpc_items_total", &label, totals.items);
    samples.value("perigee_rpc_failed_items_total", &label, totals.failed_items);
    // Most clusters make a quarter of all kinds of calls, and a histogram has a hundred lines.
    if totals.requests > 0 {
        samples.histogram("perigee_rpc_duration_seconds", &label, &durations);
    }
    let Some(family) = kind.family() else { return };
    let totals = match kind {
        // Mooncake counts each key of a batch as a removal, and has no family for the batch.
        RpcKind::Remove => {
            let batches = MasterCells::call_totals(shards.iter().copied(), RpcKind::BatchRemove);
            CallTotals {
                requests: totals.requests + batches.items,
                failures: totals.failures + batches.failed_items,
                ..totals
            }
        }
        _ => totals,
    };
    let mut add = |part: &str, value: u64| {
        samples.value(&format!("master_{family}_{part}_total"), &[], value);
    };
    add("requests", totals.requests);
    add("failures", totals.failures);
    if kind.is_batch() {
        add("partial_successes", totals.partial_successes);
        add("items", totals.items);
        add("failed_items", totals.failed_items);
    }
}

fn add_shard(samples: &mut Samples, index: &str, shard: &MasterCells) {
    let label = [index];
    let opened = shard.connections_opened.get();
    let open = opened.saturating_sub(shard.connections_closed.get());
    samples.value("perigee_connections", &label, open);
    samples.value("perigee_connections_total", &label, opened);
    let refused = shard.connections_refused.get();
    samples.value("perigee_connections_refused_total", &label, refused);
    samples.value("perigee_protocol_errors_total", &label, shard.protocol_errors.get());
    samples.value("perigee_adopted_objects_total", &label, shard.adopted_objects.get());
    samples.value("perigee_awaited_segments", &label, shard.awaited_segments.get());
    samples.value("perigee_rebuild_seconds", &label, seconds(shard.rebuild_ns.get()));
    samples.value("perigee_followers_cut_total", &label, shard.followers_cut.get());
    samples.value("perigee_log_lines_left_out_total", &label, shard.log_lines_left_out.get());
    samples.value("perigee_rpc_received_bytes_total", &label, shard.received_bytes.get());
    samples.value("perigee_rpc_sent_bytes_total", &label, shard.sent_bytes.get());
    samples.value("perigee_shard_busy_seconds_total", &label, seconds(shard.busy_ns.get()));
    samples.value("perigee_shard_poll_seconds_total", &label, seconds(shard.poll_ns.get()));
}
