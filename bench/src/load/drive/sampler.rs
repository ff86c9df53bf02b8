//! Rates in equal parts of a load's time. Invariant: a part comes with the time it really took,
//! however late it was looked at.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use crate::ends::mover::CardCount;
use crate::limits::SAMPLES_MAX;

/// Tells what each network card has carried so far.
pub(crate) type Meter<'a> = &'a dyn Fn() -> Vec<CardCount>;

/// What the network cards had carried at some time.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Mark {
    /// Since the beginning of the load.
    pub(crate) at: Duration,
    /// One count per card.
    pub(crate) cards: Vec<CardCount>,
}

/// Looks at a load now and then.
pub(super) struct Sampler<'a> {
    every: Duration,
    meter: Meter<'a>,
    pub(super) samples: Vec<f64>,
    pub(super) marks: Vec<Mark>,
}

impl<'a> Sampler<'a> {
    pub(super) fn new(every: Duration, meter: Meter<'a>) -> Self {
        Self { every, meter, samples: Vec::new(), marks: Vec::new() }
    }

    /// Notes what the cards have carried so far.
    pub(super) fn mark(&mut self, at: Duration) {
        let cards = (self.meter)();
        self.marks.push(Mark { at, cards });
    }

    /// Takes samples until every thread has ended.
    pub(super) fn run(&mut self, start: Instant, units: &AtomicU64, ended: &Receiver<()>) {
        let (mut before, mut last) = (0, start);
        loop {
            let wait = (last + self.every).saturating_duration_since(Instant::now());
            match ended.recv_timeout(wait) {
                Ok(()) => {}
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {
                    let now = Instant::now();
                    let units = units.load(Ordering::Relaxed);
                    if self.samples.len() < SAMPLES_MAX {
                        let rate = (units - before) as f64 / (now - last).as_secs_f64();
                        self.samples.push(rate);
                        self.mark(now - start);
                    }
                    (before, last) = (units, now);
                }
            }
        }
    }
}
