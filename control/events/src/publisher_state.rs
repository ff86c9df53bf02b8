//! What the publisher's thread and its connections share: the messages, numbered, and their counts.
//! Invariant: event ids and sequence numbers rise, and events that are not published leave a gap.

use crate::batch::BatchEncoder;
use crate::counts::{SharedCounts, count};
use crate::event_log::EventLog;
use crate::limits::LINGER;
use crate::message_run::{MessageRun, RunDraft};
use crate::published_event::{NamedKeyEvent, PublishedEvent};
use crate::settings::EventSettings;
use perigee_master::{KeyEventQueue, Medium, WaitingEvents};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::sync::{Notify, watch};

/// More than a master can publish in a millisecond, as a power of two.
const SEQUENCES_PER_MS_BITS: u32 = 16;
/// What a subscriber without a subscription waits for: nothing is kept for it.
const NOTHING: u64 = u64::MAX;

/// What the thread and its connections share.
pub(crate) struct PublisherState {
    settings: EventSettings,
    encoder: RefCell<BatchEncoder>,
    queues: Vec<KeyEventQueue>,
    log: RefCell<EventLog>,
    /// Of each subscriber, the first message that it was not sent.
    cursors: RefCell<Vec<Rc<Cell<u64>>>>,
    updates: watch::Sender<u64>,
    next_event: Cell<u64>,
    counts: Arc<SharedCounts>,
}

/// The place of one subscriber among the messages, until it is dropped.
pub(crate) struct Cursor {
    state: Rc<PublisherState>,
    next: Rc<Cell<u64>>,
}

impl PublisherState {
    pub(crate) fn new(
        settings: EventSettings,
        queues: Vec<KeyEventQueue>,
        counts: Arc<SharedCounts>,
    ) -> Self {
        let state = Self {
            encoder: RefCell::new(BatchEncoder::new(&settings)),
            settings,
            queues,
            log: RefCell::new(EventLog::starting_at(first_sequence())),
            cursors: RefCell::default(),
            updates: watch::Sender::new(0),
            next_event: Cell::new(0),
            counts,
        };
        if !state.is_listened_to() {
            state.queues.iter().for_each(KeyEventQueue::end);
        }
        state
    }

    /// Sequence number of the next message.
    pub(crate) fn next_sequence(&self) -> u64 {
        self.log.borrow().next_sequence()
    }

    /// The first messages from a sequence number on.
    pub(crate) fn run_from(&self, sequence: u64) -> Option<Rc<MessageRun>> {
        self.log.borrow().from(sequence)
    }

    /// Changes when there are new messages.
    pub(crate) fn updates(&self) -> watch::Receiver<u64> {
        self.updates.subscribe()
    }

    /// A subscriber has come. What happens from now on is published.
    pub(crate) fn join(self: &Rc<Self>) -> Cursor {
        if !self.is_listened_to() {
            let missed = self.queues.iter().fold(false, |missed, queue| queue.begin() | missed);
            // One that was here before sees that there was something.
            self.skip(u64::from(missed));
        }
        let next = Rc::new(Cell::new(NOTHING));
        self.cursors.borrow_mut().push(next.clone());
        self.count_subscribers();
        Cursor { state: self.clone(), next }
    }

    /// Publishes what comes, for ever.
    pub(crate) async fn take_events(&self, events: &Notify) {
        self.publish_cleared();
        let mut waiting = WaitingEvents::default();
        loop {
            events.notified().await;
            self.publish_waiting(&mut waiting);
            tokio::time::sleep(LINGER).await;
        }
    }

    fn publish_cleared(&self) {
        if !self.is_listened_to() {
            // A number that no consumer can ask for needs no message.
            return self.skip(1);
        }
        let encoder = self.timed_encoder();
        let mut draft = self.draft(&encoder);
        for medium in Medium::ALL {
            draft.add(&PublishedEvent::Cleared(medium), self.next_id());
        }
        self.publish(draft);
    }

    fn publish_waiting(&self, waiting: &mut WaitingEvents) {
        self.forget_sent();
        if !self.is_listened_to() {
            return self.discard(waiting);
        }
        let encoder = self.timed_encoder();
        let mut draft = self.draft(&encoder);
        let (mut is_gap_unseen, mut unparsed) = (false, 0);
        for queue in &self.queues {
            queue.take(waiting);
            if waiting.dropped > 0 {
                self.publish(draft);
                count(&self.counts.dropped_events, waiting.dropped);
                self.skip(waiting.dropped);
                draft = self.draft(&encoder);
                is_gap_unseen = true;
            }
            draft.expect(waiting.events.len(), |room| self.memory(room));
            for (at, event) in waiting.events.iter().map(NamedKeyEvent::of).enumerate() {
                unparsed += u64::from(event.hash.is_none());
                // An event that names neither a hash nor a key would say nothing.
                if event.hash.is_none() && !self.settings.has_object_key {
                    continue;
                }
                draft.add(&PublishedEvent::Key(event), self.next_id());
                is_gap_unseen = false;
                if draft.is_full() {
                    self.publish(draft);
                    draft = self.draft(&encoder);
                    draft.expect(waiting.events.len() - at - 1, |room| self.memory(room));
                }
            }
        }
        count(&self.counts.skipped_unparsed_keys, unparsed);
        if is_gap_unseen {
            // The gap is seen with the next message, which may be long in coming.
            draft.add_empty();
        }
        self.publish(draft);
    }

    /// What came before the last consumer went is a gap for the next one.
    fn discard(&self, waiting: &mut WaitingEvents) {
        let mut is_lost = false;
        for queue in &self.queues {
            queue.take(waiting);
            is_lost |= waiting.dropped > 0 || !waiting.events.is_empty();
        }
        self.skip(u64::from(is_lost));
    }

    /// Whether some consumer is sent what is published, or may ask for it later.
    fn is_listened_to(&self) -> bool {
        self.settings.replay.is_some() || !self.cursors.borrow().is_empty()
    }

    /// Forgets what all subscribers were sent, unless it can be asked for once more: the memory is
    /// used again while a core still has it near.
    fn forget_sent(&self) {
        if self.settings.replay.is_none() {
            let cursors = self.cursors.borrow();
            let sent = cursors.iter().map(|next| next.get()).min();
            self.log.borrow_mut().forget_before(sent.unwrap_or(NOTHING));
        }
    }

    fn timed_encoder(&self) -> std::cell::Ref<'_, BatchEncoder> {
        self.encoder.borrow_mut().set_time(unix_ms());
        self.encoder.borrow()
    }

    fn draft<'a>(&self, encoder: &'a BatchEncoder) -> RunDraft<'a> {
        RunDraft::new(encoder, self.next_sequence())
    }

    fn memory(&self, room: usize) -> Vec<u8> {
        self.log.borrow_mut().memory(room)
    }

    fn next_id(&self) -> u64 {
        self.next_event.replace(self.next_event.get() + 1)
    }

    fn publish(&self, draft: RunDraft<'_>) {
        let Some(run) = draft.finish() else {
            return;
        };
        count(&self.counts.published_batches, run.messages() as u64);
        count(&self.counts.published_events, run.events());
        self.log.borrow_mut().push(run);
        self.note_next();
    }

    fn skip(&self, lost: u64) {
        self.log.borrow_mut().skip(lost);
        self.note_next();
    }

    fn note_next(&self) {
        let next = self.next_sequence();
        self.counts.next_sequence.store(next, Ordering::Relaxed);
        self.updates.send_replace(next);
    }

    fn count_subscribers(&self) {
        let subscribers = self.cursors.borrow().len() as u64;
        self.counts.subscribers.store(subscribers, Ordering::Relaxed);
    }
}

impl Cursor {
    /// From now on it is sent what is published.
    pub(crate) fn follow(&self) {
        self.next.set(self.state.next_sequence());
    }

    /// It is sent nothing.
    pub(crate) fn rest(&self) {
        self.next.set(NOTHING);
    }

    /// The first messages that it was not sent, and the number from which on it was not.
    pub(crate) fn advance(&self) -> Option<(u64, Rc<MessageRun>)> {
        let next = self.next.get();
        let run = self.state.run_from(next)?;
        self.next.set(run.end());
        Some((next, run))
    }
}

impl Drop for Cursor {
    fn drop(&mut self) {
        self.state.cursors.borrow_mut().retain(|next| !Rc::ptr_eq(next, &self.next));
        self.state.count_subscribers();
        if !self.state.is_listened_to() {
            self.state.queues.iter().for_each(KeyEventQueue::end);
        }
    }
}

/// Sequence number of the first message. It rises from one life of the master to the next, so that
/// a restart is a gap, which no replay fills.
fn first_sequence() -> u64 {
    unix_ms() << SEQUENCES_PER_MS_BITS
}

fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
