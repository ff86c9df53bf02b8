//! Which keys became readable and which are gone, and where they lie, kept for a publisher on
//! another thread.
//! Invariant: the events of one key stay in the order of its changes; beyond the capacity the
//! oldest go, and are counted.

use std::collections::VecDeque;
use std::fmt::{Debug, Formatter};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What happened to a key in one medium.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyChange {
    /// A value can be read there: a new one, one in place of another, or another copy of it.
    Stored,
    /// There is nothing to read there any more.
    Removed,
}

/// What a value lies on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Medium {
    /// Memory of a host.
    Memory,
    /// A disk.
    Disk,
}

impl Medium {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Memory, Self::Disk];

    /// The word that consumers of events know.
    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "cpu",
            Self::Disk => "disk",
        }
    }
}

/// The media that one value lies on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Media(u8);

impl Media {
    /// Whether the value lies there.
    pub fn has(self, medium: Medium) -> bool {
        self.0 & Self::bit(medium) != 0
    }

    /// Each of them.
    pub fn iter(self) -> impl Iterator<Item = Medium> {
        Medium::ALL.into_iter().filter(move |medium| self.has(*medium))
    }

    fn bit(medium: Medium) -> u8 {
        1 << medium as u8
    }
}

impl FromIterator<Medium> for Media {
    fn from_iter<I: IntoIterator<Item = Medium>>(media: I) -> Self {
        Self(media.into_iter().fold(0, |bits, medium| bits | Self::bit(medium)))
    }
}

/// One change of one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyEvent {
    /// What happened.
    pub change: KeyChange,
    /// Where.
    pub medium: Medium,
    /// The key.
    pub key: Box<[u8]>,
    /// Length of the value in bytes.
    pub payload_bytes: u64,
    /// The group of the object, if it has one.
    pub group: Option<Box<str>>,
}

/// Events of one shard that were not taken yet; clones share them.
#[derive(Clone)]
pub struct KeyEventQueue(Arc<SharedQueue>);

struct SharedQueue {
    capacity: usize,
    waiting: Mutex<WaitingEvents>,
    wake: Box<dyn Fn() + Send + Sync>,
}

/// What [`KeyEventQueue::take`] found.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct WaitingEvents {
    /// The events, oldest first.
    pub events: VecDeque<KeyEvent>,
    /// Older events that had no room.
    pub dropped: u64,
}

impl KeyEventQueue {
    /// An empty queue of at most `capacity` events. `wake` is called when it gets its first one,
    /// on the thread of the shard: it must not block.
    pub fn new(capacity: usize, wake: impl Fn() + Send + Sync + 'static) -> Self {
        let waiting = Mutex::default();
        Self(Arc::new(SharedQueue { capacity, waiting, wake: Box::new(wake) }))
    }

    /// Takes all events out.
    pub fn take(&self) -> WaitingEvents {
        std::mem::take(&mut *self.lock())
    }

    pub(crate) fn push(&self, event: KeyEvent) {
        let mut waiting = self.lock();
        let was_empty = waiting.events.is_empty();
        if waiting.events.len() >= self.0.capacity {
            waiting.events.pop_front();
            waiting.dropped += 1;
        }
        waiting.events.push_back(event);
        drop(waiting);
        if was_empty {
            (self.0.wake)();
        }
    }

    fn lock(&self) -> MutexGuard<'_, WaitingEvents> {
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Debug for KeyEventQueue {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("KeyEventQueue").field("capacity", &self.0.capacity).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn stored(key: &str) -> KeyEvent {
        KeyEvent {
            change: KeyChange::Stored,
            medium: Medium::Memory,
            key: key.as_bytes().into(),
            payload_bytes: 1,
            group: None,
        }
    }

    #[test]
    fn the_oldest_go_and_are_counted() {
        let queue = KeyEventQueue::new(2, || {});
        for key in ["a", "b", "c"] {
            queue.push(stored(key));
        }
        let taken = queue.take();
        assert_eq!(taken, WaitingEvents { events: [stored("b"), stored("c")].into(), dropped: 1 });
        assert_eq!(queue.take(), WaitingEvents::default());
    }

    #[test]
    fn it_wakes_once_until_it_is_empty_again() {
        let woken = Arc::new(AtomicUsize::new(0));
        let count = woken.clone();
        let queue = KeyEventQueue::new(8, move || {
            count.fetch_add(1, Ordering::Relaxed);
        });
        queue.push(stored("a"));
        queue.push(stored("b"));
        assert_eq!(woken.load(Ordering::Relaxed), 1);
        queue.take();
        queue.push(stored("c"));
        assert_eq!(woken.load(Ordering::Relaxed), 2);
    }
}
