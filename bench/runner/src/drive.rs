//! The load itself: threads that each do one operation after another until their time is over.
//! Invariant: what ends before the warm-up is over, or after the first failure, is not counted.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::BenchError;
use crate::latency::Recorder;
use crate::limits::{SAMPLE_MAX, SAMPLE_MIN, SAMPLES_MAX, SAMPLES_PER_ROW, WARM_UP};
use crate::stop::Stop;

/// One operation that ended well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// How long the caller waited for it.
    pub took: Duration,
    /// Bytes or keys, as the row counts.
    pub units: u64,
    /// 1 if it brought a wrong byte.
    pub corrupt: u64,
}

/// One thread of a load.
pub trait Worker: Send {
    /// Runs until one operation has ended. It may leave others in flight, and must be bounded in time.
    ///
    /// # Errors
    /// The operation failed; the whole load ends.
    fn step(&mut self) -> Result<Step, BenchError>;

    /// Whether there is nothing left to do, whatever the time.
    fn is_done(&self) -> bool {
        false
    }

    /// Waits for what is still in flight; not counted.
    ///
    /// # Errors
    /// As [`Worker::step`].
    fn finish(&mut self) -> Result<(), BenchError> {
        Ok(())
    }
}

/// How long a load runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Time before that, which is not counted.
    pub warm_up: Duration,
    /// Time that is counted.
    pub duration: Duration,
    /// Operations of all threads together instead of a time; 0 is by time.
    pub iterations: u64,
}

/// What a load did.
#[derive(Debug)]
pub struct Measured {
    /// From the end of the warm-up to the end of the last operation.
    pub seconds: f64,
    /// Operations that ended in this time.
    pub operations: u64,
    /// Bytes or keys of these.
    pub units: u64,
    /// Operations that brought a wrong byte.
    pub corrupt: u64,
    /// Latencies of these operations.
    pub latency: Recorder,
    /// Units per second in equal parts of the time.
    pub samples: Vec<f64>,
}

/// What one thread did.
#[derive(Default)]
struct Tally {
    operations: u64,
    units: u64,
    corrupt: u64,
    latency: Recorder,
    last: Duration,
}

/// The clock and the counter that all threads of a load share.
struct Course<'a> {
    start: Instant,
    /// End of the counted time, from `start`; `None` if operations are counted instead.
    duration: Option<Duration>,
    /// Operations per thread, if they are counted.
    operations: u64,
    units: AtomicU64,
    failed: Stop,
    stop: &'a Stop,
}

impl Span {
    /// So long after the usual warm-up; or so many operations, if not 0.
    #[must_use]
    pub fn of(duration: Duration, iterations: u64) -> Self {
        Self {
            warm_up: WARM_UP,
            duration,
            iterations,
        }
    }
}

impl Course<'_> {
    /// Whether a thread that has done so much, at `now` after the start, is done.
    fn is_over(&self, operations: u64, now: Duration) -> bool {
        let done = match self.duration {
            Some(duration) => now >= duration && operations > 0,
            None => operations >= self.operations,
        };
        done || self.failed.is_set() || self.stop.is_set()
    }

    fn run(&self, worker: &mut dyn Worker) -> Result<Tally, BenchError> {
        let mut tally = Tally::default();
        while !worker.is_done() {
            let step = worker.step()?;
            // `None` while the warm-up runs.
            if let Some(now) = Instant::now().checked_duration_since(self.start) {
                tally.operations += 1;
                tally.units += step.units;
                tally.corrupt += step.corrupt;
                tally.latency.record(step.took);
                tally.last = now;
                self.units.fetch_add(step.units, Ordering::Relaxed);
            }
            if self.is_over(tally.operations, tally.last) {
                break;
            }
        }
        worker.finish()?;
        Ok(tally)
    }

    /// Units per second of equal parts of the time, until every thread has ended.
    fn sample(&self, every: Duration, ended: &Receiver<()>) -> Vec<f64> {
        let (mut samples, mut before) = (Vec::new(), 0);
        let mut last = self.start;
        loop {
            let next = last + every;
            let wait = next.saturating_duration_since(Instant::now());
            match ended.recv_timeout(wait) {
                Ok(()) => {}
                Err(RecvTimeoutError::Disconnected) => return samples,
                Err(RecvTimeoutError::Timeout) => {
                    let now = Instant::now();
                    let units = self.units.load(Ordering::Relaxed);
                    if samples.len() < SAMPLES_MAX {
                        samples.push((units - before) as f64 / (now - last).as_secs_f64());
                    }
                    (before, last) = (units, now);
                }
            }
        }
    }
}

/// Runs one thread per worker.
///
/// # Errors
/// The first error of a worker, or [`BenchError::Interrupted`].
pub fn drive<W: Worker>(
    workers: &mut [W],
    span: &Span,
    stop: &Stop,
) -> Result<Measured, BenchError> {
    let threads = workers.len().max(1) as u64;
    let by_time = span.iterations == 0;
    let course = Course {
        start: Instant::now() + span.warm_up,
        duration: by_time.then_some(span.duration),
        operations: span.iterations.div_ceil(threads),
        units: AtomicU64::new(0),
        failed: Stop::default(),
        stop,
    };
    let every = (span.duration / SAMPLES_PER_ROW).clamp(SAMPLE_MIN, SAMPLE_MAX);
    let (tallies, samples) = run_threads(workers, &course, every);
    if stop.is_set() {
        return Err(BenchError::Interrupted);
    }
    sum(tallies, samples)
}

fn run_threads<W: Worker>(
    workers: &mut [W],
    course: &Course<'_>,
    every: Duration,
) -> (Vec<Result<Tally, BenchError>>, Vec<f64>) {
    thread::scope(|scope| {
        let (ended, all_ended) = channel::<()>();
        let mut threads = Vec::with_capacity(workers.len());
        for worker in workers {
            let ended = ended.clone();
            threads.push(scope.spawn(move || {
                // Dropped at the end of the thread, however it ends: the sampler waits for that.
                let _ended = ended;
                let outcome = course.run(worker);
                if outcome.is_err() {
                    course.failed.set();
                }
                outcome
            }));
        }
        drop(ended);
        let samples = course.sample(every, &all_ended);
        let tallies = threads.into_iter().map(|thread| {
            let joined = thread.join();
            joined.unwrap_or(Err(BenchError::LoadThread))
        });
        (tallies.collect(), samples)
    })
}

fn sum(tallies: Vec<Result<Tally, BenchError>>, samples: Vec<f64>) -> Result<Measured, BenchError> {
    let mut all = Tally::default();
    for tally in tallies {
        let tally = tally?;
        all.operations += tally.operations;
        all.units += tally.units;
        all.corrupt += tally.corrupt;
        all.latency.add(&tally.latency);
        all.last = all.last.max(tally.last);
    }
    let seconds = all.last.as_secs_f64().max(1e-9);
    let mut samples = samples;
    if samples.is_empty() {
        samples.push(all.units as f64 / seconds);
    }
    Ok(Measured {
        seconds,
        operations: all.operations,
        units: all.units,
        corrupt: all.corrupt,
        latency: all.latency,
        samples,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts its calls; fails at one of them.
    struct Counter {
        calls: u64,
        fails_at: u64,
        finished: bool,
    }

    impl Counter {
        fn new(fails_at: u64) -> Self {
            Self {
                calls: 0,
                fails_at,
                finished: false,
            }
        }
    }

    impl Worker for Counter {
        fn step(&mut self) -> Result<Step, BenchError> {
            self.calls += 1;
            if self.calls == self.fails_at {
                return Err(BenchError::program("peer", "gone"));
            }
            thread::yield_now();
            Ok(Step {
                took: Duration::from_nanos(100),
                units: 10,
                corrupt: 0,
            })
        }

        fn finish(&mut self) -> Result<(), BenchError> {
            self.finished = true;
            Ok(())
        }
    }

    fn span(millis: u64, iterations: u64) -> Span {
        Span::of(Duration::from_millis(millis), iterations)
    }

    #[test]
    fn counted_operations_are_shared_by_the_threads() {
        let mut workers = [Counter::new(0), Counter::new(0)];
        let measured = drive(&mut workers, &span(0, 100), &Stop::default()).unwrap();
        assert_eq!(measured.operations, 100);
        assert_eq!(measured.units, 1000);
        assert_eq!(measured.latency.summary().unwrap().count, 100);
        // The warm-up comes on top.
        assert!(
            workers
                .iter()
                .all(|worker| worker.calls > 50 && worker.finished)
        );
    }

    #[test]
    fn a_time_gives_rates_of_its_parts() {
        let measured = drive(&mut [Counter::new(0)], &span(200, 0), &Stop::default()).unwrap();
        assert!(measured.seconds >= 0.2, "{measured:?}");
        assert!(!measured.samples.is_empty());
        assert!(measured.samples.iter().all(|rate| *rate > 0.0));
    }

    #[test]
    fn one_failed_thread_ends_the_load() {
        let mut workers = [Counter::new(0), Counter::new(3)];
        let outcome = drive(&mut workers, &span(3_600_000, 0), &Stop::default());
        assert!(
            matches!(outcome, Err(BenchError::Program { .. })),
            "{outcome:?}"
        );
    }

    #[test]
    fn a_signal_ends_the_load() {
        let stop = Stop::default();
        stop.set();
        let outcome = drive(&mut [Counter::new(0)], &span(3_600_000, 0), &stop);
        assert!(
            matches!(outcome, Err(BenchError::Interrupted)),
            "{outcome:?}"
        );
    }
}
