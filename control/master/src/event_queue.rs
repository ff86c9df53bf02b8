//! Which keys became readable and which are gone, and where they lie, kept for a publisher on
//! another thread.
//! Invariant: the events of one key stay in the order of its changes; beyond the bounds in events
//! and in bytes the oldest go, and are counted.

use crate::event_records::EventRecords;
use crate::key_event::KeyEvent;
use crate::limits::WAITING_EVENT_BYTES_MAX;
use attention::Attention;
use std::fmt::{Debug, Formatter};
use std::sync::Arc;

mod attention;
mod sync;

/// Events of one shard that were not taken yet; clones share them.
#[derive(Clone)]
pub struct KeyEventQueue(Arc<SharedQueue>);

struct SharedQueue {
    capacity: usize,
    attention: Attention<WaitingEvents>,
    wake: Box<dyn Fn() + Send + Sync>,
}

/// What [`KeyEventQueue::take`] found.
#[derive(Default)]
pub struct WaitingEvents {
    /// The events, oldest first.
    pub events: EventRecords,
    /// Older events that had no room.
    pub dropped: u64,
}

impl KeyEventQueue {
    /// An empty queue of at most `capacity` events, which are wanted. `wake` is called when it gets
    /// its first one, on the thread of the shard: it must not block.
    pub fn new(capacity: usize, wake: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Arc::new(SharedQueue { capacity, attention: Attention::new(), wake: Box::new(wake) }))
    }

    /// Takes all events out, in place of what was there. Both memories are used again in turn.
    pub fn take(&self, into: &mut WaitingEvents) {
        into.events.clear();
        into.dropped = 0;
        std::mem::swap(into, &mut *self.0.attention.waiting());
    }

    /// Events are wanted from now on. Whether some were missed before, because no consumer wanted
    /// them: then those that were older and still waited are gone as well.
    pub fn begin(&self) -> bool {
        self.0.attention.begin()
    }

    /// Events are not wanted any more: none comes in until the next [`Self::begin`].
    pub fn end(&self) {
        self.0.attention.end();
    }

    /// Whether the next event is wanted; if not, it counts as missed. Only the shard asks.
    pub fn is_wanted(&self) -> bool {
        self.0.attention.is_wanted()
    }

    /// Adds an event that is wanted.
    pub fn push(&self, event: &KeyEvent<'_>) {
        let mut waiting = self.0.attention.waiting();
        let was_empty = waiting.events.is_empty();
        waiting.events.push(event);
        while waiting.events.len() > self.0.capacity
            || waiting.events.bytes() > WAITING_EVENT_BYTES_MAX
        {
            waiting.events.drop_oldest();
            waiting.dropped += 1;
        }
        drop(waiting);
        if was_empty {
            (self.0.wake)();
        }
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
    use crate::key_event::{KeyChange, Medium};
    use proptest::prelude::*;
    use std::collections::VecDeque;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn stored(key: &[u8]) -> KeyEvent<'_> {
        KeyEvent {
            change: KeyChange::Stored,
            medium: Medium::Memory,
            key,
            payload_bytes: 1,
            group: None,
        }
    }

    /// The keys that wait, and how many were dropped.
    fn taken(queue: &KeyEventQueue) -> (Vec<Vec<u8>>, u64) {
        let mut waiting = WaitingEvents::default();
        queue.take(&mut waiting);
        (waiting.events.iter().map(|event| event.key.to_vec()).collect(), waiting.dropped)
    }

    proptest! {
        #[test]
        fn the_oldest_go_when_there_are_too_many_and_each_is_counted(
            capacity in 1_usize..20,
            pushes in proptest::collection::vec(proptest::option::weighted(0.9, "[a-z]{0,9}"), 0..200),
        ) {
            let queue = KeyEventQueue::new(capacity, || {});
            let (mut model, mut dropped) = (VecDeque::new(), 0);
            let mut waiting = WaitingEvents::default();
            for push in pushes.iter().map(Option::as_ref).chain([None]) {
                let Some(key) = push else {
                    queue.take(&mut waiting);
                    let keys = waiting.events.iter().map(|event| event.key);
                    prop_assert!(keys.eq(model.drain(..)));
                    prop_assert_eq!(waiting.dropped, std::mem::take(&mut dropped));
                    continue;
                };
                queue.push(&stored(key.as_bytes()));
                model.push_back(key.as_bytes());
                if model.len() > capacity {
                    model.pop_front();
                    dropped += 1;
                }
            }
        }
    }

    #[test]
    fn the_oldest_go_when_they_take_too_many_bytes() {
        let queue = KeyEventQueue::new(usize::MAX, || {});
        let key = vec![7; WAITING_EVENT_BYTES_MAX / 4];
        for _ in 0..5 {
            queue.push(&stored(&key));
        }
        let (keys, dropped) = taken(&queue);
        assert_eq!((keys.len(), dropped), (3, 2));
    }

    #[test]
    fn what_was_missed_is_said_once_to_the_next_consumer() {
        let queue = KeyEventQueue::new(8, || {});
        assert!(queue.is_wanted());
        queue.end();
        assert!(!queue.begin(), "nothing has happened in between");
        queue.end();
        assert!(!queue.is_wanted() && !queue.is_wanted());
        queue.end();
        assert!(queue.begin() && queue.is_wanted());
        assert!(!queue.begin());
    }

    #[test]
    fn what_is_older_than_a_missed_event_is_gone_with_it() {
        let queue = KeyEventQueue::new(8, || {});
        queue.push(&stored(b"before"));
        queue.end();
        assert!(!queue.begin(), "nothing was missed");
        assert_eq!(taken(&queue), (vec![b"before".to_vec()], 0));
        queue.push(&stored(b"before"));
        queue.end();
        assert!(!queue.is_wanted());
        assert!(queue.begin());
        assert_eq!(taken(&queue), (vec![], 0));
    }

    #[test]
    fn it_wakes_once_until_it_is_empty_again() {
        let woken = Arc::new(AtomicUsize::new(0));
        let count = woken.clone();
        let queue = KeyEventQueue::new(8, move || {
            count.fetch_add(1, Ordering::Relaxed);
        });
        queue.push(&stored(b"a"));
        queue.push(&stored(b"b"));
        assert_eq!(woken.load(Ordering::Relaxed), 1);
        assert_eq!(taken(&queue), (vec![b"a".to_vec(), b"b".to_vec()], 0));
        queue.push(&stored(b"c"));
        assert_eq!(woken.load(Ordering::Relaxed), 2);
    }
}
