//! The events of a shard, and a consumer that comes and goes: each event that is wanted is seen,
//! each that is not is a gap for the consumer, and where no consumer listens none is kept.

use loom::sync::Arc;
use loom::thread;
use sync::{AtomicU8, Mutex, MutexGuard, Ordering};

mod sync {
    pub(super) use loom::sync::atomic::{AtomicU8, Ordering};
    pub(super) use loom::sync::{Mutex, MutexGuard};
}

#[path = "../../../control/master/src/event_queue/attention.rs"]
mod attention;

/// Numbers of events, which rise.
type Numbers = Vec<u8>;

/// What the shard and the consumer share.
trait Listening: Send + Sync + 'static {
    /// A consumer listens.
    fn new() -> Self;
    fn is_wanted(&self) -> bool;
    fn begin(&self) -> bool;
    fn end(&self);
    fn waiting(&self) -> MutexGuard<'_, Numbers>;
}

impl Listening for attention::Attention<Numbers> {
    fn new() -> Self {
        attention::Attention::new()
    }

    fn is_wanted(&self) -> bool {
        attention::Attention::is_wanted(self)
    }

    fn begin(&self) -> bool {
        attention::Attention::begin(self)
    }

    fn end(&self) {
        attention::Attention::end(self);
    }

    fn waiting(&self) -> MutexGuard<'_, Numbers> {
        attention::Attention::waiting(self)
    }
}

const WANTED: u8 = 0;
const UNWANTED: u8 = 1;
const MISSED: u8 = 2;

/// The shard looks whether an event is wanted, and notes in a second step that it is not.
const NOTES_LATER: u8 = 0;
/// The consumer listens before older events are dropped.
const DROPS_LATER: u8 = 1;
/// Events that are older than those that were missed are kept.
const KEEPS_OLDER: u8 = 2;
/// An event that is the first to be missed is added as well.
const ADDS_MISSED: u8 = 3;

/// One of the steps is taken in the wrong way.
struct Faulty<const FAULT: u8> {
    state: AtomicU8,
    waiting: Mutex<Numbers>,
}

impl<const FAULT: u8> Listening for Faulty<FAULT> {
    fn new() -> Self {
        Self { state: AtomicU8::new(WANTED), waiting: Mutex::new(Numbers::new()) }
    }

    fn is_wanted(&self) -> bool {
        let state = self.state.load(Ordering::Acquire);
        if FAULT == NOTES_LATER && state == UNWANTED {
            self.state.store(MISSED, Ordering::Release);
            return false;
        }
        let order = (Ordering::AcqRel, Ordering::Acquire);
        let noted = self.state.compare_exchange(UNWANTED, MISSED, order.0, order.1);
        noted == Err(WANTED) || (FAULT == ADDS_MISSED && noted.is_ok())
    }

    fn begin(&self) -> bool {
        let early = (FAULT != DROPS_LATER).then(|| self.waiting());
        let has_missed = self.state.swap(WANTED, Ordering::AcqRel) == MISSED;
        let mut waiting = early.unwrap_or_else(|| self.waiting());
        if has_missed && FAULT != KEEPS_OLDER {
            waiting.clear();
        }
        has_missed
    }

    fn end(&self) {
        let order = (Ordering::AcqRel, Ordering::Acquire);
        let _ = self.state.compare_exchange(WANTED, UNWANTED, order.0, order.1);
    }

    fn waiting(&self) -> MutexGuard<'_, Numbers> {
        self.waiting.lock().unwrap()
    }
}

const EVENTS: u8 = 3;
/// Times that a thread loses its core within one play: with all of them the plays take minutes.
const PREEMPTIONS: usize = 4;

/// What a shard did with its events.
#[derive(Default)]
struct Published {
    added: Numbers,
    last_missed: u8,
}

fn publish(listening: &impl Listening) -> Published {
    let mut published = Published::default();
    for number in 1..=EVENTS {
        if listening.is_wanted() {
            listening.waiting().push(number);
            published.added.push(number);
        } else {
            published.last_missed = number;
        }
    }
    published
}

/// What a consumer has heard.
#[derive(Default)]
struct Heard {
    numbers: Numbers,
    has_gap: bool,
}

impl Heard {
    fn next(&self) -> u8 {
        self.numbers.last().map_or(1, |last| last + 1)
    }

    /// A gap is announced if events were missed.
    fn begin(&mut self, listening: &impl Listening) {
        self.has_gap |= listening.begin();
    }

    fn take(&mut self, listening: &impl Listening) {
        let taken = std::mem::take(&mut *listening.waiting());
        for number in taken {
            let is_next = number == self.next() || (self.has_gap && number > self.next());
            assert!(is_next, "an event was lost without a gap");
            self.numbers.push(number);
            self.has_gap = false;
        }
    }
}

fn explore(play: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(PREEMPTIONS);
    builder.check(play);
}

/// A consumer comes, goes and comes again while a shard publishes.
fn come_and_go<L: Listening>() {
    explore(|| {
        let listening = Arc::new(L::new());
        listening.end();
        let shard = {
            let listening = listening.clone();
            thread::spawn(move || publish(&*listening))
        };
        let mut heard = Heard::default();
        heard.begin(&*listening);
        heard.take(&*listening);
        listening.end();
        heard.begin(&*listening);
        let published = shard.join().unwrap();
        heard.take(&*listening);
        assert!(heard.next() > EVENTS || heard.has_gap, "an event was lost without a gap");
        for number in published.added {
            let is_older = number < published.last_missed;
            assert!(is_older || heard.numbers.contains(&number), "a wanted event is gone");
        }
    });
}

/// A consumer goes while a shard publishes, and what it has left is thrown away.
fn go<L: Listening>() {
    explore(|| {
        let listening = Arc::new(L::new());
        let shard = {
            let listening = listening.clone();
            thread::spawn(move || publish(&*listening))
        };
        listening.end();
        listening.waiting().clear();
        shard.join().unwrap();
        // The shard may have been about to add the one that was wanted last.
        assert!(listening.waiting().len() <= 1, "events are kept for no consumer");
    });
}

#[test]
fn what_a_consumer_does_not_hear_is_a_gap() {
    come_and_go::<attention::Attention<Numbers>>();
}

#[test]
fn nothing_is_kept_where_no_consumer_listens() {
    go::<attention::Attention<Numbers>>();
}

#[test]
#[should_panic(expected = "an event was lost without a gap")]
fn a_shard_that_notes_what_is_missed_in_a_second_step_is_caught() {
    come_and_go::<Faulty<NOTES_LATER>>();
}

#[test]
#[should_panic(expected = "a wanted event is gone")]
fn a_consumer_that_listens_before_older_events_are_dropped_is_caught() {
    come_and_go::<Faulty<DROPS_LATER>>();
}

#[test]
#[should_panic(expected = "an event was lost without a gap")]
fn events_that_are_kept_although_later_ones_were_missed_are_caught() {
    come_and_go::<Faulty<KEEPS_OLDER>>();
}

#[test]
#[should_panic(expected = "events are kept for no consumer")]
fn an_event_that_is_added_although_it_is_missed_is_caught() {
    go::<Faulty<ADDS_MISSED>>();
}
