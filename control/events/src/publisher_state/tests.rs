//! Batches that consumers get, and those that none gets.

use super::*;
use crate::endpoint::Endpoint;
use crate::settings::samples::settings;
use perigee_master::{KeyChange, KeyEvent};

struct Stage {
    state: Rc<PublisherState>,
    queue: KeyEventQueue,
    waiting: WaitingEvents,
}

impl Stage {
    fn new(replay: Option<Endpoint>) -> Self {
        Self::with(EventSettings { replay, ..settings() })
    }

    fn with(settings: EventSettings) -> Self {
        let queue = KeyEventQueue::new(settings.queue_capacity, || {});
        let state = PublisherState::new(settings, vec![queue.clone()], Arc::default());
        Self { state: Rc::new(state), queue, waiting: WaitingEvents::default() }
    }

    /// The shard stores a key.
    fn store(&self, key: &str) {
        if self.queue.is_wanted() {
            self.queue.push(&KeyEvent {
                change: KeyChange::Stored,
                medium: Medium::Memory,
                key: key.as_bytes(),
                payload_bytes: 1,
                group: None,
            });
        }
    }

    fn publish(&mut self) {
        self.state.publish_waiting(&mut self.waiting);
    }

    fn follower(&self) -> Cursor {
        let cursor = self.state.join();
        cursor.follow();
        cursor
    }
}

fn replay() -> Option<Endpoint> {
    Some(Endpoint::Tcp("localhost".to_owned(), 0))
}

/// Events of all messages that it was not sent.
fn heard(cursor: &Cursor) -> u64 {
    std::iter::from_fn(|| cursor.advance()).map(|(_, run)| run.events()).sum()
}

#[test]
fn a_message_is_made_only_if_a_consumer_may_get_it() {
    let alone = Stage::new(None);
    let first = alone.state.next_sequence();
    alone.state.publish_cleared();
    assert_eq!(alone.state.next_sequence(), first + 1);
    assert!(alone.state.run_from(first).is_none());
    let cursor = alone.follower();
    alone.state.publish_cleared();
    assert_eq!(heard(&cursor), 2);
    let replayed = Stage::new(replay());
    replayed.state.publish_cleared();
    assert!(replayed.state.run_from(0).is_some());
}

#[test]
fn a_consumer_that_comes_back_after_missed_events_sees_a_gap_and_then_all() {
    let mut stage = Stage::new(None);
    stage.store("before");
    let first = stage.follower();
    let expected = stage.state.next_sequence();
    drop(first);
    let unmissed = stage.follower();
    assert_eq!(stage.state.next_sequence(), expected, "nothing has happened");
    drop(unmissed);
    stage.store("missed");
    let back = stage.follower();
    stage.store("heard");
    stage.publish();
    let (number, run) = back.advance().unwrap();
    assert_eq!((number, run.events()), (expected + 1, 1));
    assert_eq!(stage.state.counts.read().next_sequence, expected + 2);
}

#[test]
fn what_waited_when_the_last_consumer_went_is_a_gap() {
    let mut stage = Stage::new(None);
    let first = stage.follower();
    stage.store("waiting");
    let expected = stage.state.next_sequence();
    drop(first);
    stage.publish();
    assert_eq!(stage.state.next_sequence(), expected + 1);
    assert_eq!(stage.state.counts.read().published_events, 0);
}

#[test]
fn each_dropped_event_leaves_a_gap_that_the_next_message_shows() {
    let mut stage = Stage::new(None);
    let cursor = stage.follower();
    let expected = stage.state.next_sequence();
    for key in 0..settings().queue_capacity + 3 {
        stage.store(&key.to_string());
    }
    stage.publish();
    let (_, run) = cursor.advance().unwrap();
    assert_eq!((run.end(), run.events()), (expected + 4, settings().queue_capacity as u64));
    assert_eq!(stage.state.counts.read().dropped_events, 3);
}

#[test]
fn a_gap_is_shown_even_if_no_event_behind_it_says_anything() {
    let mut stage = Stage::with(EventSettings { has_object_key: false, ..settings() });
    let cursor = stage.follower();
    let expected = stage.state.next_sequence();
    for _ in 0..=settings().queue_capacity {
        stage.store("no hash");
    }
    stage.publish();
    let (_, run) = cursor.advance().unwrap();
    assert_eq!((run.end(), run.events()), (expected + 2, 0));
    let counts = stage.state.counts.read();
    assert_eq!((counts.dropped_events, counts.skipped_unparsed_keys), (1, 8));
}

#[test]
fn events_of_a_long_wait_come_in_several_runs_and_none_twice() {
    let mut stage = Stage::with(EventSettings { queue_capacity: usize::MAX, ..settings() });
    let cursor = stage.follower();
    for key in 0..1000 {
        stage.store(&key.to_string());
    }
    stage.publish();
    let runs: Vec<_> = std::iter::from_fn(|| cursor.advance()).collect();
    assert!(runs.len() > 2);
    assert_eq!(runs.iter().map(|(_, run)| run.events()).sum::<u64>(), 1000);
    assert!(runs.windows(2).all(|pair| pair[0].1.end() == pair[1].0), "no number is missing");
}

#[test]
fn what_all_have_been_sent_is_forgotten_unless_it_can_be_replayed() {
    for (replay, is_kept) in [(None, false), (replay(), true)] {
        let mut stage = Stage::new(replay);
        let (fast, slow) = (stage.follower(), stage.follower());
        let _resting = stage.state.join();
        let first = stage.state.next_sequence();
        stage.store("a");
        stage.publish();
        assert_eq!(heard(&fast), 1);
        stage.publish();
        assert!(stage.state.run_from(first).is_some(), "one was not sent it yet");
        assert_eq!(heard(&slow), 1);
        stage.publish();
        assert_eq!(stage.state.run_from(first).is_some(), is_kept);
    }
}

#[test]
fn a_key_of_a_tenant_that_is_a_hash_is_no_skipped_one() {
    let mut stage = Stage::new(None);
    let cursor = stage.follower();
    let red = perigee_schemas::TenantId::parse("red").unwrap();
    stage.store(&red.stored("17"));
    stage.store(&red.stored("page"));
    stage.publish();
    assert_eq!(heard(&cursor), 2);
    assert_eq!(stage.state.counts.read().skipped_unparsed_keys, 1);
}

#[test]
fn subscribers_are_counted_until_they_go() {
    let stage = Stage::new(None);
    let (one, other) = (stage.follower(), stage.state.join());
    assert_eq!(stage.state.counts.read().subscribers, 2);
    drop(one);
    assert_eq!(stage.state.counts.read().subscribers, 1);
    drop(other);
    assert_eq!(stage.state.counts.read().subscribers, 0);
    assert!(!stage.queue.is_wanted());
}
