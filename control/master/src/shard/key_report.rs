//! What the shard reports of its keys to a publisher.
//! Invariant: a key is reported as stored in each medium where its value can be read, and as
//! removed when it cannot be read there; the last report of a key that can be read somewhere says
//! stored. Where no consumer listens nothing is copied.

use crate::key_event::{KeyChange, KeyEvent, Media, Medium};
use crate::key_events::KeyEventQueue;
use crate::slab::NONE;

use super::KeyShard;

impl KeyShard {
    /// From now on, changes of keys go into this queue.
    pub fn report_to(&mut self, queue: KeyEventQueue) {
        self.events = Some(queue);
    }

    /// The queue, if a consumer wants the event that comes next.
    fn listened(&self) -> Option<&KeyEventQueue> {
        self.events.as_ref().filter(|queue| queue.is_wanted())
    }

    /// An object got its value in memory, of which `replica` is the first.
    pub(super) fn report_stored(&self, object: u32, replica: u32) {
        self.report_key(KeyChange::Stored, object, replica, self.stored.replicas[replica].medium());
    }

    /// An object got one more complete replica.
    pub(super) fn report_joined(&self, object: u32, id: u32) {
        if self.listened().is_none() {
            return;
        }
        let medium = self.stored.replicas[id].medium();
        let mut others =
            self.stored.replicas.chain(self.stored.keys[object].first).filter(|other| *other != id);
        if others.all(|other| self.stored.replicas[other].medium() != medium) {
            self.report_key(KeyChange::Stored, object, id, medium);
        }
    }

    /// A complete replica left the chain of an object, which now begins with `first`. Where others
    /// remain is said once more: a consumer that ignores media takes what was removed for gone.
    pub(super) fn report_left(&self, object: u32, gone: u32, first: u32) {
        if self.listened().is_none() {
            return;
        }
        let (medium, left) =
            (self.stored.replicas[gone].medium(), self.stored.replicas.media(first));
        if left.has(medium) {
            return;
        }
        self.report_key(KeyChange::Removed, object, gone, medium);
        for medium in left.iter() {
            self.report_key(KeyChange::Stored, object, first, medium);
        }
    }

    /// An object is about to lose a chain of complete replicas, but in the media `kept` its key has
    /// another value already.
    pub(super) fn report_gone(&self, object: u32, first: u32, kept: Media) {
        if first == NONE || self.listened().is_none() {
            return;
        }
        for medium in self.stored.replicas.media(first).iter().filter(|medium| !kept.has(*medium)) {
            self.report_key(KeyChange::Removed, object, first, medium);
        }
    }

    /// A key that nothing was known of lies on a disk.
    pub(super) fn report_packed(&self, key: &[u8], payload_bytes: u64) {
        let Some(queue) = self.listened() else {
            return;
        };
        queue.push(&KeyEvent {
            change: KeyChange::Stored,
            medium: Medium::Disk,
            key,
            payload_bytes,
            group: None,
        });
    }

    fn report_key(&self, change: KeyChange, object: u32, replica: u32, medium: Medium) {
        let Some(queue) = self.listened() else {
            return;
        };
        if self.stored.was_never_whole(object, replica) {
            return;
        }
        queue.push(&KeyEvent {
            change,
            medium,
            key: self.stored.keys[object].key(),
            payload_bytes: self.stored.bytes_of_object(object, replica),
            group: self.stored.groups.name(self.stored.keys[object].group).map(str::as_bytes),
        });
    }
}
