//! Leases and recency: what a probe or a read of an object changes, and leases that end before
//! their time because their readers have finished.
//! Invariant: only its readers shorten a lease, and all members of a group get the lease together;
//! it ends early only when every reader that it was granted to has given it back.

use crate::given_back::lease_name;
use crate::list_name::ListName;
use crate::object::Flags;
use crate::policy::ObjectKind;
use crate::quarantine::ReadHold;
use crate::slab::NONE;
use crate::touch::Touch;

use super::StoredObjects;

impl StoredObjects {
    /// Grants the lease to an object, or to its whole group, and makes it the newest. Returns the
    /// name by which a reader gives its lease back.
    pub(crate) fn touch(&mut self, object: u32, touch: Touch) -> u64 {
        match self.keys[object].group {
            NONE => self.touch_one(object, touch),
            group => self.touch_group(group, object, touch),
        }
        self.lease_name(object)
    }

    fn touch_one(&mut self, object: u32, touch: Touch) {
        let now_ms = self.clock.now_ms();
        let end_ms = now_ms.saturating_add(self.lease_ttl_ms);
        let stamp = self.clock.touch();
        let record = &mut self.keys[object];
        match touch {
            Touch::Read => {
                record.grant(now_ms, end_ms);
                record.flags.set(Flags::HIT, true);
            }
            Touch::Probe => {
                record.probe_end_ms = record.probe_end_ms.max(end_ms);
                if record.read_end_ms > now_ms {
                    // It stays where the read put it, so that the lists of readers stay in order of
                    // lease ends.
                    return;
                }
            }
        }
        debug_assert!(record.stamp < stamp, "each touch is later");
        record.stamp = stamp;
        let list = self.list_of(object);
        if list != ListName::Held {
            self.relink(object, list);
        }
    }

    /// Each reader of each member is counted; the group becomes the newest once per call.
    fn touch_group(&mut self, group: u32, object: u32, touch: Touch) {
        let (now_ms, calls) = (self.clock.now_ms(), self.clock.call());
        let end_ms = now_ms.saturating_add(self.lease_ttl_ms);
        let Some(part) = self.groups.get_mut(group) else {
            return;
        };
        let is_read = part.seen.read_end_ms > now_ms;
        let is_first = part.note_call(calls);
        match touch {
            Touch::Read => {
                self.keys[object].grant(now_ms, end_ms);
                part.update(|whole| whole.grant(now_ms, end_ms));
            }
            Touch::Probe if is_first => {
                part.update(|whole| whole.probe_end_ms = whole.probe_end_ms.max(end_ms));
            }
            Touch::Probe => {}
        }
        if !is_first {
            return;
        }
        self.clock.touch();
        // As with single objects: a probe leaves what is being read where it is.
        if touch == Touch::Read || !is_read {
            self.relink_group(group);
        }
    }

    /// Name of the running lease on an object.
    fn lease_name(&self, object: u32) -> u64 {
        lease_name(self.shard, self.seed, self.keys[object].term, object)
    }

    /// The running read lease on an object's replicas.
    pub(crate) fn read_lease(&self, object: u32) -> ReadHold {
        let record = &self.keys[object];
        ReadHold { end_ms: record.read_end_ms, readers: record.readers(), term: record.term }
    }

    /// As `read_lease`, when all replicas are about to go: the lease goes with them and keeps the
    /// object's group no longer.
    pub(crate) fn take_read_lease(&mut self, object: u32) -> ReadHold {
        let lease = self.read_lease(object);
        let record = &mut self.keys[object];
        record.set_readers(0);
        record.read_end_ms = 0;
        let group = record.group;
        if group != NONE && lease.readers > 0 && lease.end_ms > self.clock.now_ms() {
            self.end_reads_of_group(group, lease.readers);
        }
        lease
    }

    /// One reader of an object less. After the last one it counts as touched, so that it goes no
    /// sooner than if its lease had run out.
    pub(crate) fn end_read(&mut self, object: u32, term: u8) {
        let now_ms = self.clock.now_ms();
        let record = &mut self.keys[object];
        if !record.give_back(now_ms, term) {
            return;
        }
        if record.group != NONE {
            let group = record.group;
            self.end_reads_of_group(group, 1);
        } else if record.readers() == 0 {
            record.stamp = self.clock.touch();
            let list = self.list_of(object);
            self.relink(object, list);
        }
    }

    /// Some readers of a group's members less. After the last one the group counts as touched.
    fn end_reads_of_group(&mut self, group: u32, readers: u16) {
        let Some(part) = self.groups.get_mut(group) else {
            return;
        };
        part.update(|whole| whole.give_back(readers.into()));
        if part.seen.readers == 0 {
            self.clock.touch();
            self.relink_group(group);
        }
    }

    pub(crate) fn has_replica(&self, object: u32, generation: u64) -> bool {
        let Some(record) = self.keys.get(object) else {
            return false;
        };
        self.replicas.chain(record.first).any(|id| self.replicas[id].generation == generation)
    }

    pub(crate) fn idle_ms(&self, object: u32) -> u64 {
        let stamp = self.groups.touched(&self.keys[object]).stamp;
        self.clock.idle_ms(stamp)
    }

    /// Notes what other shards have changed about a group. That was a touch, so the group becomes
    /// the newest.
    pub(crate) fn look_again(&mut self, group: u32) {
        if let Some(part) = self.groups.get_mut(group) {
            part.update(|_| ());
            self.clock.touch();
            self.relink_group(group);
        }
    }

    /// The kind of an object, or of its group.
    pub(crate) fn kind_of(&self, object: u32) -> ObjectKind {
        let record = &self.keys[object];
        match self.groups.get(record.group) {
            None => record.kind(),
            Some(group) if group.seen.hit => ObjectKind::READ,
            Some(_) => ObjectKind::GROUPED,
        }
    }

    /// When a lease ends that begins now.
    pub(crate) fn lease_end_ms(&self) -> u64 {
        self.clock.now_ms().saturating_add(self.lease_ttl_ms)
    }
}
