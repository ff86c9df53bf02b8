//! Members that time takes away: silent clients, drained segments, dead predecessors.
//! Invariant: whatever goes, goes by an event, so that shards and registry agree.

use crate::segment::SegmentSpec;

use super::Registry;

impl Registry {
    /// Forgets clients that were silent for longer than their time to live and unmounts segments
    /// whose grace has ended. Returns the forgotten clients.
    pub fn tick(&mut self, now_ms: u64) -> Vec<u128> {
        self.advance(now_ms);
        let now_ms = self.now_ms;
        let drained = self.segments.iter().filter(|(_, mounted)| {
            mounted.drain_end_ms.is_some_and(|drain_end_ms| drain_end_ms <= now_ms)
        });
        let drained: Vec<u32> = drained.map(|(index, _)| *index).collect();
        for index in drained {
            self.forget_segment(index);
        }
        let (ttl_ms, heard_ms) = (self.settings.client_ttl_ms, self.heard_ms());
        let silent = self.clients.iter().filter(|(_, client)| heard_ms - client.heard_ms > ttl_ms);
        let silent: Vec<u128> = silent.map(|(client, _)| *client).collect();
        for client in &silent {
            self.forget_client(*client);
        }
        silent
    }

    /// Forgets other clients that claim the endpoint of a segment whose owner is the listener
    /// there.
    pub(super) fn bury_predecessors(&mut self, spec: &SegmentSpec) {
        if spec.endpoint.is_empty() {
            return;
        }
        let same_place = self.segments.values().map(|mounted| &mounted.spec).filter(|other| {
            other.client != spec.client
                && other.endpoint == spec.endpoint
                && other.host_id == spec.host_id
        });
        let dead: Vec<u128> = same_place.map(|other| other.client).collect();
        for client in dead {
            self.forget_client(client);
        }
    }
}
