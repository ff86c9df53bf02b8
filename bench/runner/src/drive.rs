//! The load itself: threads that each do one operation after another until their time is over.
//! Invariant: what is counted begins after the warm-up with nothing in flight and ends with nothing in flight, so every
//! count of it, here or in the engine, is of the same operations.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use crate::error::BenchError;
use crate::latency::Recorder;
use crate::limits::{SAMPLE_MAX, SAMPLE_MIN, SAMPLES_PER_ROW, WARM_UP};
use crate::mover::CardCount;
use crate::stop::Stop;
use gate::Gate;
use sampler::Sampler;

mod gate;
mod sampler;

pub use sampler::Mark;

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
    /// Runs until one operation has ended. It may leave others in flight, at most `wanted` less one, and must be bounded
    /// in time. `wanted` is at least 1.
    ///
    /// # Errors
    /// The operation failed; the whole load ends.
    fn step(&mut self, wanted: u64) -> Result<Step, BenchError>;

    /// Whether there is nothing left to do, whatever the time.
    fn is_done(&self) -> bool {
        false
    }

    /// Waits for one operation that is still in flight and begins none; `None` if nothing is in flight.
    ///
    /// # Errors
    /// As [`Worker::step`].
    fn drain(&mut self) -> Result<Option<Step>, BenchError> {
        Ok(None)
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
    /// What the network cards had carried: at the beginning, after each of these parts, and at the end.
    pub marks: Vec<Mark>,
}

/// Tells what each network card has carried so far.
pub type Meter<'a> = &'a dyn Fn() -> Vec<CardCount>;

/// What one thread did.
#[derive(Default)]
struct Tally {
    operations: u64,
    units: u64,
    corrupt: u64,
    latency: Recorder,
    last: Duration,
}

/// When a phase of a load is over: after a time, or after so many operations of all threads.
#[derive(Debug, Clone, Copy)]
enum Goal {
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
    pub fn of(duration: Duration, iterations: u64) -> Self {
        Self {
            warm_up: WARM_UP,
            duration,
            iterations,
        }
    }

    /// When the phase that counts is over.
    fn goal(&self) -> Goal {
        match self.iterations {
            0 => Goal::Time(self.duration),
            iterations => Goal::Operations(iterations),
        }
    }
}

impl Goal {
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
        Self {
            gate: Gate::default(),
            units: AtomicU64::new(0),
            failed: Stop::default(),
            stop,
        }
    }

    /// How many operations a thread still has to end; 0 if it is done.
    fn wanted(&self, goal: Goal, tally: &Tally) -> u64 {
        if self.failed.is_set() || self.stop.is_set() {
            return 0;
        }
        match goal {
            Goal::Time(duration) if tally.last >= duration && tally.operations > 0 => 0,
            Goal::Time(_) => u64::MAX,
            Goal::Operations(operations) => operations.saturating_sub(tally.operations),
        }
    }

    fn run(&self, worker: &mut dyn Worker, goal: Goal) -> Result<Tally, BenchError> {
        let start = self.gate.pass();
        let mut tally = Tally::default();
        let count = |tally: &mut Tally, step: Step| {
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
                wanted => count(&mut tally, worker.step(wanted)?),
            }
        }
        while let Some(step) = worker.drain()? {
            count(&mut tally, step);
        }
        Ok(tally)
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
    drive_metered(workers, span, stop, &Vec::new)
}

/// As [`drive`], with what the network cards carry meanwhile.
///
/// # Errors
/// As [`drive`].
pub fn drive_metered<W: Worker>(
    workers: &mut [W],
    span: &Span,
    stop: &Stop,
    meter: Meter<'_>,
) -> Result<Measured, BenchError> {
    let every = (span.duration / SAMPLES_PER_ROW).clamp(SAMPLE_MIN, SAMPLE_MAX);
    if !span.warm_up.is_zero() {
        let warm_up = Goal::Time(span.warm_up);
        phase(workers, warm_up, stop, Sampler::new(every, &Vec::new))?;
    }
    phase(workers, span.goal(), stop, Sampler::new(every, meter))
}

/// Runs all threads until each has reached the goal and has nothing in flight.
fn phase<W: Worker>(
    workers: &mut [W],
    goal: Goal,
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
    goal: Goal,
    course: &Course<'_>,
    mut sampler: Sampler<'m>,
) -> (Vec<Result<Tally, BenchError>>, Sampler<'m>) {
    thread::scope(|scope| {
        let (ended, all_ended) = channel::<()>();
        let count = workers.len();
        let mut threads = Vec::with_capacity(count);
        let mut tallies = Vec::with_capacity(count);
        for (thread, worker) in workers.iter_mut().enumerate() {
            let (ended, goal) = (ended.clone(), goal.share(thread, count));
            let work = move || {
                // Dropped at the end of the thread, however it ends: the sampler waits for that.
                let _ended = ended;
                let outcome = course.run(worker, goal);
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
    tallies: Vec<Result<Tally, BenchError>>,
    mut sampler: Sampler<'_>,
) -> Result<Measured, BenchError> {
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
    sampler.mark(all.last);
    let Sampler {
        mut samples, marks, ..
    } = sampler;
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
        marks,
    })
}

#[cfg(test)]
mod tests;
