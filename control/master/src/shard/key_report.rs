//! What the shard reports of its keys to a publisher.
//! Invariant: a key is reported as stored when its value can be read, and as removed before its
//! last replica goes; without a publisher nothing is copied.

use crate::key_events::{KeyChange, KeyEvent, KeyEventQueue};

use super::KeyShard;

impl KeyShard {
    /// From now on, changes of keys go into this queue.
    pub fn report_to(&mut self, queue: KeyEventQueue) {
        self.events = Some(queue);
    }

    /// An object got or is about to lose its replicas, of which `replica` is the first.
    pub(super) fn report_key(&self, change: KeyChange, object: u32, replica: u32) {
        let Some(queue) = &self.events else {
            return;
        };
        if self.was_never_whole(object, replica) {
            return;
        }
        queue.push(KeyEvent {
            change,
            key: self.keys[object].key().into(),
            payload_bytes: self.bytes_of_object(object, replica),
            group: self.groups.name(self.keys[object].group).map(Into::into),
        });
    }
}
