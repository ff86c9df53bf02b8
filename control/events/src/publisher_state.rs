//! What the publisher's thread and its connections share: the batches, numbered, and their counts.
//! Invariant: event ids and sequence numbers rise, and each dropped event leaves a gap.

use crate::batch::{BatchEncoder, PublishedEvent};
use crate::counts::{SharedCounts, count};
use crate::event_log::{EventLog, Payload};
use crate::limits::{BATCH_EVENTS_MAX, LINGER};
use crate::sequence_hash::sequence_hash;
use crate::settings::EventSettings;
use perigee_master::{KeyEvent, KeyEventQueue, Medium, WaitingEvents};
use std::cell::{Cell, RefCell};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::sync::{Notify, watch};

/// More than a master can publish in a millisecond, as a power of two.
const SEQUENCES_PER_MS_BITS: u32 = 16;

/// What the thread and its connections share.
pub(crate) struct PublisherState {
    settings: EventSettings,
    encoder: BatchEncoder,
    log: RefCell<EventLog>,
    updates: watch::Sender<u64>,
    next_event: Cell<u64>,
    counts: Arc<SharedCounts>,
}

impl PublisherState {
    /// # Errors
    /// A setting does not fit into a message.
    pub(crate) fn new(settings: EventSettings, counts: Arc<SharedCounts>) -> io::Result<Self> {
        let encoder = BatchEncoder::new(&settings).map_err(io::Error::other)?;
        Ok(Self {
            encoder,
            settings,
            log: RefCell::new(EventLog::starting_at(first_sequence())),
            updates: watch::Sender::new(0),
            next_event: Cell::new(0),
            counts,
        })
    }

    /// Sequence number of the next batch.
    pub(crate) fn next_sequence(&self) -> u64 {
        self.log.borrow().next_sequence()
    }

    /// The first batch from a sequence number on.
    pub(crate) fn batch_from(&self, sequence: u64) -> Option<(u64, Payload)> {
        self.log.borrow().from(sequence)
    }

    /// Changes when there are new batches.
    pub(crate) fn updates(&self) -> watch::Receiver<u64> {
        self.updates.subscribe()
    }

    pub(crate) fn counts(&self) -> &SharedCounts {
        &self.counts
    }

    /// Publishes what comes, for ever.
    pub(crate) async fn take_events(&self, queues: &[KeyEventQueue], events: &Notify) {
        self.publish(&Medium::ALL.map(PublishedEvent::Cleared));
        loop {
            events.notified().await;
            for queue in queues {
                self.publish_waiting(&queue.take());
            }
            tokio::time::sleep(LINGER).await;
        }
    }

    fn publish_waiting(&self, waiting: &WaitingEvents) {
        if waiting.dropped > 0 {
            count(&self.counts.dropped_events, waiting.dropped);
            self.log.borrow_mut().skip(waiting.dropped);
        }
        let wanted = waiting.events.iter().filter(|event| self.is_wanted(event));
        let events: Vec<_> = wanted.map(PublishedEvent::Key).collect();
        events.chunks(BATCH_EVENTS_MAX).for_each(|batch| self.publish(batch));
        if events.is_empty() && waiting.dropped > 0 {
            // The gap is seen with the next message, which may be long in coming.
            self.publish(&[]);
        }
    }

    /// An event that names neither a hash nor a key would say nothing.
    fn is_wanted(&self, event: &KeyEvent) -> bool {
        let is_hash = std::str::from_utf8(&event.key).is_ok_and(|key| sequence_hash(key).is_some());
        count(&self.counts.skipped_unparsed_keys, u64::from(!is_hash));
        is_hash || self.settings.has_object_key
    }

    /// Whether some consumer is sent this batch, or may ask for it later.
    fn is_listened_to(&self) -> bool {
        self.settings.replay.is_some() || self.counts.subscribers.load(Ordering::Relaxed) > 0
    }

    fn publish(&self, events: &[PublishedEvent<'_>]) {
        let first_id = self.next_event.get();
        self.next_event.set(first_id + events.len() as u64);
        let mut log = self.log.borrow_mut();
        if !self.is_listened_to() {
            // A number that no consumer can ask for needs no batch.
            log.skip(1);
            count(&self.counts.published_batches, 1);
            count(&self.counts.published_events, events.len() as u64);
            self.counts.next_sequence.store(log.next_sequence(), Ordering::Relaxed);
            return;
        }
        match self.encoder.encode(events, first_id, unix_ms()) {
            Ok(batch) => {
                log.push(batch.into());
                count(&self.counts.published_batches, 1);
                count(&self.counts.published_events, events.len() as u64);
            }
            Err(error) => {
                tracing::error!(%error, "A batch of KV events cannot be encoded; it is left out");
                count(&self.counts.dropped_events, events.len() as u64);
                log.skip(1);
            }
        }
        let next = log.next_sequence();
        self.counts.next_sequence.store(next, Ordering::Relaxed);
        self.updates.send_replace(next);
    }
}

/// Sequence number of the first batch. It rises from one life of the master to the next, so that a
/// restart is a gap, which no replay fills.
fn first_sequence() -> u64 {
    (unix_ms().unsigned_abs()) << SEQUENCES_PER_MS_BITS
}

fn unix_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::Endpoint;

    fn state(replay: Option<Endpoint>) -> PublisherState {
        let settings = EventSettings {
            publish: Endpoint::Tcp("localhost".to_owned(), 0),
            replay,
            backend_id: "pool".to_owned(),
            model_name: None,
            block_size: None,
            additional_salt: None,
            lora_name: None,
            dp_rank: 0,
            has_object_key: true,
            has_legacy_fields: true,
            queue_capacity: 8,
        };
        PublisherState::new(settings, Arc::default()).unwrap()
    }

    #[test]
    fn a_batch_is_encoded_only_if_a_consumer_may_get_it() {
        let alone = state(None);
        let first = alone.next_sequence();
        alone.publish(&[PublishedEvent::Cleared(Medium::Memory)]);
        assert_eq!((alone.next_sequence(), alone.batch_from(first)), (first + 1, None));
        assert_eq!(alone.counts.published_events.load(Ordering::Relaxed), 1);
        alone.counts.subscribers.fetch_add(1, Ordering::Relaxed);
        alone.publish(&[PublishedEvent::Cleared(Medium::Memory)]);
        assert!(alone.batch_from(first).is_some_and(|(sequence, _)| sequence == first + 1));
        let replayed = state(Some(Endpoint::Tcp("localhost".to_owned(), 0)));
        replayed.publish(&[PublishedEvent::Cleared(Medium::Memory)]);
        assert!(replayed.batch_from(0).is_some());
    }
}
