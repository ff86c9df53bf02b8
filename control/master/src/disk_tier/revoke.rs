//! Copies to disks that may be given up because a put needs the room: the last that it costs.
//! Invariant: nothing is given up where puts wait for disks.

use crate::limits::REVOCATION_LOOKS_MAX;
use crate::object::Flags;
use crate::stored::StoredObjects;
use crate::tenant::TenantLane;

use super::DiskTier;

impl DiskTier {
    /// Objects of a lane that only their copy to a disk keeps from going, if puts wait for none.
    pub(crate) fn revocable(
        &self,
        stored: &StoredObjects,
        lane: TenantLane,
    ) -> impl Iterator<Item = u32> {
        let drops = self.offload.is_some_and(|offload| offload.force_evict);
        let on_their_way = drops.then(|| self.demotions.of_lane(lane)).into_iter().flatten();
        on_their_way.take(REVOCATION_LOOKS_MAX).filter(|object| {
            let record = &stored.keys[*object];
            let is_read = stored.groups.touched(record).read_end_ms > stored.clock.now_ms();
            !is_read
                && !record.flags.has(Flags::PINNED)
                && !stored.groups.is_held_elsewhere(record.group)
        })
    }

    /// Bytes of those, as far as they are needed beside others for `bytes`.
    pub(crate) fn revocable_bytes(
        &self,
        stored: &StoredObjects,
        lane: TenantLane,
        bytes: u64,
        others: u64,
    ) -> u64 {
        let mut revocable_bytes = 0;
        for object in self.revocable(stored, lane) {
            if others + revocable_bytes >= bytes {
                break;
            }
            let group = stored.groups.get(stored.keys[object].group);
            let own = self.demotions.of(object).map_or(0, |demotion| demotion.bytes);
            revocable_bytes += group.map_or(own, |group| group.bytes_in(lane.segment));
        }
        revocable_bytes
    }
}
