//! The master as its HTTP routes see it: questions are put to the shards from the HTTP threads.

use crate::cluster::{Cluster, ControlShard, Cursor, SegmentNames, SegmentUsage};
use crate::key_report::key_report;
use perigee_admin::key_report::KeyReport;
use perigee_admin::master_view::{
    AdminRefusal, DrainInfo, DrainRequest, KeyCursor, KeyEventCounts, KeyPlaces, ObjectPage,
};
use perigee_admin::{ControlPlane, ReplicaPlace, SegmentInfo, SegmentText};
use perigee_master::{
    DrainJob, HeatCounts, Pattern, RefusedDemotions, RejectedPromotions, RelocationCounts,
    ReplicaColumns, Scan, SegmentKind, SegmentSpec, TenantUsage, shard_of,
};
use perigee_metrics::{HistogramTotals, MasterCells, MasterNumbers, TenantNumbers};
use perigee_schemas::{Status, TenantId};
use std::sync::Arc;

impl ControlPlane for Cluster {
    fn readiness(&self) -> Result<(), String> {
        match self.stalled() {
            None => Ok(()),
            Some((shard, silent)) => Err(format!("shard {shard} has not answered for {silent:?}")),
        }
    }

    fn locate(&self, keys: &[String]) -> Result<Vec<KeyPlaces>, Status> {
        let mut places: Vec<KeyPlaces> = vec![Err(Status::InternalError); keys.len()];
        for index in 0..self.count() {
            let owned = keys
                .iter()
                .enumerate()
                .filter(|(_, key)| shard_of(key.as_bytes(), self.count()) == index);
            let (positions, share): (Vec<usize>, Vec<String>) =
                owned.map(|(position, key)| (position, key.clone())).unzip();
            if share.is_empty() {
                continue;
            }
            let found =
                self.ask(index, move |shard| peek(shard, &share)).ok_or(Status::RpcTimeout)?;
            for (position, key) in positions.into_iter().zip(found) {
                places[position] = key;
            }
        }
        Ok(places)
    }

    fn inspect(&self, key: &str) -> Result<KeyReport, Status> {
        let (number, key) = (shard_of(key.as_bytes(), self.count()), key.to_owned());
        self.ask(number, move |shard| key_report(shard, number, &key)).ok_or(Status::RpcTimeout)
    }

    fn list_objects(
        &self,
        tenant: Option<&TenantId>,
        regex: Option<&str>,
        from: Option<KeyCursor>,
        limit: usize,
    ) -> Result<ObjectPage, Status> {
        let pattern = match (regex, tenant) {
            (None, tenant) => all_of(tenant),
            (Some(regex), None) => Pattern::compile(regex)?,
            (Some(regex), Some(tenant)) => Pattern::compile(regex)?.of(tenant.clone()),
        };
        let from = from.map(Cursor::from_numbers);
        let page = self
            .run_first(move |first| async move { first.list_page(&pattern, limit, from).await });
        let page = page.ok_or(Status::RpcTimeout)??;
        Ok(ObjectPage { objects: page.objects, next: page.next.map(Cursor::numbers) })
    }

    fn segments(&self, name: Option<&str>) -> Result<Vec<SegmentInfo>, Status> {
        let names: SegmentNames = Arc::new(name.into_iter().map(str::to_owned).collect());
        let (mut segments, mut from) = (Vec::new(), Some(0));
        while let Some(number) = from {
            let names = names.clone();
            let page = self.run_first(move |first| async move {
                first.segment_page(&names, number, SegmentKind::Memory).await
            });
            let page = page.ok_or(Status::RpcTimeout)??;
            segments.extend(page.segments.into_iter().map(segment_info));
            from = page.next.filter(|next| *next > number);
        }
        Ok(segments)
    }

    fn key_events(&self) -> Option<KeyEventCounts> {
        let counts = self.events()?.counts();
        Some(KeyEventCounts {
            published_batches: counts.published_batches,
            published_events: counts.published_events,
            dropped_events: counts.dropped_events,
            skipped_unparsed_keys: counts.skipped_unparsed_keys,
            next_sequence: counts.next_sequence,
            subscribers: counts.subscribers,
        })
    }

    fn remove_all(&self, tenant: Option<&TenantId>, force: bool) -> Result<u64, Status> {
        let (mut removed, pattern) = (0, all_of(tenant));
        let step = move |shard: &ControlShard, scan: &mut Scan| {
            let mut keys = shard.keys.borrow_mut();
            keys.remove_step(shard.now_ms(), scan, &pattern, force)
        };
        self.walk(step, |count| {
            removed += count;
            true
        })?;
        self.run_first(|first| async move { first.wait_until_void().await });
        Ok(removed)
    }

    fn create_drain(&self, request: DrainRequest) -> Result<u128, AdminRefusal> {
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(|_| AdminRefusal::from(Status::InternalError))?;
        let id = u128::from_ne_bytes(random);
        let request = perigee_master::DrainJobRequest {
            segments: request.segments,
            target_segments: request.target_segments,
            max_concurrency: request.max_concurrency,
        };
        let created = self
            .run_first(move |first| async move { first.create_drain(id, request).await })
            .ok_or(AdminRefusal::from(Status::RpcTimeout))?;
        let refusal = |refused: perigee_master::JobRefusal| AdminRefusal {
            status: refused.status,
            reason: refused.reason,
        };
        created.map(|()| id).map_err(refusal)
    }

    fn drain_job(&self, id: u128) -> Result<DrainInfo, Status> {
        let find = move |first: &ControlShard| {
            let registry = first.registry.as_ref()?.borrow();
            registry.drain_job(id).map(drain_info)
        };
        let found = self.ask_first(find).ok_or(Status::RpcTimeout)?;
        found.ok_or(Status::JobNotFound)
    }

    fn cancel_drain(&self, id: u128) -> Result<(), Status> {
        self.run_first(move |first| async move { first.cancel_drain(id).await })
            .ok_or(Status::RpcTimeout)?
    }

    fn tenants(&self, tenant: Option<&TenantId>) -> Option<Vec<TenantNumbers>> {
        let ledger = self.quotas()?.ledger();
        let usages = match tenant {
            Some(tenant) => ledger.usage(tenant.name()).into_iter().collect(),
            None => ledger.usages(),
        };
        Some(usages.into_iter().map(tenant_numbers).collect())
    }

    fn set_quota(&self, tenant: &TenantId, bytes: u64) -> Result<TenantNumbers, AdminRefusal> {
        let quotas = self.quotas().ok_or(Status::UnavailableInCurrentMode)?;
        quotas.set(tenant, bytes).map(tenant_numbers)
    }

    fn remove_quota(&self, tenant: &TenantId) -> Result<(), AdminRefusal> {
        self.quotas().ok_or(Status::UnavailableInCurrentMode)?.remove(tenant)
    }

    fn numbers(&self) -> Result<MasterNumbers, Status> {
        let mut whole = MasterNumbers::default();
        for part in self.ask_all(numbers) {
            whole.merge(part.ok_or(Status::RpcTimeout)?);
        }
        if let Some(quotas) = self.quotas() {
            let totals = quotas.ledger().totals();
            whole.quota_capacity_bytes = totals.capacity_bytes;
            whole.strangers = totals.strangers;
        }
        Ok(whole)
    }

    fn cells(&self) -> Vec<Arc<MasterCells>> {
        self.shared_cells()
    }
}

impl Cluster {
    /// Walks over the keys of one shard after the other in bounded steps. `take` gets the result of
    /// each step and ends the walk by returning false.
    fn walk<R: Send + 'static>(
        &self,
        step: impl Fn(&ControlShard, &mut Scan) -> R + Clone + Send + 'static,
        mut take: impl FnMut(R) -> bool,
    ) -> Result<(), Status> {
        for index in 0..self.count() {
            let mut ahead: Option<Scan> = None;
            while ahead.is_none_or(|scan| !scan.has_ended()) {
                let step = step.clone();
                let turn = move |shard: &ControlShard| {
                    let mut scan = ahead.unwrap_or_else(|| shard.keys.borrow().scan());
                    let result = step(shard, &mut scan);
                    (scan, result)
                };
                let (scan, result) = self.ask(index, turn).ok_or(Status::RpcTimeout)?;
                if !take(result) {
                    return Ok(());
                }
                ahead = Some(scan);
            }
        }
        Ok(())
    }
}

/// All keys of a tenant, or of all.
fn all_of(tenant: Option<&TenantId>) -> Pattern {
    match tenant {
        Some(tenant) => Pattern::any().of(tenant.clone()),
        None => Pattern::any(),
    }
}

/// The texts of a mounted segment.
struct SpecText(Arc<SegmentSpec>);

impl SegmentText for SpecText {
    fn name(&self) -> &str {
        &self.0.name
    }

    fn endpoint(&self) -> &str {
        &self.0.endpoint
    }

    fn protocol(&self) -> &str {
        &self.0.protocol
    }
}

fn segment_info(used: SegmentUsage) -> SegmentInfo {
    SegmentInfo {
        id: used.spec.id,
        client: used.spec.client,
        base_address: used.spec.base,
        capacity_bytes: used.spec.bytes,
        used_bytes: used.allocated_bytes,
        usable_bytes: used.usable_bytes,
        largest_free_bytes: used.largest_free_bytes,
        state: used.state,
        text: Arc::new(SpecText(used.spec)),
    }
}

/// What objects of a job that goes on wait for.
const NO_ROOM: &str =
    "objects wait for room: no other segment takes objects or has enough free; start another node";

fn drain_info(job: &DrainJob) -> DrainInfo {
    let waits_for_room = !job.state.is_ended() && job.report.waits_for_room;
    DrainInfo {
        state: job.state as u8,
        state_name: job.state.name(),
        created_ms: job.created_ms,
        updated_ms: job.updated_ms,
        segments: job.segments.clone(),
        succeeded_units: job.report.succeeded,
        failed_units: job.report.failed,
        blocked_units: job.report.blocked,
        active_units: u64::from(job.report.active),
        migrated_bytes: job.report.migrated_bytes,
        message: if waits_for_room { NO_ROOM.to_owned() } else { job.message.clone() },
    }
}

fn peek(shard: &ControlShard, keys: &[String]) -> Vec<KeyPlaces> {
    let mut columns = ReplicaColumns::default();
    let raw: Vec<&[u8]> = keys.iter().map(String::as_bytes).collect();
    let state = shard.keys.borrow();
    state.peek(&raw, &mut columns);
    let mut next = 0;
    let one = |(status, count): (&i32, &u8)| {
        let range = next..next + usize::from(*count);
        next = range.end;
        Status::from_peer(*status).ok()?;
        let describe = |location: &perigee_master::ReplicaLocation| {
            let spec: &SegmentSpec = state.segment(location.segment)?;
            Some(place(spec, location))
        };
        Ok(columns.locations[range].iter().filter_map(describe).collect())
    };
    columns.status.iter().zip(&columns.location_count).map(one).collect()
}

fn place(spec: &SegmentSpec, location: &perigee_master::ReplicaLocation) -> ReplicaPlace {
    match spec.kind {
        SegmentKind::Memory => ReplicaPlace::Memory {
            payload_bytes: location.payload_bytes,
            buffer_address: spec.base + location.offset,
            protocol: spec.protocol.clone(),
            endpoint: spec.name.clone(),
        },
        SegmentKind::Disk => ReplicaPlace::Disk {
            payload_bytes: location.payload_bytes,
            client: spec.client,
            endpoint: spec.endpoint.clone(),
        },
    }
}

fn numbers(shard: &ControlShard) -> MasterNumbers {
    let keys = shard.keys.borrow();
    let (gauges, counters) = (keys.gauges(), keys.counters());
    let registry = shard.registry.as_ref().map(|registry| registry.borrow());
    let clients = registry.as_ref().map_or(0, |registry| registry.client_count());
    let disk_capacity_bytes = registry.as_ref().map_or(0, |it| it.disk_capacity_bytes());
    MasterNumbers {
        allocated_bytes: gauges.allocated_bytes,
        capacity_bytes: gauges.capacity_bytes,
        keys: gauges.keys,
        soft_pinned_keys: gauges.soft_pinned_keys,
        memory_replicas: keys.segment_gauges().map(|gauges| gauges.replicas).sum(),
        active_clients: clients as u64,
        parked_bytes: gauges.parked_bytes,
        staging_bytes: gauges.staging_bytes,
        value_sizes: HistogramTotals::of(
            counters.value_bytes_buckets.to_vec(),
            counters.value_bytes_sum,
        ),
        allocation_failures: counters.alloc_failures,
        partial_allocations: counters.partial_allocations,
        memory_hits: counters.cache_hits,
        memory_hit_bytes: counters.cache_hit_bytes,
        total_checks: counters.total_checks,
        valid_checks: counters.valid_checks,
        valid_gets: counters.valid_gets,
        total_gets: counters.total_gets,
        evictions_attempted: counters.evictions_attempted,
        evictions_successful: counters.evictions_successful,
        evicted_keys: counters.evicted_keys,
        evicted_bytes: counters.evicted_bytes,
        discarded_writes: counters.discarded_puts,
        released_writes: counters.discard_released,
        moves: gauges.moves,
        moved_replicas: counters.moved_replicas,
        moved_bytes: counters.moved_bytes,
        failed_moves: counters.failed_moves,
        copies: steps(counters.copies),
        replacements: steps(counters.moves),
        repairs: gauges.repairs,
        repaired: steps(counters.repairs),
        repairs_dropped: counters.repairs_dropped,
        extra_replicas: gauges.extra_replicas,
        heated: steps(counters.heated),
        extras_evicted: counters.heat.evicted,
        hot_keys: hot_keys(counters.heat),
        clients_expired: shard.expired.get(),
        disk_bytes: gauges.disk_bytes,
        disk_capacity_bytes,
        disks: registry.map(|registry| registry.disks_by_health()).unwrap_or_default(),
        disk_copies: gauges.disk_copies,
        disk_hits: counters.disk_hits,
        disk_hit_bytes: counters.disk_hit_bytes,
        demotions: gauges.demotions,
        promotions: gauges.promotions,
        promoted: steps(counters.promotions),
        promotions_on_exist: counters.promotions_on_exist,
        promoted_bytes: counters.promoted_bytes,
        promotions_rejected: rejected(counters.promotions_rejected),
        demoted: steps(counters.demotions),
        demoted_bytes: counters.demoted_bytes,
        unsaved_keys: counters.unsaved_keys,
        demotions_refused: refused(counters.demotions_refused),
        write_budget: [gauges.budget_left_bytes, gauges.budget_bytes_per_day],
        recycled_copies: counters.recycled_copies,
        unreadable_copies: counters.unreadable_copies,
        tombstones: gauges.tombstones,
        ..MasterNumbers::default()
    }
}

/// Keys without a copy by what was admitted at the time.
fn refused(counts: RefusedDemotions) -> [u64; 3] {
    let RefusedDemotions { heads_too, hits, nothing } = counts;
    [heads_too, hits, nothing]
}

/// Reads of objects on disks that led to no copy, by reason.
fn rejected(counts: RejectedPromotions) -> [u64; 3] {
    let RejectedPromotions { frequency, watermark, cap } = counts;
    [frequency, watermark, cap]
}

/// Hot keys by what is done.
fn hot_keys(counts: HeatCounts) -> [u64; 4] {
    let HeatCounts { wanted, enough, paused, no_room, .. } = counts;
    [wanted, enough, paused, no_room]
}

fn tenant_numbers(usage: TenantUsage) -> TenantNumbers {
    TenantNumbers {
        name: usage.name,
        requested_bytes: usage.requested_bytes,
        effective_bytes: usage.effective_bytes,
        guaranteed_bytes: usage.guaranteed_bytes,
        charged_bytes: usage.charged_bytes,
        objects: usage.objects,
        is_closed: usage.is_closed,
        refused: usage.refused,
        evicted_bytes: usage.evicted_bytes,
    }
}

fn steps(counts: RelocationCounts) -> [u64; 3] {
    [counts.started, counts.ended, counts.revoked]
}
