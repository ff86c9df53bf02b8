//! What a change of a rail's addresses, or of a peer's, means for its queue pairs: those from an
//! address that is gone go, and lanes are planned again.

use super::RailShard;
use super::reap::Disconnect;
use crate::descriptor::RailDescriptor;
use crate::pairing::{LaneCount, LanePlan, lanes};
use crate::slab::SlabKey;
use std::sync::Arc;
use std::time::Duration;

impl RailShard {
    /// The lanes to a peer with these rails over the addresses that we have now.
    pub(super) fn plan(&self, theirs: &[RailDescriptor]) -> Vec<LanePlan> {
        let ours = self.rails.iter().map(|own| RailDescriptor {
            gids: own.addresses.usable().to_vec(),
            ..own.rail.descriptor()
        });
        let ours: Vec<RailDescriptor> = ours.collect();
        let per_peer = LaneCount::PerPeer(self.setup.queue_pairs_per_peer);
        let per_rail = self.setup.queue_pairs_per_rail.map(LaneCount::PerRail);
        let wanted = per_rail.unwrap_or(per_peer);
        lanes(&ours, theirs, wanted, &self.setup.tuning.partners)
    }

    /// Looks whether the rails have other addresses than lanes are planned over.
    pub(super) fn look_at_addresses(&mut self, now: Duration) {
        let mut is_changed = false;
        for index in 0..self.rails.len() {
            let addresses = self.rails[index].rail.addresses();
            if !Arc::ptr_eq(&addresses, &self.rails[index].addresses) {
                self.rails[index].addresses = addresses;
                self.leave_old_addresses(index, now);
                is_changed = true;
            }
        }
        if is_changed {
            for number in self.peers.keys().copied().collect::<Vec<_>>() {
                self.plan_again(number, now);
            }
        }
    }

    /// Takes down the queue pairs that speak from an address that is no longer where it was.
    fn leave_old_addresses(&mut self, rail: usize, now: Duration) {
        let addresses = &self.rails[rail].addresses;
        let on_rail = self.endpoints.iter().filter(|(_, own)| own.rail == rail);
        let old = on_rail.filter(|(_, own)| addresses.at(own.gid_index) != Some(own.address()));
        let old: Vec<SlabKey> = old.map(|(key, _)| key).collect();
        if !old.is_empty() {
            let (name, count) = (self.rails[rail].rail.name(), old.len());
            tracing::warn!(
                rail = name,
                count,
                "Queue pairs are closed: the NIC no longer has their address"
            );
        }
        let cause = Disconnect::harmless("its address is gone");
        for key in old {
            self.break_endpoint(key, &cause, now);
        }
    }

    /// Goes over to the lanes that the addresses allow now. Queue pairs over routes that there
    /// still are stay, unless there is a better one now.
    pub(super) fn plan_again(&mut self, number: u64, now: Duration) {
        let Some(peer) = self.peers.get(&number) else {
            return;
        };
        let theirs = peer.record.rails();
        let plans = self.plan(&theirs);
        let cause = Disconnect::harmless("other addresses are used now");
        for key in peer.endpoints_beyond(&plans) {
            self.break_endpoint(key, &cause, now);
        }
        if let Some(peer) = self.peers.get_mut(&number) {
            peer.theirs = theirs;
            peer.follow(plans);
        }
    }
}
