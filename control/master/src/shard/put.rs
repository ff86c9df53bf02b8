//! The first phase of a put: space is allocated, nothing is visible yet.
//! Invariant: a replaced object stays readable until the new one is complete.

use perigee_schemas::tenant::is_same_tenant;
use perigee_schemas::{PartLayout, Status};

use crate::columns::{PlacementColumns, ReplicaState};
use crate::key::{check_key, hash_key};
use crate::object::Flags;
use crate::pending::{Pending, Pins};
use crate::policy::ObjectKind;
use crate::put_name::PutName;
use crate::read_view::ReadView;
use crate::slab::NONE;

use super::KeyShard;
use super::place_request::{PlaceRequest, Placed};
use super::placing::Placing;
use super::put_start::PutStart;
use super::space::Reuse;

/// What a put has beside its place.
struct Opened {
    replaces: Pins,
    kind: ObjectKind,
    layout: Option<PartLayout>,
}

impl KeyShard {
    /// Starts puts, each on its own: one failing key does not touch the others.
    ///
    /// Status -600: bad argument; -400: key too long; -705: exists or is being written; -200: no
    /// space even after eviction.
    pub fn put_start(&mut self, now_ms: u64, batch: &PutStart<'_>, out: &mut PlacementColumns) {
        self.begin(now_ms);
        out.clear();
        self.stored.keys.load(batch.keys, &self.stored.replicas);
        let refused = batch.check(&self.settings).err();
        let mut same_node = None;
        for at in 0..batch.keys.len() {
            let first_location = out.locations.len();
            let started = match refused {
                Some(status) => Err(status),
                None => self.start_one(batch, at, same_node, out),
            };
            if batch.config.prefer_alloc_in_same_node && same_node.is_none() {
                same_node = out.locations.first().map(|location| location.segment);
            }
            out.push(started.err().unwrap_or(Status::Ok), first_location);
        }
        debug_assert_eq!(out.status.len(), batch.keys.len(), "one answer per key");
    }

    fn start_one(
        &mut self,
        batch: &PutStart<'_>,
        at: usize,
        same_node: Option<u32>,
        out: &mut PlacementColumns,
    ) -> Result<(), Status> {
        let (key, payload_bytes) = (batch.keys[at], batch.payload_bytes[at]);
        let group = batch.groups.get(at).copied().unwrap_or_default();
        check_key(key)?;
        let is_mixed = !group.is_empty() && !is_same_tenant(key, group.as_bytes());
        if payload_bytes == 0 || is_mixed {
            return Err(Status::InvalidParams);
        }
        let hash = hash_key(key);
        let payer = self.quotas.payer(key)?;
        let known = self.stored.keys.find_hashed(hash, key);
        let view = ReadView { stored: &self.stored, space: &self.space };
        let is_again = |slot| self.order.is_packed_again(view, hash, slot);
        if !batch.upsert && known.is_some_and(is_again) {
            return Err(Status::ObjectAlreadyExists);
        }
        let replaces = match known.and_then(|slot| self.stored.object_of(slot)) {
            Some(object) => self.make_way(object, group, batch.upsert)?,
            None => Pins::default(),
        };
        let layout = match batch.config.parts {
            true => self.cut(payload_bytes, batch.config.replica_num),
            false => None,
        };
        let request = PlaceRequest {
            hash,
            payload_bytes,
            config: batch.config,
            same_node,
            effort: batch.effort,
            payer,
            layout,
            part: None,
        };
        let placed = Placing { shard: self, request: &request }.charged()?;
        // Eviction may have taken the object that is being replaced, so it is looked up again.
        let object = match self.stored.find_hashed(hash, key) {
            Some(object) => object,
            None => self.insert_object(key, hash, group),
        };
        let (place, keys) = batch.place_of(at);
        let kind = ObjectKind::new(place, keys, self.continued.take(hash));
        self.open_put(object, batch, placed, Opened { replaces, kind, layout: request.layout });
        if batch.is_head(at) && self.tier.budgets.is_some() {
            let placed: Vec<u32> = self.stored.replicas.chain(placed.first).collect();
            placed.into_iter().for_each(|id| self.stored.replicas.set_head(id));
        }
        for id in self.stored.replicas.chain(placed.first) {
            let location = self.stored.replicas[id].location(ReplicaState::Processing);
            out.locations.push(location);
        }
        Ok(())
    }

    /// Decides whether the key may be written, and clears an abandoned put away.
    fn make_way(&mut self, object: u32, group: &str, upsert: bool) -> Result<Pins, Status> {
        let complete = self.view().is_complete(object);
        if complete && !upsert {
            // Its writer has no use for it now, but would have had.
            self.order.note_access(&self.stored, object, self.stored.kind_of(object), true);
            return Err(Status::ObjectAlreadyExists);
        }
        let named = self.stored.groups.find(group);
        let is_its_group = named != NONE && named == self.stored.keys[object].group;
        let other_group = !group.is_empty() && !is_its_group;
        if complete && other_group {
            return Err(Status::InvalidParams);
        }
        let until_ms = self.stored.clock.now_ms().checked_sub(self.settings.put_discard_timeout_ms);
        let is_young = |put: &Pending| until_ms.is_none_or(|until_ms| put.started_ms > until_ms);
        if !upsert && self.pending.of(object).any(is_young) {
            return Err(Status::ObjectAlreadyExists);
        }
        let pins = if complete { Pins::of(&self.stored, object) } else { Pins::default() };
        // An upsert leaves those that began before it alone: each of them publishes its bytes
        // unless a later one has.
        if !upsert || (!complete && other_group) {
            self.discard_all_pending(object);
        }
        if !complete {
            self.drop_all_complete(object);
        }
        Ok(pins)
    }

    /// Abandons all unfinished puts of an object.
    pub(super) fn discard_all_pending(&mut self, object: u32) {
        while let Some(generation) = self.pending.first_of(object) {
            self.discard_pending(object, generation, Reuse::At);
            debug_assert_ne!(self.pending.first_of(object), Some(generation));
        }
    }

    /// Abandons an unfinished put; its space is quarantined, because its writer may still be
    /// writing.
    pub(super) fn discard_pending(
        &mut self,
        object: u32,
        generation: u64,
        reuse: fn(u64, PutName) -> Reuse,
    ) {
        let Some(pending) = self.pending.get(object, generation) else {
            return;
        };
        let release_ms = pending.started_ms.saturating_add(self.settings.put_release_timeout_ms);
        let reuse = reuse(release_ms, pending.name);
        self.counters.discarded_puts += 1;
        self.drop_pending(object, generation, reuse);
    }

    /// Forgets an unfinished put.
    pub(super) fn drop_pending(&mut self, object: u32, generation: u64, reuse: Reuse) {
        let Some(pending) = self.pending.take(&mut self.stored, object, generation) else {
            return;
        };
        self.drop_chain(pending.first, reuse);
        self.settle(object);
    }

    pub(super) fn insert_object(&mut self, key: &[u8], hash: u64, group: &str) -> u32 {
        self.quotas.count_object(key);
        self.stored.insert(key, hash, group)
    }

    fn open_put(&mut self, object: u32, batch: &PutStart<'_>, placed: Placed, opened: Opened) {
        let Opened { replaces, kind, layout } = opened;
        self.stored.replicas.assign(placed.first, object);
        self.stored.keys[object].flags.set(Flags::PENDING, true);
        let pending = Pending {
            name: PutName {
                client: batch.client,
                generation: self.stored.replicas[placed.first].generation,
            },
            started_ms: self.stored.clock.now_ms(),
            first: placed.first,
            hard_pin: batch.config.hard_pin,
            soft_pin: batch.config.soft_pin,
            replaces,
            kind,
            layout,
        };
        self.pending.insert(object, pending);
        self.stored.refresh_blocking(object);
    }
}
