//! The second phase of a put: it ends and becomes visible, or it is revoked.
//! Invariant: only the client that started a put can finish it, only that put, and what can be read
//! never goes back to the bytes of a put that began earlier.

use perigee_schemas::Status;

use crate::object::Flags;
use crate::overtaken::Overtaken;
use crate::pending::{Pending, Pins};
use crate::put_name::PutName;
use crate::slab::NONE;
use crate::striped::StripedObject;

use super::KeyShard;
use super::space::Reuse;
use super::started_puts::StartedPuts;

/// Whether and why a put has no place any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Discarded {
    No,
    GivenUp,
    /// A put that began later has published its bytes. What it does to the pins of those, if that
    /// is anything.
    Superseded(Option<Overtaken>),
}

/// CRC-32C of a payload, and of each of its parts if it lies in some.
#[derive(Debug, Clone, Copy)]
struct PayloadSums<'a> {
    whole: u32,
    parts: &'a [u32],
}

impl KeyShard {
    /// Makes puts visible; `checksums` has the CRC-32C of each payload. One status per key.
    ///
    /// Status -704: unknown key, or its segments are gone; -601: another client's put; -705: an
    /// upsert that was started later has published its bytes already; -700: the put was discarded
    /// for another reason, and the key has, or is being given, other bytes; -600: a column has the
    /// wrong length, or there is not one checksum for each part. Repeating is fine.
    pub fn put_end(
        &mut self,
        now_ms: u64,
        batch: &StartedPuts<'_>,
        checksums: &[u32],
        out: &mut Vec<i32>,
    ) {
        self.begin(now_ms);
        let keys = batch.keys;
        out.clear();
        out.resize(keys.len(), Status::InvalidParams.code());
        let has_parts = batch.parts.is_empty() || batch.parts.len() == keys.len();
        let lengths = [checksums.len(), batch.generations.len()];
        if !has_parts || lengths != [keys.len(); 2] {
            return;
        }
        self.stored.keys.load(keys, &self.stored.replicas);
        // Last to first, so that the first key of a batch is the newest.
        for at in (0..keys.len()).rev() {
            let sums = PayloadSums { whole: checksums[at], parts: batch.parts_of(at) };
            out[at] = code(self.end_one(batch.name(at), keys[at], sums));
        }
    }

    /// Takes started puts back. Their space is free at once, also that of puts discarded before;
    /// with `in_flight`, which says that bytes may still arrive, it is quarantined like that of a
    /// discarded put. One status per key.
    ///
    /// Status -704: unknown key; -601: another client's put; -700: the put has ended; -600: a
    /// column has the wrong length. A put that another one has replaced is revoked already.
    pub fn put_revoke(
        &mut self,
        now_ms: u64,
        batch: &StartedPuts<'_>,
        in_flight: bool,
        out: &mut Vec<i32>,
    ) {
        self.begin(now_ms);
        out.clear();
        out.resize(batch.keys.len(), Status::InvalidParams.code());
        if batch.generations.len() != batch.keys.len() {
            return;
        }
        for (at, key) in batch.keys.iter().enumerate() {
            out[at] = code(self.revoke_one(batch.name(at), key, in_flight));
        }
    }

    fn end_one(&mut self, put: PutName, key: &[u8], sums: PayloadSums<'_>) -> Result<(), Status> {
        // Its writer has stopped, so the space of a discarded put can be used again.
        let discarded = self.free_discarded(put);
        if let Discarded::Superseded(pins) = discarded {
            if let Some(overtaken) = pins {
                self.pin_overtaken(overtaken);
            }
            return Err(Status::ObjectAlreadyExists);
        }
        let object = self.stored.find(key).ok_or(Status::ObjectNotFound)?;
        let Some(pending) = self.pending.get(object, put.generation) else {
            return if discarded == Discarded::GivenUp {
                Err(Status::InvalidWrite)
            } else {
                self.stored.keys[object].end_again(put.client, sums.whole)
            };
        };
        if pending.name.client != put.client {
            return Err(Status::IllegalClient);
        }
        let (first, parts) = (pending.first, pending.layout.map_or(0, |it| it.parts()));
        if usize::from(parts) != sums.parts.len() {
            return Err(Status::InvalidParams);
        }
        let is_there = |id: u32| self.space.is_readable(self.stored.replicas[id].segment);
        let is_whole = match parts {
            0 => self.stored.replicas.chain(first).any(is_there),
            parts => self.view().has_all_parts(first, parts),
        };
        if !is_whole {
            self.discard_pending(object, put.generation, Reuse::At);
            return Err(Status::ObjectNotFound);
        }
        if let Some(pending) = self.pending.take(&mut self.stored, object, put.generation) {
            self.publish(object, &pending, sums);
            self.supersede(object, &pending);
        }
        Ok(())
    }

    /// Discards the puts that began before the one that was published. Those that began later go on
    /// and replace it.
    fn supersede(&mut self, object: u32, published: &Pending) {
        let generation = published.name.generation;
        let mut overtaken = Vec::new();
        while let Some(earlier) = self.pending.first_before(object, generation) {
            let put = self.pending.get(object, earlier).map(|put| (put.name, put.pins()));
            self.discard_pending(object, earlier, Reuse::Superseded);
            overtaken.extend(put.filter(|(put, _)| self.space.quarantine().has_put(*put)));
            debug_assert_ne!(self.pending.first_of(object), Some(earlier));
        }
        self.pending.overtake(&mut self.stored, object, published, &overtaken);
    }

    /// Replaces an object's complete replicas by the ones of a put.
    fn publish(&mut self, object: u32, pending: &Pending, sums: PayloadSums<'_>) {
        debug_assert_ne!(pending.first, NONE, "what is published has bytes");
        self.owner_notes().note_replaced_copies(object, pending.first);
        let lease = self.stored.take_read_lease(object);
        let replaces = match self.stored.keys[object].first {
            NONE => pending.replaces,
            _ => Pins::of(&self.stored, object),
        };
        let stamp = self.stored.clock.touch();
        let objects = self.stored.keys.len();
        self.reports.gone(
            &self.stored,
            object,
            self.stored.keys[object].first,
            self.stored.replicas.media(pending.first),
        );
        let record = &mut self.stored.keys[object];
        let old = std::mem::replace(&mut record.first, pending.first);
        record.checksum = sums.whole;
        record.owner = pending.name.client;
        record.stamp = stamp;
        record.probe_end_ms = 0;
        record.flags.set(Flags::HARD_PIN, pending.hard_pin || replaces.hard);
        let hash = record.hash();
        let returned = self.order.policy.take_returned(hash, objects);
        record.set_kind(returned.unwrap_or(pending.kind));
        if returned.is_some() {
            record.flags.set(Flags::HIT, true);
            if let Some(group) = self.stored.groups.get_mut(record.group) {
                group.update(|standing| standing.hit = true);
            }
        }
        self.order.note_access(&self.stored, object, self.stored.kind_of(object), false);
        self.drop_chain(old, Reuse::AfterReads(lease));
        debug_assert!(self.relocation.of(object).is_none(), "a move ends with its source");
        let soft_end_ms = pending.soft_pin.end_ms(
            self.stored.clock.now_ms(),
            self.settings.soft_pin_ttl_ms,
            replaces.soft_end_ms,
        );
        let striped = pending.layout.map(|layout| StripedObject::new(layout, sums.parts));
        self.stored.striped.set(object, striped);
        self.owner_notes().set_soft_pin(object, soft_end_ms);
        self.rebuild.forget(object);
        self.wishes.forget(object);
        self.owner_notes().note_commits(pending.first);
        self.stored.refresh_blocking(object);
        let list = self.stored.list_of(object);
        self.stored.relink(object, list);
        self.demoting().demote_early(pending.first);
        self.tier.tombstones.note_change(hash);
        self.rebuild.note_change(hash);
        let payload_bytes = self.stored.bytes_of_object(object, pending.first);
        self.counters.count_value(payload_bytes);
        self.reports.stored(&self.stored, object, pending.first);
    }

    fn revoke_one(&mut self, put: PutName, key: &[u8], in_flight: bool) -> Result<(), Status> {
        if !in_flight && self.free_discarded(put) != Discarded::No {
            return Ok(());
        }
        let object = self.stored.find(key).ok_or(Status::ObjectNotFound)?;
        let Some(pending) = self.pending.get(object, put.generation) else {
            // What is not under way can be revoked unless it has ended.
            return match self.stored.has_replica(object, put.generation) {
                true => Err(Status::InvalidWrite),
                false => Ok(()),
            };
        };
        if pending.name.client != put.client {
            return Err(Status::IllegalClient);
        }
        if in_flight {
            self.discard_pending(object, put.generation, Reuse::At);
        } else {
            self.drop_pending(object, put.generation, Reuse::Now);
        }
        Ok(())
    }

    /// Frees the quarantined space of a discarded put whose writer has stopped.
    pub(super) fn free_discarded(&mut self, put: PutName) -> Discarded {
        let mut discarded = Discarded::No;
        while let Some(quarantined) = self.space.release_put(put) {
            self.counters.discard_released += 1;
            let pins = self.pending.end_overtaken(&mut self.stored, &quarantined);
            discarded = match (quarantined.superseded, discarded) {
                (None, _) => Discarded::GivenUp,
                (Some(_), Discarded::Superseded(earlier)) => {
                    Discarded::Superseded(earlier.or(pins))
                }
                (Some(_), _) => Discarded::Superseded(pins),
            };
        }
        discarded
    }
}

pub(super) fn code(result: Result<(), Status>) -> i32 {
    result.err().unwrap_or(Status::Ok).code()
}
