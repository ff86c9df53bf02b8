//! Loads of workers that only count.

use super::*;
use crate::ends::mover::CardCount;

/// Most operations that a [`Counter`] has in flight.
const DEPTH: u64 = 3;

/// Counts its calls and keeps some in flight; fails at one of them.
struct Counter {
    calls: u64,
    fails_at: u64,
    flights: u64,
}

impl Counter {
    fn new(fails_at: u64) -> Self {
        Self { calls: 0, fails_at, flights: 0 }
    }
}

impl Worker for Counter {
    fn step(&mut self, wanted: u64) -> Result<Step, BenchError> {
        self.flights = self.flights.max(DEPTH.min(wanted));
        self.end_one()
    }

    fn drain(&mut self) -> Result<Option<Step>, BenchError> {
        match self.flights {
            0 => Ok(None),
            _ => self.end_one().map(Some),
        }
    }
}

impl Counter {
    fn end_one(&mut self) -> Result<Step, BenchError> {
        self.calls += 1;
        self.flights -= 1;
        if self.calls == self.fails_at {
            return Err(BenchError::program("peer", "gone"));
        }
        thread::yield_now();
        Ok(Step { took: Duration::from_nanos(100), units: 10, corrupt: 0 })
    }
}

fn span(millis: u64, iterations: u64) -> Span {
    Span::of(Duration::from_millis(millis), iterations)
}

#[test]
fn counted_operations_are_shared_by_the_threads() {
    for wanted in [1, 5, 101] {
        let mut workers = [Counter::new(0), Counter::new(0)];
        let measured = drive(&mut workers, &span(0, wanted), &Stop::default()).unwrap();
        assert_eq!((measured.operations, measured.units), (wanted, wanted * 10));
        assert_eq!(measured.latency.summary().unwrap().count, wanted);
        // The warm-up comes on top.
        let calls: u64 = workers.iter().map(|worker| worker.calls).sum();
        assert!(calls > wanted, "{calls}");
    }
}

#[test]
fn nothing_is_in_flight_before_or_after_what_is_counted() {
    for span in [span(50, 0), span(0, 40)] {
        let ended = AtomicU64::new(0);
        let mut workers = [Metered::new(&ended), Metered::new(&ended)];
        let meter = || {
            vec![CardCount {
                name: "lo".to_owned(),
                is_rdma: false,
                read_bytes: 0,
                written_bytes: ended.load(Ordering::SeqCst),
            }]
        };
        let measured = drive_metered(&mut workers, &span, &Stop::default(), &meter).unwrap();
        let count = |mark: Option<&Mark>| mark.unwrap().cards[0].written_bytes;
        let (first, last) = (measured.marks.first(), measured.marks.last());
        assert!(count(first) > 0, "the warm-up moves bytes, too");
        assert_eq!(count(last) - count(first), measured.units);
    }
}

/// Counts what it does where others can see it.
struct Metered<'a> {
    inner: Counter,
    ended: &'a AtomicU64,
}

impl<'a> Metered<'a> {
    fn new(ended: &'a AtomicU64) -> Self {
        let inner = Counter::new(0);
        Self { inner, ended }
    }

    fn note(&self, step: Step) -> Step {
        self.ended.fetch_add(step.units, Ordering::SeqCst);
        step
    }
}

impl Worker for Metered<'_> {
    fn step(&mut self, wanted: u64) -> Result<Step, BenchError> {
        let step = self.inner.step(wanted)?;
        Ok(self.note(step))
    }

    fn drain(&mut self) -> Result<Option<Step>, BenchError> {
        let step = self.inner.drain()?;
        Ok(step.map(|step| self.note(step)))
    }
}

#[test]
fn a_time_gives_rates_of_its_parts() {
    let measured = drive(&mut [Counter::new(0)], &span(200, 0), &Stop::default()).unwrap();
    assert!(measured.seconds >= 0.2, "{measured:?}");
    assert!(!measured.samples.is_empty());
    // On a busy machine the thread may sleep through some of them.
    assert!(measured.samples.iter().any(|rate| *rate > 0.0));
}

#[test]
fn one_failed_thread_ends_the_load() {
    let mut workers = [Counter::new(0), Counter::new(3)];
    let outcome = drive(&mut workers, &span(3_600_000, 0), &Stop::default());
    assert!(matches!(outcome, Err(BenchError::Program { .. })), "{outcome:?}");
}

#[test]
fn a_signal_ends_the_load() {
    let stop = Stop::default();
    stop.set();
    let outcome = drive(&mut [Counter::new(0)], &span(3_600_000, 0), &stop);
    assert!(matches!(outcome, Err(BenchError::Interrupted)), "{outcome:?}");
}

/// Operations of which one blocks.
struct SlowOnce {
    slow: Duration,
    /// Operations before the one that blocks.
    quick: u64,
}

impl Worker for SlowOnce {
    fn step(&mut self, _wanted: u64) -> Result<Step, BenchError> {
        let is_quick = self.quick > 0;
        self.quick = self.quick.saturating_sub(1);
        let took = if is_quick { Duration::ZERO } else { std::mem::take(&mut self.slow) };
        thread::sleep(took);
        Ok(Step { took, units: 1, corrupt: 0 })
    }
}

#[test]
fn operations_of_an_open_loop_are_as_late_as_those_before_them() {
    let slow = Duration::from_millis(100);
    let span = Span { warm_up: Duration::ZERO, ..span(0, 10) };
    let latency_of = |span: &Span| {
        let measured = drive(&mut [SlowOnce { slow, quick: 0 }], span, &Stop::default()).unwrap();
        measured.latency.summary().unwrap()
    };
    // One each 10 ms: the last is due after 90 ms and cannot begin before 100.
    let open = latency_of(&span.at_rate(100));
    assert_eq!(open.count, 10);
    assert!(open.min_ns > 9_900_000, "{open:?}");
    assert!(latency_of(&span).min_ns < 1000);
}

#[test]
fn an_open_loop_begins_no_more_operations_than_its_rate() {
    let mut workers = [Counter::new(0), Counter::new(0)];
    let span = Span { warm_up: Duration::ZERO, ..span(100, 0) };
    let measured = drive(&mut workers, &span.at_rate(200), &Stop::default()).unwrap();
    assert!((1..=20).contains(&measured.operations), "{measured:?}");
}

#[test]
fn a_stall_shows_in_the_p99_of_an_open_loop_only() {
    let slow = Duration::from_millis(50);
    let span = Span { warm_up: Duration::ZERO, ..span(0, 1000) };
    let p99_of = |span: &Span| {
        let mut workers = [SlowOnce { slow, quick: 500 }];
        let measured = drive(&mut workers, span, &Stop::default()).unwrap();
        measured.latency.summary().unwrap().p99_ns
    };
    // One each 1 ms: the 50 that are due while one blocks wait for it, 5 % of all.
    let open = p99_of(&span.at_rate(1000));
    assert!(open > 30_000_000, "{open}");
    assert!(p99_of(&span) < 30_000_000);
}

#[test]
fn operations_that_a_stall_leaves_for_after_the_end_are_counted() {
    let span = Span { warm_up: Duration::ZERO, ..span(100, 0) };
    let overdue_of = |slow: Duration, span: &Span| {
        let mut workers = [SlowOnce { slow, quick: 10 }];
        drive(&mut workers, span, &Stop::default()).unwrap().overdue
    };
    // 100 are due in 100 ms, and the eleventh blocks until the end.
    let stall = Duration::from_millis(200);
    assert_eq!(overdue_of(stall, &span.at_rate(1000)), 89);
    assert_eq!(overdue_of(stall, &span), 0, "a closed loop owes nothing");
}
