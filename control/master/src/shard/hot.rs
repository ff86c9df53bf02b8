//! Hot keys: what is read often gets one more replica in memory, as long as there is room to spare.
//! Invariant: a replica that was made for heat goes before all others of its segment, and is never
//! the only one in memory that its object has.

use crate::departures::DepartureCause;
use crate::limits::HEAT_PAUSE_AFTER_EVICTION_MS;

use super::KeyShard;

impl KeyShard {
    /// Evicts a replica that was made for heat; its key is not given another one soon.
    pub(super) fn evict_extra(&mut self, id: u32) {
        let object = self.stored.replicas[id].object;
        self.counters.heat.evicted += 1;
        self.counters.evicted_bytes += self.stored.replicas[id].payload_bytes;
        self.quotas.count_evicted(&self.stored.replicas[id]);
        self.wishing().pause_heat(object, HEAT_PAUSE_AFTER_EVICTION_MS);
        self.note_departure(id, DepartureCause::Extra);
        self.drop_complete(id);
    }
}
