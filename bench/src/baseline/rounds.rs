//! A load and what it is held against, taken in turn. Invariant: each baseline is taken directly
//! before and after the load of a round, and a round in which the machine was not quiet does not
//! count.

use std::time::{Duration, Instant};

use crate::cpu::Watch;
use crate::error::BenchError;
use crate::limits::{
    BASELINE_TIME, DRIFT_MAX, FOREIGN_SHARE_MAX, STEAL_SHARE_MAX, TRIES_PER_ROUND,
};
use crate::load::drive::{Measured, Span, Worker, drive};
use crate::sample::Spread;
use crate::stop::Stop;

/// How many rounds, and which.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Quiet {
    /// Quiet rounds of a row.
    pub(crate) rounds: u32,
    /// Keep the others, too.
    pub(crate) any_noise: bool,
}

/// The same work as a load, done without our program.
pub(crate) trait Baseline {
    /// What it is: `cold memcpy`.
    fn name(&self) -> &'static str;
    /// Works for about so long.
    ///
    /// # Errors
    /// It failed.
    fn measure(&mut self, time: Duration) -> Result<Measured, BenchError>;
}

/// Workers that are a baseline.
pub(crate) struct Driven<'a, W> {
    pub(crate) name: &'static str,
    pub(crate) workers: Vec<W>,
    pub(crate) stop: &'a Stop,
}

impl<W: Worker> Baseline for Driven<'_, W> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn measure(&mut self, time: Duration) -> Result<Measured, BenchError> {
        drive(&mut self.workers, &Span::cold(time), self.stop)
    }
}

/// A baseline beside a load.
#[derive(Debug)]
pub(crate) struct Beside {
    pub(crate) name: &'static str,
    /// All of its takes.
    pub(crate) measured: Measured,
    /// Rate of the load by that of the baseline, of each round.
    pub(crate) ratios: Vec<f64>,
}

impl Beside {
    /// One that was not taken yet.
    pub(crate) fn new(name: &'static str) -> Self {
        Self { name, measured: Measured::default(), ratios: Vec::new() }
    }

    /// Median and range of the ratios.
    pub(crate) fn ratio(&self) -> Spread {
        Spread::of(&self.ratios)
    }
}

/// What a load did, and its baselines.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) load: Measured,
    pub(crate) beside: Vec<Beside>,
    /// Rounds in which the machine was not quiet.
    pub(crate) dropped: u32,
}

impl From<Measured> for Taken {
    fn from(load: Measured) -> Self {
        Self { load, beside: Vec::new(), dropped: 0 }
    }
}

/// The rows that are held against the same baselines.
pub(crate) struct Rounds<'a> {
    pub(crate) quiet: Quiet,
    /// Our own processes.
    pub(crate) pids: &'a [u32],
    pub(crate) baselines: Vec<Box<dyn Baseline + 'a>>,
}

impl Rounds<'_> {
    /// Takes rounds until enough were quiet; `span` is the time of all.
    ///
    /// # Errors
    /// The load or a baseline failed, or the machine was never quiet.
    pub(crate) fn take(
        &mut self,
        span: &Span,
        load: &mut dyn FnMut(&Span) -> Result<Measured, BenchError>,
    ) -> Result<Taken, BenchError> {
        let wanted = self.quiet.rounds;
        let part = span.part(wanted);
        let mut taken = Taken::from(Measured::default());
        let names = self.baselines.iter().map(|baseline| baseline.name());
        taken.beside = names.map(Beside::new).collect();
        let mut kept = 0;
        while kept < wanted {
            let mut round = Round::take(self, &part, load)?;
            let noise = round.noise.take();
            if let Some(noise) = noise.filter(|_| !self.quiet.any_noise) {
                taken.dropped += 1;
                if taken.dropped + kept >= wanted * TRIES_PER_ROUND {
                    return Err(BenchError::Noise { kept, wanted, why: noise });
                }
                continue;
            }
            taken.keep(&round);
            kept += 1;
        }
        Ok(taken)
    }

    fn takes(&mut self, time: Duration) -> Result<Vec<Measured>, BenchError> {
        let time = (time / 2).min(BASELINE_TIME);
        let baselines = self.baselines.iter_mut();
        baselines.map(|baseline| baseline.measure(time)).collect()
    }
}

impl Taken {
    fn keep(&mut self, round: &Round) {
        self.load.add(&round.load);
        let takes = round.before.iter().zip(&round.after);
        for (beside, (before, after)) in self.beside.iter_mut().zip(takes) {
            let rate = f64::midpoint(before.rate(), after.rate());
            beside.ratios.push(round.load.rate() / rate.max(1e-9));
            beside.measured.add(before);
            beside.measured.add(after);
        }
    }
}

/// One load between two takes of each baseline.
struct Round {
    load: Measured,
    before: Vec<Measured>,
    after: Vec<Measured>,
    /// Why it does not count.
    noise: Option<String>,
}

impl Round {
    fn take(
        rounds: &mut Rounds<'_>,
        part: &Span,
        load: &mut dyn FnMut(&Span) -> Result<Measured, BenchError>,
    ) -> Result<Self, BenchError> {
        let (started, watch) = (Instant::now(), Watch::start(rounds.pids)?);
        let before = rounds.takes(part.duration)?;
        let load = load(part)?;
        let after = rounds.takes(part.duration)?;
        let noise = watch.noise(started.elapsed())?;
        let drift = match (before.first(), after.first()) {
            (Some(one), Some(other)) => {
                (one.rate() - other.rate()).abs() / one.rate().max(other.rate())
            }
            _ => 0.0,
        };
        let is_quiet = noise.foreign <= FOREIGN_SHARE_MAX
            && noise.stolen <= STEAL_SHARE_MAX
            && drift <= DRIFT_MAX;
        let noise = (!is_quiet).then(|| {
            format!(
                "others took {:.0} %, stolen {:.0} %, the baseline moved by {:.0} %",
                noise.foreign * 100.0,
                noise.stolen * 100.0,
                drift * 100.0
            )
        });
        Ok(Self { load, before, after, noise })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes so many units per second.
    struct Fixed(u64);

    impl Baseline for Fixed {
        fn name(&self) -> &'static str {
            "fixed"
        }

        fn measure(&mut self, _time: Duration) -> Result<Measured, BenchError> {
            Ok(Measured::of(Duration::from_secs(1), 1, self.0))
        }
    }

    fn take(any_noise: bool, baselines: Vec<Box<dyn Baseline>>) -> Result<Taken, BenchError> {
        let quiet = Quiet { rounds: 3, any_noise };
        let mut rounds = Rounds { quiet, pids: &[], baselines };
        let span = Span::cold(Duration::from_millis(3));
        rounds.take(&span, &mut |part| {
            assert_eq!(part.duration, Duration::from_millis(1));
            Ok(Measured::of(Duration::from_secs(2), 1, 100))
        })
    }

    #[test]
    fn a_ratio_is_that_of_the_rates_of_one_round() {
        let taken = take(true, vec![Box::new(Fixed(100)), Box::new(Fixed(25))]).unwrap();
        let ratios: Vec<f64> = taken.beside.iter().map(|one| one.ratio().median).collect();
        assert_eq!(ratios, [0.5, 2.0]);
        assert_eq!((taken.load.units, taken.load.samples.len()), (300, 3));
        assert_eq!(taken.beside[0].measured.samples.len(), 6);
    }

    /// Twice as fast each time.
    struct Drifting(u64);

    impl Baseline for Drifting {
        fn name(&self) -> &'static str {
            "drifting"
        }

        fn measure(&mut self, _time: Duration) -> Result<Measured, BenchError> {
            self.0 *= 2;
            Ok(Measured::of(Duration::from_secs(1), 1, self.0))
        }
    }

    #[test]
    fn rounds_in_which_the_baseline_moves_are_dropped_and_said() {
        let error = take(false, vec![Box::new(Drifting(1))]).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("Only 0 of 3") && text.contains("moved by 50 %"), "{text}");
        assert!(take(true, vec![Box::new(Drifting(1))]).is_ok());
    }
}
