//! Demotions begin and end: what eviction would take goes to a disk of its owner first.
//! Invariant: while an owner may be reading a replica to write it, the replica is not evicted.

use crate::columns::ReplicaState;
use crate::demotion_task::DemotionTask;
use crate::limits::LOOK_AHEAD_RATIO;
use crate::moving::move_deadline_ms;
use crate::read_view::ReadView;
use crate::settings::OffloadSettings;
use crate::stored::StoredObjects;
use crate::tenant::TenantNumber;

use super::DiskTier;

impl DiskTier {
    pub(crate) fn may_demote(
        &self,
        view: ReadView<'_>,
        id: u32,
        offload: &OffloadSettings,
    ) -> bool {
        let replica = &view.stored.replicas[id];
        let usable_bytes = view.space.get(replica.segment).map_or(0, |it| it.usable_bytes());
        let bytes = self.demotions.bytes_of(replica.segment) + replica.extent().bytes;
        self.demotions.len() < (offload.queue_limit / self.shards).max(1)
            && bytes as f64 <= offload.cap_ratio * usable_bytes as f64
    }

    pub(crate) fn take(&mut self, stored: &StoredObjects, client: u128) -> Option<DemotionTask> {
        let deadline_ms = move_deadline_ms(stored.clock.now_ms(), 0);
        let (object, demotion) = self.demotions.take(client, deadline_ms)?;
        let record = &stored.keys[object];
        Some(DemotionTask {
            key: record.key().into(),
            group: stored.groups.name(record.group).unwrap_or_default().into(),
            checksum: record.checksum,
            source: stored.replicas[demotion.source].location(ReplicaState::Complete),
            disk: demotion.disk,
        })
    }

    /// Whether less is ready to go, or on its way, than a margin below the watermark.
    pub(crate) fn lacks_ready(&self, view: ReadView<'_>, segment: u32) -> bool {
        let Some(share) = view.space.get(segment) else {
            return false;
        };
        let quarantined_bytes = view.space.quarantine().bytes_of(segment);
        let used_bytes = share.allocator.used().saturating_sub(quarantined_bytes);
        let ratio = (self.watermark_ratio - LOOK_AHEAD_RATIO).max(0.0);
        let kept_bytes = (ratio * share.usable_bytes() as f64) as u64;
        let stock_bytes =
            view.stored.replicas.ready_bytes(segment) + self.demotions.bytes_of(segment);
        used_bytes > kept_bytes.saturating_add(stock_bytes)
    }

    /// Bytes of a tenant that are ready to go, or on their way.
    pub(crate) fn stock_of(&self, view: ReadView<'_>, tenant: TenantNumber) -> u64 {
        view.stored.replicas.ready_bytes_of(tenant, view.space.live())
            + self.demotions.bytes_of_tenant(tenant)
    }
}
