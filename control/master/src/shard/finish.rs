//! The second phase of a put: it ends and becomes visible, or it is revoked.
//! Invariant: only the client that started a put can finish it, and a finished put stays as it is.

use perigee_schemas::Status;

use crate::object::Flags;
use crate::pending::{Pending, PendingPin};
use crate::slab::NONE;

use super::Shard;
use super::space::Reuse;

impl Shard {
    /// Makes puts visible; `checksums` has the CRC-32C of each payload. One status per key.
    ///
    /// Status -704: unknown key, or its segments are gone; -601: another client's put; -700: the put was discarded
    /// and the key has other bytes. Repeating is fine.
    pub fn put_end(
        &mut self,
        now_ms: u64,
        client: u128,
        keys: &[&[u8]],
        checksums: &[u32],
        out: &mut Vec<i32>,
    ) {
        self.begin(now_ms);
        out.clear();
        out.resize(keys.len(), Status::InvalidParams.code());
        if checksums.len() != keys.len() {
            return;
        }
        // Last to first, so that the first key of a batch is the newest.
        for at in (0..keys.len()).rev() {
            out[at] = code(self.end_one(client, keys[at], checksums[at]));
        }
    }

    /// Takes started puts back and frees their space at once. One status per key.
    ///
    /// Status -704: unknown key; -601: another client's put; -700: the put has ended.
    pub fn put_revoke(&mut self, now_ms: u64, client: u128, keys: &[&[u8]], out: &mut Vec<i32>) {
        self.begin(now_ms);
        out.clear();
        for key in keys {
            out.push(code(self.revoke_one(client, key)));
        }
    }

    fn end_one(&mut self, client: u128, key: &[u8], checksum: u32) -> Result<(), Status> {
        let object = self.find(key).ok_or(Status::ObjectNotFound)?;
        let Some(pending) = self.pending.get(object) else {
            return self.end_again(object, client, checksum);
        };
        if pending.client != client {
            return Err(Status::IllegalClient);
        }
        let first = pending.first;
        if !self
            .chain(first)
            .any(|id| self.is_readable(self.replicas[id].segment))
        {
            self.discard_pending(object);
            return Err(Status::ObjectNotFound);
        }
        if let Some(pending) = self.pending.remove(object) {
            self.publish(object, &pending, checksum);
        }
        Ok(())
    }

    /// A put that has ended may be ended again; one that was discarded in favour of other bytes may not.
    fn end_again(&self, object: u32, client: u128, checksum: u32) -> Result<(), Status> {
        let record = &self.objects[object];
        if record.owner != client {
            Err(Status::IllegalClient)
        } else if record.checksum != checksum {
            Err(Status::InvalidWrite)
        } else {
            Ok(())
        }
    }

    /// Replaces an object's complete replicas by the ones of a put.
    fn publish(&mut self, object: u32, pending: &Pending, checksum: u32) {
        let (read_end_ms, probe_end_ms) = match self.groups.get(self.objects[object].group) {
            Some(group) => (group.read_end_ms, group.probe_end_ms),
            None => (0, 0),
        };
        self.clock += 1;
        let objects = self.objects.len();
        let record = &mut self.objects[object];
        let (old, old_read_end_ms) = (record.first, record.read_end_ms);
        record.first = pending.first;
        record.checksum = checksum;
        record.owner = pending.client;
        record.stamp = self.clock;
        record.read_end_ms = read_end_ms;
        record.probe_end_ms = probe_end_ms;
        record.flags.set(Flags::PENDING, false);
        record.flags.set(Flags::HARD_PIN, pending.hard_pin);
        if self.ghosts.take(record.hash, objects) {
            record.flags.set(Flags::HIT, true);
        }
        self.drop_chain(old, old_read_end_ms, Reuse::AfterReads);
        self.set_soft_pin(object, self.pin_end_ms(pending.soft_pin));
        self.refresh_blocking(object);
        let list = self.list_of(object);
        self.relink(object, list);
        let payload_bytes = self.replicas[pending.first].payload_bytes;
        self.counters.count_value(payload_bytes);
    }

    fn pin_end_ms(&self, pin: PendingPin) -> Option<u64> {
        match pin {
            PendingPin::For(ttl_ms) => Some(self.now_ms.saturating_add(ttl_ms)),
            PendingPin::Until(end_ms) => (end_ms > self.now_ms).then_some(end_ms),
            PendingPin::None => None,
        }
    }

    fn revoke_one(&mut self, client: u128, key: &[u8]) -> Result<(), Status> {
        let object = self.find(key).ok_or(Status::ObjectNotFound)?;
        let pending = self.pending.get(object).ok_or(Status::InvalidWrite)?;
        if pending.client != client {
            return Err(Status::IllegalClient);
        }
        let first = self
            .pending
            .remove(object)
            .map_or(NONE, |pending| pending.first);
        self.objects[object].flags.set(Flags::PENDING, false);
        self.drop_chain(first, 0, Reuse::AfterReads);
        self.settle(object);
        Ok(())
    }
}

pub(super) fn code(result: Result<(), Status>) -> i32 {
    result.err().unwrap_or(Status::Ok).code()
}
