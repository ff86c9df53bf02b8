//! The queue pairs of a shard: of lanes to peers, and those it accepted from peers.
//! Invariant: each has a proof slot of its own and is in the pool of its kind, until it is removed
//! or is to make room; an accepted one has an entry under the name it was offered with.

use crate::accepted::{Accepted, AcceptedKey, AcceptedTable};
use crate::descriptor::ProofDescriptor;
use crate::endpoint::{Endpoint, EndpointRole};
use crate::error::RailError;
use crate::pool::EndpointPool;
use crate::proof::{ProofMemory, ProofSlot};
use crate::rail::Rail;
use crate::slab::{KeyedSlab, SlabKey};
use perigee_verbs::Sge;
use std::sync::Arc;
use std::time::Duration;

#[derive(Debug)]
pub(crate) struct Endpoints {
    /// Declared before `proof`: queue pairs go before the memory they use.
    records: KeyedSlab<Endpoint>,
    proof: ProofMemory,
    /// Those of lanes.
    lanes: EndpointPool,
    accepted_pool: EndpointPool,
    accepted: AcceptedTable,
}

impl Endpoints {
    /// Room for so many queue pairs of lanes, of which `lanes_fitting` fit the completion queues,
    /// and so many accepted ones.
    pub(crate) fn new(
        rails: &[Arc<Rail>],
        lanes_max: usize,
        lanes_fitting: usize,
        accepted_max: usize,
    ) -> Result<Self, RailError> {
        Ok(Self {
            records: KeyedSlab::new(lanes_max + accepted_max),
            proof: ProofMemory::new(rails, lanes_max + accepted_max)?,
            lanes: EndpointPool::new(lanes_max.min(lanes_fitting)),
            accepted_pool: EndpointPool::new(accepted_max),
            accepted: AcceptedTable::default(),
        })
    }

    /// Takes in what `make` makes with a proof slot: a queue pair of a lane, held until it is
    /// proven so that it is not evicted before its first use. Returns where the peer proves it.
    pub(crate) fn add_lane(
        &mut self,
        make: impl FnOnce(ProofSlot) -> Endpoint,
        now: Duration,
    ) -> Result<(SlabKey, ProofDescriptor), &'static str> {
        let (key, proof) = self.add(make)?;
        let is_in = self.lanes.insert(u64::from(key.bits()), now);
        debug_assert!(is_in, "room was made before");
        self.lanes.hold(u64::from(key.bits()), now);
        Ok((key, proof))
    }

    /// As `add_lane`, with a queue pair accepted under a name that has none; `entry` makes what is
    /// kept about it.
    pub(crate) fn add_accepted(
        &mut self,
        name: AcceptedKey,
        make: impl FnOnce(ProofSlot) -> Endpoint,
        entry: impl FnOnce(SlabKey) -> Accepted,
        now: Duration,
    ) -> Result<ProofDescriptor, &'static str> {
        let (key, proof) = self.add(make)?;
        self.accepted.insert(name, entry(key));
        self.accepted_pool.insert(u64::from(key.bits()), now);
        Ok(proof)
    }

    fn add(
        &mut self,
        make: impl FnOnce(ProofSlot) -> Endpoint,
    ) -> Result<(SlabKey, ProofDescriptor), &'static str> {
        if self.records.is_full() {
            return Err("no slot for another queue pair is left");
        }
        let slot = self.proof.take().ok_or("no proving memory is left")?;
        let endpoint = make(slot);
        let proof = self.proof.descriptor(slot, endpoint.rail);
        let Ok(key) = self.records.insert(endpoint) else {
            self.proof.give_back(slot);
            return Err("no slot for another queue pair is left");
        };
        if let Some(endpoint) = self.records.get_mut(key) {
            endpoint.set_name(key);
        }
        Ok((key, proof))
    }

    /// Takes a queue pair out of all records. It is not ended: the caller has to.
    pub(crate) fn remove(&mut self, key: SlabKey) -> Option<Endpoint> {
        let endpoint = self.records.remove(key)?;
        self.proof.give_back(endpoint.slot);
        match &endpoint.role {
            EndpointRole::Lane { .. } => {
                self.lanes.remove(u64::from(key.bits()));
            }
            EndpointRole::Accepted(name) => {
                self.accepted_pool.remove(u64::from(key.bits()));
                self.accepted.remove(*name);
            }
        }
        Some(endpoint)
    }

    pub(crate) fn get(&self, key: SlabKey) -> Option<&Endpoint> {
        self.records.get(key)
    }

    pub(crate) fn get_mut(&mut self, key: SlabKey) -> Option<&mut Endpoint> {
        self.records.get_mut(key)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (SlabKey, &Endpoint)> {
        self.records.iter()
    }

    /// Number of queue pairs of both kinds.
    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    /// A queue pair of a lane that is about to be given work: it is in use from now on.
    pub(crate) fn get_for_post(&mut self, key: SlabKey, now: Duration) -> Option<&mut Endpoint> {
        let endpoint = self.records.get_mut(key)?;
        if endpoint.posted().is_empty() {
            self.lanes.hold(u64::from(key.bits()), now);
        }
        Some(endpoint)
    }

    /// A queue pair of a lane has nothing to do.
    pub(crate) fn release_lane(&mut self, key: SlabKey, now: Duration) {
        self.lanes.release(u64::from(key.bits()), now);
    }

    /// Whether a queue pair of a lane has to make room before another one comes.
    pub(crate) fn lanes_full(&self) -> bool {
        self.lanes.is_full()
    }

    /// The idle queue pair of a lane that is missed least, to be taken down to make room.
    pub(crate) fn evict_lane(&mut self) -> Option<SlabKey> {
        self.lanes.evict().map(key_of)
    }

    /// The queue pair of a lane that has been there longest takes no more work.
    pub(crate) fn retire_oldest_lane(&mut self) {
        let oldest = self.lanes.oldest().map(key_of);
        if let Some(endpoint) = oldest.and_then(|key| self.records.get_mut(key)) {
            endpoint.retiring = true;
        }
    }

    /// A queue pair of a lane that has been idle for `idle`, to be taken down. Call again until
    /// `None`.
    pub(crate) fn expire_lane(&mut self, now: Duration, idle: Duration) -> Option<SlabKey> {
        self.lanes.expire(now, idle).map(key_of)
    }

    /// What is known of accepted queue pairs.
    pub(crate) fn accepted(&self) -> &AcceptedTable {
        &self.accepted
    }

    /// Whether an accepted queue pair has to make room before another one comes.
    pub(crate) fn accepted_full(&self) -> bool {
        self.accepted_pool.is_full()
    }

    /// The accepted queue pair that is missed least, to be taken down to make room.
    pub(crate) fn evict_accepted(&mut self) -> Option<SlabKey> {
        self.accepted_pool.evict().map(key_of)
    }

    /// The other end of an accepted queue pair is asked for life: returns the queue pair, which is
    /// in use until the answer comes, and where to write.
    pub(crate) fn ask(
        &mut self,
        name: AcceptedKey,
        now: Duration,
    ) -> Option<(SlabKey, ProofDescriptor)> {
        let accepted = self.accepted.get_mut(name)?;
        accepted.asked_at = Some(now);
        self.accepted_pool.hold(u64::from(accepted.endpoint.bits()), now);
        Some((accepted.endpoint, accepted.proof))
    }

    /// The other end of an accepted queue pair has answered.
    pub(crate) fn answered(&mut self, name: AcceptedKey, now: Duration) {
        if let Some(accepted) = self.accepted.get_mut(name) {
            accepted.asked_at = None;
            accepted.seen_at = now;
            self.accepted_pool.release(u64::from(accepted.endpoint.bits()), now);
        }
    }

    /// Puts a proving word in place: what is written to the peer, and where it is read back to.
    pub(crate) fn prepare_proof(&self, key: SlabKey, word: u64) -> Option<(Sge, Sge)> {
        let endpoint = self.records.get(key)?;
        Some(self.proof.prepare(endpoint.slot, endpoint.rail, word))
    }

    /// The proving word that was read back.
    pub(crate) fn word_back(&self, key: SlabKey) -> Option<u64> {
        Some(self.proof.word_back(self.records.get(key)?.slot))
    }

    /// Panics unless each queue pair has its own slot, and its entry if it was accepted; no slot is
    /// lost; and pools name queue pairs that are there.
    #[cfg(test)]
    pub(crate) fn check(&self) {
        self.records.check();
        let mut accepted = 0;
        for (key, endpoint) in self.records.iter() {
            endpoint.check();
            if let EndpointRole::Accepted(name) = &endpoint.role {
                let entry = self.accepted.get(*name);
                assert_eq!(entry.map(|entry| entry.endpoint), Some(key));
                accepted += 1;
            }
        }
        assert_eq!(self.accepted.len(), accepted, "each has its queue pair");
        self.proof.check(self.records.iter().map(|(_, endpoint)| endpoint.slot));
        let is_there = |key| assert!(self.records.get(key_of(key)).is_some(), "it is there");
        self.lanes.check(is_there);
        self.accepted_pool.check(is_there);
    }
}

/// The queue pair that a pool knows under this number.
fn key_of(in_pool: u64) -> SlabKey {
    SlabKey::from_bits(in_pool as u32)
}
