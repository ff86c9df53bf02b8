//! Queue pairs that peers offer: joined, kept while the peer lives, and taken down when it does
//! not.

use super::RailShard;
use crate::accepted::{Accepted, AcceptedKey};
use crate::bandwidth::Bandwidth;
use crate::descriptor::{EndpointAnswer, EndpointOffer, PairAnswer, PairOffer};
use crate::endpoint::{Endpoint, EndpointRole};
use crate::error::RailError;
use crate::joining::MadePair;
use crate::limits::{ACCEPTED_ENTRIES, PAIRS_PER_PEER_MAX};
use perigee_verbs::{QueuePairOptions, RegionAccess};
use std::time::Duration;

impl RailShard {
    /// Makes a queue pair for each offered one. They are joined by [`crate::joining::Joiner`] and
    /// come back with [`RailShard::adopt`].
    ///
    /// # Errors
    /// The offer makes no sense, or the shard is closed.
    pub(crate) fn make(&self, offer: &EndpointOffer) -> Result<Vec<MadePair>, RailError> {
        if self.closed {
            return Err(RailError::Closed);
        }
        let most = offer.pairs.len().max(offer.fenced.len());
        if most > PAIRS_PER_PEER_MAX {
            return Err(RailError::BadDescriptor {
                peer: offer.name.clone(),
                reason: format!("{most} queue pairs at once"),
            });
        }
        if offer.peer_epoch != self.setup.epoch {
            return Ok(Vec::new());
        }
        Ok(offer.pairs.iter().map(|pair| self.make_one(pair)).collect())
    }

    /// Takes joined queue pairs in and answers the offer. An offer for an engine that ran here
    /// before gets our epoch and no pairs, which tells the peer to look us up again.
    ///
    /// # Errors
    /// The shard is closed.
    pub(crate) fn adopt(
        &mut self,
        offer: &EndpointOffer,
        made: Vec<MadePair>,
        now: Duration,
    ) -> Result<EndpointAnswer, RailError> {
        if self.closed {
            return Err(RailError::Closed);
        }
        let (mut pairs, mut fenced) = (Vec::new(), 0);
        if offer.peer_epoch == self.setup.epoch {
            fenced = self.take_fenced_down(offer, now);
            for key in self.endpoints.accepted().outlived_by(&offer.name, offer.epoch) {
                self.drop_accepted(key, now);
            }
            for (pair, made) in offer.pairs.iter().zip(made) {
                let answer = self.adopt_one(offer, pair, made, now);
                pairs.push(answer.unwrap_or_else(|reason| PairAnswer::Refused { reason }));
            }
        }
        Ok(EndpointAnswer { epoch: self.setup.epoch, pairs, fenced })
    }

    /// Takes down every queue pair that the engine of this epoch could reach our memory through.
    pub(crate) fn fence(&mut self, epoch: u64, now: Duration) {
        for key in self.endpoints.accepted().of_epoch(epoch) {
            self.drop_accepted(key, now);
        }
    }

    pub(super) fn drop_accepted(&mut self, key: AcceptedKey, now: Duration) {
        if let Some(endpoint) = self.endpoints.accepted().get(key).map(|accepted| accepted.endpoint)
        {
            self.close_endpoint(endpoint, now);
        }
    }

    fn make_one(&self, pair: &PairOffer) -> MadePair {
        let index = pair.peer_rail as usize;
        let rail = self.rails.get(index).ok_or_else(|| format!("there is no rail {index}"))?;
        if !rail.rail.is_active() {
            return Err(format!("port of {} is down", rail.rail.name()));
        }
        let gid_index = self.index_towards(pair);
        let gid_index = gid_index.ok_or_else(|| {
            let name = rail.rail.name();
            format!("{name} has no address that can speak to the offered one")
        })?;
        let options = QueuePairOptions {
            send_entries: ACCEPTED_ENTRIES,
            access: RegionAccess::ALL,
            ..self.pair_options(gid_index)
        };
        rail.queue.queue_pair(&options).map_err(|error| error.to_string())
    }

    /// The index of our address that an offered queue pair is spoken to from.
    fn index_towards(&self, pair: &PairOffer) -> Option<u32> {
        let rail = self.rails.get(pair.peer_rail as usize)?;
        let addresses = &rail.addresses;
        addresses.index_towards(&pair.endpoint.gid, pair.peer_gid_index)
    }

    fn adopt_one(
        &mut self,
        offer: &EndpointOffer,
        pair: &PairOffer,
        made: MadePair,
        now: Duration,
    ) -> Result<PairAnswer, String> {
        let key = AcceptedKey { epoch: offer.epoch, shard: offer.shard, lane: pair.lane };
        self.drop_accepted(key, now);
        let queue_pair = made?;
        if self.endpoints.accepted_full() {
            if self.endpoints.accepted().has_any(offer.epoch, offer.shard) {
                return Err("no room for another queue pair beside those it has".to_owned());
            }
            let victim = self.endpoints.evict_accepted().ok_or("all queue pairs are in use")?;
            self.close_endpoint(victim, now);
        }
        let index = pair.peer_rail as usize;
        let descriptor = queue_pair.endpoint().into();
        let bandwidth = Bandwidth::new(self.rails[index].rail.nominal());
        let place = self.index_towards(pair).filter(|gid_index| {
            let addresses = &self.rails[index].addresses;
            addresses.at(*gid_index) == Some(queue_pair.endpoint().gid)
        });
        let place = (index, place.ok_or("the address has changed since the offer")?);
        let make =
            |slot| Endpoint::new(queue_pair, place, slot, bandwidth, EndpointRole::Accepted(key));
        let entry = |endpoint| Accepted {
            endpoint,
            name: offer.name.clone(),
            proof: pair.proof,
            seen_at: now,
            asked_at: None,
        };
        let proof = self.endpoints.add_accepted(key, make, entry, now)?;
        Ok(PairAnswer::Joined { endpoint: descriptor, proof })
    }
}
