//! Lookups of a client, and reads of what they find.
//! Invariant: what is found is judged by the contract, whether it is read or not.

use super::{Client, Life, Mover};
use crate::scenario::store::contract::{Lease, Version};
use crate::scenario::store::wire::{self, PartPlace};
use perigee_memory::ByteRangeMut;
use perigee_rpc::LocatedBatch;
use perigee_schemas::frame::MessageKind;
use perigee_schemas::master::UnreadableCopy;
use perigee_schemas::{SegmentKind, Status};
use perigee_transfer::{ReadJob, ReplicaAddress, TransferError};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

/// The answer to a lookup of some keys.
struct Lookup {
    located: LocatedBatch,
    asked: Duration,
    /// Keys that were evicted before it was asked.
    evicted: u64,
    /// Which life of the master has answered.
    epoch: u64,
}

/// A key that was found: what it must hold, and where it lies.
struct Found {
    key: String,
    version: Rc<Version>,
    places: Vec<FoundPlace>,
    lease: Rc<Lease>,
}

/// A place, and the checksum of what lies there.
struct FoundPlace {
    place: PartPlace,
    checksum: u32,
}

impl Client {
    /// Gets a key: whether its bytes came, or `None` if it is not there or cannot be asked for. At
    /// times other keys are looked up with it.
    pub(super) async fn get(&self, life: &Life, key: &str) -> Option<bool> {
        let keys = self.with_others(key);
        let (evicted, asked) = (self.master.evicted_keys(), self.world.now());
        let unreadable = self.unreadable.borrow_mut().remove(key);
        let request = wire::get_replicas(&keys, unreadable);
        let answer = life.link.ask(MessageKind::GetReplicas, &request).await;
        self.world.check(answer.is_some() || !self.contract.is_calm(), || {
            "Without a fault a lookup was not answered".to_owned()
        });
        let answer = answer?;
        let located = wire::sound(&self.world, LocatedBatch::decode(&answer.body, keys.len()))?;
        let lookup = Lookup { located, asked, evicted, epoch: answer.epoch };
        let found = keys.iter().enumerate();
        let found: Vec<_> = found.map(|(at, key)| self.found(key, at, &lookup)).collect();
        let mut got = None;
        for (at, found) in found.iter().enumerate() {
            let Some(found) = found else { continue };
            if at == 0 {
                got = Some(self.get_found(life, key, found).await);
            }
            let lease = lookup.located.leases[at].filter(|_| got != Some(false));
            if let Some(lease) = lease.filter(|_| self.random.one_in(2)) {
                found.lease.give_back();
                life.link.give_back((lease.name, lease.generation));
            }
        }
        got
    }

    fn with_others(&self, key: &str) -> Vec<String> {
        let mut keys = vec![key.to_owned()];
        let others = if self.random.one_in(3) { 3 } else { 0 };
        for other in (0..others).map(|_| self.some_key()) {
            if !keys.contains(&other) {
                keys.push(other);
            }
        }
        keys
    }

    /// What a lookup has found of one of its keys.
    fn found(&self, key: &str, at: usize, lookup: &Lookup) -> Option<Found> {
        let Lookup { located, asked, evicted, epoch } = lookup;
        let status = located.places.status[at];
        if status != Status::Ok {
            self.judge_miss(key, *asked, status, *evicted);
            return None;
        }
        let version = self.contract.found(key, located.checksum[at], *asked)?;
        let locations = located.places.locations_of(at);
        let places = wire::part_places(&located.places.segments, locations);
        self.world.check(are_all_of(&places, version.payload.len()), || {
            format!("The master found {key} at places of another length")
        });
        let sums = located.part_checksums_of(at);
        let checksum = |(at, place): (usize, PartPlace)| {
            let checksum = place.part.map_or(version.checksum, |_| sums[at]);
            FoundPlace { place, checksum }
        };
        Some(Found {
            key: key.to_owned(),
            places: places.into_iter().enumerate().map(checksum).collect(),
            version,
            lease: self.contract.note_lease(key, *asked, located.lease_ttl_ms, *epoch),
        })
    }

    /// Whether nothing but a fault can have taken a key; `evicted` is how many keys were evicted
    /// before it was asked for.
    pub(super) fn must_be_there(&self, key: &str, asked: Duration, evicted: u64) -> bool {
        let were_evicted = evicted + self.master.evicted_keys() > 0;
        self.contract.must_be_there(key, asked, were_evicted)
    }

    fn judge_miss(&self, key: &str, asked: Duration, status: Status, evicted: u64) {
        if status == Status::ObjectNotFound {
            self.contract.note_absent(key, asked);
        }
        self.world.check(!self.must_be_there(key, asked, evicted), || {
            format!("Without a fault {key} was not found after its put was acknowledged: {status}")
        });
    }

    async fn get_found(&self, life: &Life, key: &str, found: &Found) -> bool {
        if self.random.one_in(2) {
            // A slow reader: the lease is there for it.
            let left = found.lease.end.saturating_sub(self.world.now());
            self.world.sleep(self.random.length(Duration::ZERO, left * 3 / 4)).await;
        }
        let parts: BTreeSet<Option<u8>> = found.places.iter().map(|it| it.place.part).collect();
        let mut has_all = true;
        for part in parts {
            has_all = has_all && self.read_part(life, found, part).await;
        }
        if has_all {
            return true;
        }
        let is_leased = self.world.now() < found.lease.end;
        let is_of_this_life = found.lease.epoch == self.master.epoch();
        let must_be_there =
            self.contract.must_be_readable(&found.version) && is_leased && is_of_this_life;
        self.world.check(!must_be_there, || format!("Without a fault {key} was lost"));
        false
    }

    /// Reads a part, or all, from one of its places.
    async fn read_part(&self, life: &Life, found: &Found, part: Option<u8>) -> bool {
        for at in found.places.iter().filter(|at| at.place.part == part) {
            if self.read(&life.mover, found, at).await {
                return true;
            }
        }
        false
    }

    /// Reads one replica.
    async fn read(&self, mover: &Mover, found: &Found, at: &FoundPlace) -> bool {
        let FoundPlace { place: PartPlace { address: place, range, .. }, checksum } = at;
        let mut target = vec![0xEE; range.len()];
        let outcome = {
            let pieces = [ByteRangeMut::from(target.as_mut_slice())];
            let jobs = [ReadJob { place, checksum: *checksum, pieces: &pieces }];
            // SAFETY: as in `write`; nothing else uses the target at the same time.
            let batch = unsafe { mover.read(&jobs) };
            self.world.until(batch.watch()).await;
            batch.outcome().unwrap_or_default()
        };
        match outcome.first() {
            Some(Ok(_)) => {
                self.world.check(target == found.version.payload[range.clone()], || {
                    "A get handed out other bytes than were put".to_owned()
                });
                true
            }
            Some(Err(error)) => {
                self.judge(found, place, error);
                self.note_unreadable(&found.key, place, error);
                false
            }
            None => false,
        }
    }

    /// The next lookup of the key names a copy that is torn or has gone.
    fn note_unreadable(&self, key: &str, place: &ReplicaAddress, error: &TransferError) {
        let is_wrong = matches!(error, TransferError::Stale | TransferError::Checksum { .. });
        if is_wrong && place.segment.kind == Some(SegmentKind::Disk) {
            let id = place.segment.id;
            let copy = UnreadableCopy::new(id.high(), id.low(), place.offset, place.generation);
            self.unreadable.borrow_mut().insert(key.to_owned(), copy);
        }
    }

    /// Bytes under a lease may be out of reach, but not overwritten.
    fn judge(&self, found: &Found, place: &ReplicaAddress, error: &TransferError) {
        // A loss of power may have torn what lies on a disk.
        let is_torn = place.segment.kind == Some(SegmentKind::Disk) && !self.contract.is_fair();
        let is_overwritten =
            !is_torn && matches!(error, TransferError::Stale | TransferError::Checksum { .. });
        let is_leased = self.world.now() < found.lease.end;
        let is_mounted = self.master.is_mounted(found.lease.epoch, place.segment.id.0);
        let must_be_there = is_leased && is_mounted && self.contract.is_settled();
        self.world.check(!(is_overwritten && must_be_there), || {
            let ReplicaAddress { segment, offset, generation, .. } = place;
            let at = format!("{:?} {} at {offset:#x}", segment.kind, segment.id);
            format!("Bytes under a lease were overwritten: {error}: {at}, {generation:#x}")
        });
    }
}

/// Whether places have each byte of an object of that length: whole, or in parts.
fn are_all_of(places: &[PartPlace], bytes: usize) -> bool {
    let mut end = 0;
    for place in places {
        match place.part {
            None if place.range != (0..bytes) => return false,
            Some(_) if place.range.start > end => return false,
            _ => end = end.max(place.range.end),
        }
    }
    end == bytes
}
