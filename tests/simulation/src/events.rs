//! What will happen, in the order of time. Invariant: events of one moment happen in the order they
//! were planned.

use crate::network::{Arrival, HostId};
use std::collections::BTreeMap;
use std::task::Waker;
use std::time::Duration;

/// Something at a moment.
#[derive(Debug)]
pub(crate) enum Event {
    /// A sleep is over.
    Wake(Waker),
    /// Something arrives at a host.
    Arrive(Arrival),
    /// The disk of a host carries out an operation.
    Disk(HostId, u64),
}

/// Names an event, to take it back.
pub(crate) type EventKey = (Duration, u64);

/// All events to come.
#[derive(Debug, Default)]
pub(crate) struct Events {
    queue: BTreeMap<EventKey, Event>,
    planned: u64,
}

impl Events {
    pub(crate) fn plan(&mut self, at: Duration, event: Event) -> EventKey {
        self.planned += 1;
        let key = (at, self.planned);
        self.queue.insert(key, event);
        key
    }

    pub(crate) fn take_back(&mut self, key: EventKey) -> Option<Event> {
        self.queue.remove(&key)
    }

    /// When the next event is due.
    pub(crate) fn next_at(&self) -> Option<Duration> {
        self.queue.keys().next().map(|(at, _)| *at)
    }

    pub(crate) fn pop(&mut self) -> Option<Event> {
        self.queue.pop_first().map(|(_, event)| event)
    }

    pub(crate) fn clear(&mut self) -> BTreeMap<EventKey, Event> {
        std::mem::take(&mut self.queue)
    }

    /// Sleeps that have not ended.
    pub(crate) fn sleeps(&self) -> usize {
        self.queue.values().filter(|event| matches!(event, Event::Wake(_))).count()
    }
}
