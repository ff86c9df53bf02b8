//! The load itself: threads that each do one operation after another until their time is over.
//! Invariant: what is counted begins after the warm-up with nothing in flight and ends with nothing
//! in flight, so every count of it, here or in the engine, is of the same operations.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use crate::error::BenchError;
use crate::limits::{AWAKE, SAMPLE_MAX, SAMPLE_MIN, SAMPLES_PER_ROW, STOP_LOOK, WARM_UP};
use crate::load::latency::Recorder;
use crate::stop::Stop;
use gate::Gate;
use sampler::Sampler;

mod gate;
mod sampler;

pub(crate) use sampler::{Mark, Meter};

/// One operation that ended well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Step {
    /// How long the caller waited for it.
    pub(crate) took: Duration,
    /// Bytes or keys, as the row counts.
    pub(crate) units: u64,
    /// 1 if it brought a wrong byte.
    pub(crate) corrupt: u64,
}

/// One thread of a load.
pub(crate) trait Worker: Send {
    /// Runs until one operation has ended. It may leave others in flight, at most `wanted` less
    /// one, and must be bounded in time. `wanted` is at least 1.
    ///
    /// # Errors
    /// The operation failed; the whole load ends.
    fn step(&mut self, wanted: u64) -> Result<Step, BenchError>;

    /// Whether there is nothing left to do, whatever the time.
    fn is_done(&self) -> bool {
        false
    }

    /// Waits for one operation that is still in flight and begins none; `None` if nothing is in
    /// flight.
    ///
    /// # Errors
    /// As [`Worker::step`].
    fn drain(&mut self) -> Result<Option<Step>, BenchError> {
        Ok(None)
    }
}

impl<W: Worker> Worker for &mut W {
    fn step(&mut self, wanted: u64) -> Result<Step, BenchError> {
        (**self).step(wanted)
    }

    fn is_done(&self) -> bool {
        (**self).is_done()
    }

    fn drain(&mut self) -> Result<Option<Step>, BenchError> {
        (**self).drain()
    }
}

/// How long a load runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    /// Time before that, which is not counted.
    pub(crate) warm_up: Duration,
    /// Time that is counted.
    pub(crate) duration: Duration,
    /// Operations of all threads together instead of a time; 0 is by time.
    pub(crate) iterations: u64,
    /// Time between the starts of two operations, of all threads together; zero starts each when
    /// the last has ended.
    pub(crate) every: Duration,
}

/// What a load did.
#[derive(Debug, Default)]
pub(crate) struct Measured {
    /// From the end of the warm-up to the end of the last operation.
    pub(crate) seconds: f64,
    /// Operations that ended in this time.
    pub(crate) operations: u64,
    /// Bytes or keys of these.
    pub(crate) units: u64,
    /// Operations that brought a wrong byte.
    pub(crate) corrupt: u64,
    /// Operations of an open loop that were due in this time and did not begin in it.
    pub(crate) overdue: u64,
    /// Latencies of these operations.
    pub(crate) latency: Recorder,
    /// Units per second in equal parts of the time.
    pub(crate) samples: Vec<f64>,
    /// What the network cards had carried: at the beginning, after each of these parts, and at the
    /// end.
    pub(crate) marks: Vec<Mark>,
}

impl Measured {
    /// Work that was not timed operation by operation.
    pub(crate) fn of(time: Duration, operations: u64, units: u64) -> Self {
        let seconds = time.as_secs_f64().max(1e-9);
        Self {
            seconds,
            operations,
            units,
            samples: vec![units as f64 / seconds],
            ..Self::default()
        }
    }

    /// Units per second.
    pub(crate) fn rate(&self) -> f64 {
        self.units as f64 / self.seconds.max(1e-9)
    }

    /// The same, with the time that `threads` threads spent inside of calls as its time.
    pub(crate) fn in_calls(mut self, threads: u64) -> Self {
        self.seconds = (self.latency.seconds() / threads as f64).max(1e-9);
        self.samples = vec![self.rate()];
        self
    }

    /// Adds another part of the same load, which becomes one sample.
    pub(crate) fn add(&mut self, part: &Self) {
        self.seconds += part.seconds;
        self.operations += part.operations;
        self.units += part.units;
        self.corrupt += part.corrupt;
        self.overdue += part.overdue;
        self.latency.add(&part.latency);
        self.samples.push(part.rate());
    }
}

/// What one thread did.
#[derive(Default)]
struct ThreadCount {
    operations: u64,
    units: u64,
    corrupt: u64,
    overdue: u64,
    latency: Recorder,
    last: Duration,
}

/// When a phase of a load is over: after a time, or after so many operations of all threads.
#[derive(Debug, Clone, Copy)]
enum PhaseEnd {
    Time(Duration),
    Operations(u64),
}

/// The clock and the counter that all threads of a phase share.
struct Course<'a> {
    gate: Gate,
    units: AtomicU64,
    failed: Stop,
    stop: &'a Stop,
}

impl Span {
    /// So long after the usual warm-up; or so many operations, if not 0.
    #[must_use]
    pub(crate) fn of(duration: Duration, iterations: u64) -> Self {
        Self { warm_up: WARM_UP, duration, iterations, every: Duration::ZERO }
    }

    /// So long at once, without a warm-up.
    pub(crate) fn cold(duration: Duration) -> Self {
        Self { warm_up: Duration::ZERO, ..Self::of(duration, 0) }
    }

    /// The same as an open loop: so many operations per second of all threads; 0 changes nothing.
    #[must_use]
    pub(crate) fn at_rate(self, per_second: u64) -> Self {
        let every = match per_second {
            0 => Duration::ZERO,
            rate => Duration::from_secs(1).div_f64(rate as f64),
        };
        Self { every, ..self }
    }

    /// One of so many equal parts.
    #[must_use]
    pub(crate) fn part(self, parts: u32) -> Self {
        Self {
            duration: self.duration / parts,
            iterations: self.iterations.div_ceil(u64::from(parts)),
            ..self
        }
    }

    /// When the phase that counts is over.
    fn goal(&self) -> PhaseEnd {
        match self.iterations {
            0 => PhaseEnd::Time(self.duration),
            iterations => PhaseEnd::Operations(iterations),
        }
    }
}

/// When the operations of one thread of an open loop begin.
#[derive(Debug, Clone, Copy)]
struct Pace {
    first: Duration,
    every: Duration,
}

impl Pace {
    /// Of one of so many threads; their operations lie evenly between each other.
    fn of(every: Duration, thread: usize, threads: usize) -> Self {
        Self { first: every.mul_f64(thread as f64), every: every.mul_f64(threads as f64) }
    }

    /// When the operation after so many begins.
    fn due(self, operations: u64) -> Duration {
        self.first + self.every.mul_f64(operations as f64)
    }

    /// How many operations are due before a time; none of a closed loop.
    fn due_before(self, time: Duration) -> u64 {
        if self.every.is_zero() {
            return 0;
        }
        time.saturating_sub(self.first).div_duration_f64(self.every).ceil() as u64
    }
}

impl PhaseEnd {
    /// Whether an operation that begins then is one too many.
    fn is_past(self, due: Duration) -> bool {
        matches!(self, Self::Time(duration) if due >= duration)
    }

    /// The part of one of so many threads.
    fn share(self, thread: usize, threads: usize) -> Self {
        match self {
            Self::Time(_) => self,
            Self::Operations(all) => {
                let (each, over) = (all / threads as u64, all % threads as u64);
                Self::Operations(each + u64::from((thread as u64) < over))
            }
        }
    }
}

impl<'a> Course<'a> {
    fn new(stop: &'a Stop) -> Self {
        Self { gate: Gate::default(), units: AtomicU64::new(0), failed: Stop::default(), stop }
    }

    fn is_over(&self) -> bool {
        self.failed.is_set() || self.stop.is_set()
    }

    /// How many operations a thread still has to end; 0 if it is done.
    fn wanted(&self, goal: PhaseEnd, tally: &ThreadCount) -> u64 {
        if self.is_over() {
            return 0;
        }
        match goal {
            PhaseEnd::Time(duration) if tally.last >= duration && tally.operations > 0 => 0,
            PhaseEnd::Time(_) => u64::MAX,
            PhaseEnd::Operations(operations) => operations.saturating_sub(tally.operations),
        }
    }

    fn run(
        &self,
        worker: &mut dyn Worker,
        goal: PhaseEnd,
        pace: Pace,
    ) -> Result<ThreadCount, BenchError> {
        let start = self.gate.pass();
        let mut tally = ThreadCount::default();
        let count = |tally: &mut ThreadCount, step: Step| {
            tally.operations += 1;
            tally.units += step.units;
            tally.corrupt += step.corrupt;
            tally.latency.record(step.took);
            tally.last = start.elapsed();
            self.units.fetch_add(step.units, Ordering::Relaxed);
        };
        while !worker.is_done() {
            match self.wanted(goal, &tally) {
                0 => break,
                wanted if pace.every.is_zero() => count(&mut tally, worker.step(wanted)?),
                _ => {
                    let due = pace.due(tally.operations);
                    if goal.is_past(due) || !self.sleep_until(start + due) {
                        break;
                    }
                    // How late it begins is part of what its caller waits.
                    let late = start.elapsed().saturating_sub(due);
                    let step = worker.step(1)?;
                    let took = late + step.took;
                    count(&mut tally, Step { took, ..step });
                }
            }
        }
        while let Some(step) = worker.drain()? {
            count(&mut tally, step);
        }
        if let (PhaseEnd::Time(duration), false) = (goal, worker.is_done()) {
            tally.overdue = pace.due_before(duration).saturating_sub(tally.operations);
        }
        Ok(tally)
    }
}

impl Course<'_> {
    /// Waits for a time; false if the load ends before it. The last of it is spent awake: a timer
    /// is late by some 60 us.
    fn sleep_until(&self, due: Instant) -> bool {
        loop {
            let left = due.saturating_duration_since(Instant::now());
            if self.is_over() {
                return false;
            }
            match left.checked_sub(AWAKE) {
                Some(rest) if !rest.is_zero() => thread::sleep(rest.min(STOP_LOOK)),
                _ if left.is_zero() => return true,
                _ => std::hint::spin_loop(),
            }
        }
    }
}

/// Runs one thread per worker.
///
/// # Errors
/// The first error of a worker, or [`BenchError::Interrupted`].
pub(crate) fn drive<W: Worker>(
    workers: &mut [W],
    span: &Span,
    stop: &Stop,
) -> Result<Measured, BenchError> {
    drive_metered(workers, span, stop, &Vec::new)
}

/// As [`drive`], with what the network cards carry during it.
///
/// # Errors
/// As [`drive`].
pub(crate) fn drive_metered<W: Worker>(
    workers: &mut [W],
    span: &Span,
    stop: &Stop,
    meter: Meter<'_>,
) -> Result<Measured, BenchError> {
    let every = (span.duration / SAMPLES_PER_ROW).clamp(SAMPLE_MIN, SAMPLE_MAX);
    if !span.warm_up.is_zero() {
        let warm_up = PhaseEnd::Time(span.warm_up);
        phase(workers, (warm_up, span.every), stop, Sampler::new(every, &Vec::new))?;
    }
    phase(workers, (span.goal(), span.every), stop, Sampler::new(every, meter))
}

/// Runs all threads until each has reached the goal and has nothing in flight.
fn phase<W: Worker>(
    workers: &mut [W],
    goal: (PhaseEnd, Duration),
    stop: &Stop,
    sampler: Sampler<'_>,
) -> Result<Measured, BenchError> {
    let course = Course::new(stop);
    let (tallies, sampler) = run_threads(workers, goal, &course, sampler);
    if stop.is_set() {
        return Err(BenchError::Interrupted);
    }
    sum(tallies, sampler)
}

fn run_threads<'m, W: Worker>(
    workers: &mut [W],
    (goal, every): (PhaseEnd, Duration),
    course: &Course<'_>,
    mut sampler: Sampler<'m>,
) -> (Vec<Result<ThreadCount, BenchError>>, Sampler<'m>) {
    thread::scope(|scope| {
        let (ended, all_ended) = channel::<()>();
        let count = workers.len();
        let mut threads = Vec::with_capacity(count);
        let mut tallies = Vec::with_capacity(count);
        for (thread, worker) in workers.iter_mut().enumerate() {
            let (ended, goal) = (ended.clone(), goal.share(thread, count));
            let pace = Pace::of(every, thread, count);
            let work = move || {
                // Dropped at the end of the thread, however it ends: the sampler waits for that.
                let _ended = ended;
                let outcome = course.run(worker, goal, pace);
                if outcome.is_err() {
                    course.failed.set();
                }
                outcome
            };
            let builder = thread::Builder::new().name("perigee-load".to_owned());
            match builder.spawn_scoped(scope, work) {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    course.failed.set();
                    tallies.push(Err(error.into()));
                }
            }
        }
        drop(ended);
        sampler.mark(Duration::ZERO);
        let start = course.gate.open_for(threads.len());
        sampler.run(start, &course.units, &all_ended);
        tallies.extend(threads.into_iter().map(|thread| {
            let joined = thread.join();
            joined.unwrap_or(Err(BenchError::LoadThread))
        }));
        (tallies, sampler)
    })
}

fn sum(
    tallies: Vec<Result<ThreadCount, BenchError>>,
    mut sampler: Sampler<'_>,
) -> Result<Measured, BenchError> {
    let mut all = ThreadCount::default();
    for tally in tallies {
        let tally = tally?;
        all.operations += tally.operations;
        all.units += tally.units;
        all.corrupt += tally.corrupt;
        all.overdue += tally.overdue;
        all.latency.add(&tally.latency);
        all.last = all.last.max(tally.last);
    }
    let seconds = all.last.as_secs_f64().max(1e-9);
    sampler.mark(all.last);
    let Sampler { mut samples, marks, .. } = sampler;
    if samples.is_empty() {
        samples.push(all.units as f64 / seconds);
    }
    Ok(Measured {
        seconds,
        operations: all.operations,
        units: all.units,
        corrupt: all.corrupt,
        overdue: all.overdue,
        latency: all.latency,
        samples,
        marks,
    })
}

#[cfg(test)]
mod tests;
