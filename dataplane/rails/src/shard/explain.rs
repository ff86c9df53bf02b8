//! What a shard knows about each pair of rails, in words.

use super::RailShard;
use crate::health::HealthState;
use crate::peer::{Lane, LaneState, RailPeer};
use perigee_verbs::gid::{GidKind, PortGid};
use std::time::Duration;

impl RailShard {
    /// One line for each lane to each peer, and one for what is accepted.
    pub(crate) fn explain(&self, now: Duration) -> Vec<String> {
        let mut lines = Vec::new();
        let mut peers: Vec<&RailPeer> = self.peers.values().collect();
        peers.sort_by_key(|peer| peer.record.number);
        for peer in peers {
            for (number, lane) in peer.lanes.iter().enumerate() {
                lines.push(self.explain_lane(peer, (number, lane), now));
            }
            if peer.offers_failed > 0 {
                lines.push(format!("{}: handshake failed: {}", peer.record.name, peer.reason));
            }
        }
        let (lanes, accepted) = self.queue_pairs();
        let shard = self.setup.number;
        lines.push(format!("shard {shard}: {lanes} queue pairs to peers, {accepted} accepted"));
        lines
    }

    fn explain_lane(
        &self,
        peer: &RailPeer,
        (number, lane): (usize, &Lane),
        now: Duration,
    ) -> String {
        let route = lane.route();
        let local = &self.rails[route.local];
        let remote = &peer.theirs[route.remote];
        let from = gid_text(local.addresses.usable(), route.local_gid);
        let to = gid_text(&remote.gids, route.remote_gid);
        let state = match (lane.state, lane.health.standing()) {
            (LaneState::Up, _) => "proven".to_owned(),
            (LaneState::Offered, _) => "offered to the peer".to_owned(),
            (LaneState::Proving { .. }, _) => "being proven".to_owned(),
            (LaneState::Down, HealthState::Cooling { until }) => {
                format!("cooling down for {:?}", until.saturating_sub(now))
            }
            (LaneState::Down, _) => "not connected".to_owned(),
        };
        let reason = match lane.reason.as_str() {
            "" => String::new(),
            reason => format!(" ({reason})"),
        };
        let speed = lane.endpoint.and_then(|key| self.endpoint(key));
        let speed = speed.filter(|_| lane.is_up()).map_or_else(String::new, |endpoint| {
            let megabytes = endpoint.bandwidth.bytes_per_second(now) / 1e6;
            format!(", {megabytes:.0} MB/s")
        });
        format!(
            "{} shard {} lane {number}: {} {from} -> {} {to}: {state}{reason}{speed}",
            peer.record.name,
            self.setup.number,
            local.rail.name(),
            remote.device
        )
    }
}

fn gid_text(gids: &[crate::descriptor::GidDescriptor], index: u32) -> String {
    let found = gids.iter().find(|gid| gid.index == index);
    found.map_or_else(String::new, |gid| {
        PortGid { index, address: gid.address, kind: GidKind::RoceV2, interface: None }.text()
    })
}
