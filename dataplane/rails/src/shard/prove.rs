//! Proof that a pair of rails works: a small write to the peer, read back over the same queue pair.
//!
//! Load goes over proven pairs only.

use super::RailShard;
use super::reap::Disconnect;
use crate::descriptor::ProofDescriptor;
use crate::endpoint::{PostOrder, WorkPurpose};
use crate::limits::PROOF_DEADLINE;
use crate::peer::LaneState;
use crate::slab::SlabKey;
use std::time::Duration;

impl RailShard {
    /// Sends the proving write and the read that follows it.
    pub(super) fn prove(
        &mut self,
        number: u64,
        lane: usize,
        key: SlabKey,
        proof: ProofDescriptor,
        now: Duration,
    ) {
        let word = self.next_word();
        let Some((source, back)) = self.endpoints.prepare_proof(key, word) else {
            return;
        };
        let order = |write, piece| PostOrder {
            work: WorkPurpose::Proof,
            write,
            inline: false,
            piece,
            remote_address: proof.address,
            remote_key: proof.remote_key,
        };
        let orders = [order(true, source), order(false, back)];
        let endpoint = self.endpoints.get_mut(key);
        let posted = endpoint.map_or(Ok(()), |endpoint| endpoint.post(&orders, now, |_, _| {}));
        if let Some(lane) = self.peers.get_mut(&number).and_then(|peer| peer.lanes.get_mut(lane)) {
            lane.state = LaneState::Proving { until: now + PROOF_DEADLINE, word };
        }
        if let Err(error) = posted {
            self.break_endpoint(key, &Disconnect::blamed(error.to_string()), now);
        }
    }

    /// The proving work has completed: the pair carries load if the right word came back.
    pub(super) fn judge_proof(&mut self, key: SlabKey, number: u64, lane: usize, now: Duration) {
        let Some(back) = self.endpoints.word_back(key) else {
            return;
        };
        let Some(peer) = self.peers.get_mut(&number) else {
            return;
        };
        let Some(lane) = peer.lanes.get_mut(lane) else {
            return;
        };
        let LaneState::Proving { word, .. } = lane.state else {
            return;
        };
        if back != word {
            let reason = "the proving write came back with other bytes".to_owned();
            return self.break_endpoint(key, &Disconnect::blamed(reason), now);
        }
        let local = lane.route().local;
        lane.state = LaneState::Up;
        lane.health.proven(now);
        lane.failures = 0;
        lane.reason.clear();
        peer.waiting.bring_back();
        self.rails[local].cells.pairs_up.add(1);
    }

    /// Writes a liveness write to the other end of an accepted queue pair: an answer shows that it
    /// is there.
    pub(super) fn ask_for_life(&mut self, key: SlabKey, proof: ProofDescriptor, now: Duration) {
        let word = self.next_word();
        let Some((source, _)) = self.endpoints.prepare_proof(key, word) else {
            return;
        };
        let order = PostOrder {
            work: WorkPurpose::Proof,
            write: true,
            inline: false,
            piece: source,
            remote_address: proof.address,
            remote_key: proof.remote_key,
        };
        let endpoint = self.endpoints.get_mut(key);
        if let Some(Err(error)) = endpoint.map(|endpoint| endpoint.post(&[order], now, |_, _| {})) {
            self.break_endpoint(key, &Disconnect::blamed(error.to_string()), now);
        }
    }
}
