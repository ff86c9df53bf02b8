//! What a shard reports of its keys to a publisher.
//! Invariant: a key is reported as stored in each medium where its value can be read, and as
//! removed when it cannot be read there; the last report of a key that can be read somewhere says
//! stored. Where no consumer listens nothing is copied.

#[cfg(test)]
mod tests;

use crate::event_queue::KeyEventQueue;
use crate::key_event::{KeyChange, KeyEvent, Media, Medium};
use crate::slab::NONE;
use crate::stored::StoredObjects;

#[derive(Debug, Default)]
pub(crate) struct KeyReports {
    /// Where changes of keys go.
    queue: Option<KeyEventQueue>,
}

impl KeyReports {
    /// From now on, changes of keys go into this queue.
    pub(crate) fn open(&mut self, queue: KeyEventQueue) {
        self.queue = Some(queue);
    }

    /// The queue, if a consumer wants the event that comes next.
    fn listened(&self) -> Option<&KeyEventQueue> {
        self.queue.as_ref().filter(|queue| queue.is_wanted())
    }

    /// An object got its value in memory, of which `replica` is the first.
    pub(crate) fn stored(&self, stored: &StoredObjects, object: u32, replica: u32) {
        self.key_changed(
            stored,
            KeyChange::Stored,
            object,
            replica,
            stored.replicas[replica].medium(),
        );
    }

    /// An object got one more complete replica.
    pub(crate) fn joined(&self, stored: &StoredObjects, object: u32, id: u32) {
        if self.listened().is_none() {
            return;
        }
        let medium = stored.replicas[id].medium();
        let mut others =
            stored.replicas.chain(stored.keys[object].first).filter(|other| *other != id);
        if others.all(|other| stored.replicas[other].medium() != medium) {
            self.key_changed(stored, KeyChange::Stored, object, id, medium);
        }
    }

    /// A complete replica left the chain of an object, which now begins with `first`. Where others
    /// remain is said once more: a consumer that ignores media takes what was removed for gone.
    pub(crate) fn left(&self, stored: &StoredObjects, object: u32, gone: u32, first: u32) {
        if self.listened().is_none() {
            return;
        }
        let (medium, left) = (stored.replicas[gone].medium(), stored.replicas.media(first));
        if left.has(medium) {
            return;
        }
        self.key_changed(stored, KeyChange::Removed, object, gone, medium);
        for medium in left.iter() {
            self.key_changed(stored, KeyChange::Stored, object, first, medium);
        }
    }

    /// An object is about to lose a chain of complete replicas, but in the media `kept` its key has
    /// another value already.
    pub(crate) fn gone(&self, stored: &StoredObjects, object: u32, first: u32, kept: Media) {
        if first == NONE || self.listened().is_none() {
            return;
        }
        for medium in stored.replicas.media(first).iter().filter(|medium| !kept.has(*medium)) {
            self.key_changed(stored, KeyChange::Removed, object, first, medium);
        }
    }

    /// A key that nothing was known of lies on a disk.
    pub(crate) fn packed(&self, key: &[u8], payload_bytes: u64) {
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

    fn key_changed(
        &self,
        stored: &StoredObjects,
        change: KeyChange,
        object: u32,
        replica: u32,
        medium: Medium,
    ) {
        let Some(queue) = self.listened() else {
            return;
        };
        if stored.was_never_whole(object, replica) {
            return;
        }
        queue.push(&KeyEvent {
            change,
            medium,
            key: stored.keys[object].key(),
            payload_bytes: stored.bytes_of_object(object, replica),
            group: stored.groups.name(stored.keys[object].group).map(str::as_bytes),
        });
    }
}
