//! How soon objects of a kind are asked for again, learned from a sample of the keys.
//! Invariant: of two blocks of one prompt the one nearer its head is worth no less, so a prompt
//! loses its tail first.
//!
//! All kinds share one curve of the chance to come back by age, and each kind has a factor on it;
//! where there is enough to see, a kind has a curve of its own. What is kept for a time costs its
//! place for that time, so an object is worth the best chance per time that any time to come has
//! for it (Gittins' index). With equal factors, and a chance that falls as one by the age, this is
//! the order of last use; that is what the curves begin with, but for a factor of three for what
//! was read.

use crate::limits::{CURVE_EVENTS_MAX, CURVE_PRIOR_RUNS};

use super::ages::{BINS, bin, edge, part};
use super::kind::{KINDS, ObjectKind};

/// One number for each kind and age.
type ByKind<T> = [[T; BINS]; KINDS];

/// Chance to come back within one bin that is believed before anything was seen.
const CHANCE: f64 = 0.05;
/// Runs that the shared curve, the factor of a kind or a group, and the own curve of a kind weigh
/// before anything was seen.
const SHAPE_RUNS: f64 = 10.0;
const FACTOR_RUNS: f64 = 4.0;
const OWN_RUNS: f64 = 8.0;
/// Weights of bins so far from the one that is looked at.
const NEAR: [f64; 4] = [1.0, 0.8, 0.4, 0.15];
/// No chance is greater.
const CHANCE_MAX: f64 = 0.95;

/// Blocks of one prompt come back together, so that they say less than as many that come alone.
#[derive(Debug, Clone, Copy, Default)]
struct Runs {
    call: u64,
    length: f64,
    lengths: f64,
    squares: f64,
}

impl Runs {
    fn note(&mut self, call: u64) {
        if self.call != call {
            self.lengths += self.length;
            self.squares += self.length * self.length;
            (self.call, self.length) = (call, 0.0);
            if self.lengths > 1000.0 {
                (self.lengths, self.squares) = (self.lengths / 2.0, self.squares / 2.0);
            }
        }
        self.length += 1.0;
    }
}

#[derive(Debug)]
pub(super) struct Curves {
    /// Keys that came back, by what they were and how old.
    returned: ByKind<f32>,
    /// Keys that were given up before they came back.
    given_up: ByKind<f32>,
    runs: [Runs; KINDS],
    worth: ByKind<f32>,
}

impl Curves {
    pub(super) fn new() -> Box<Self> {
        let none = [[0.0; BINS]; KINDS];
        let runs = [Runs::default(); KINDS];
        let mut curves = Box::new(Self { returned: none, given_up: none, runs, worth: none });
        curves.learn(std::iter::empty());
        curves
    }

    /// A key of a kind came back.
    pub(super) fn note_return(&mut self, kind: ObjectKind, age: u64, call: u64) {
        self.returned[kind.index()][bin(age)] += 1.0;
        self.runs[kind.index()].note(call);
    }

    /// A key is looked at no longer.
    pub(super) fn note_end(&mut self, kind: ObjectKind, age: u64) {
        self.given_up[kind.index()][bin(age)] += 1.0;
    }

    /// Chance to come back per touch that an object costs its place.
    pub(super) fn worth(&self, kind: ObjectKind, age: u64) -> f32 {
        let (worth, at) = (&self.worth[kind.index()], bin(age).min(BINS - 2));
        let part = part(at, age);
        worth[at] * (1.0 - part) + worth[at + 1] * part
    }

    /// Draws the curves again; `waiting` are the keys that have not come back yet, with their ages.
    pub(super) fn learn(&mut self, waiting: impl Iterator<Item = (ObjectKind, u64)>) {
        let mut seen = self.given_up;
        for (kind, age) in waiting {
            seen[kind.index()][bin(age)] += 1.0;
        }
        let at_risk = at_risk(&seen, &self.returned);
        let lengths = Lengths::of(&self.runs);
        let mut factors: [f64; KINDS] =
            std::array::from_fn(|at| factor_at_start(ObjectKind::at(at)));
        let mut shape = [0.0; BINS];
        for _ in 0..3 {
            shape = self.shape(&at_risk, &factors, lengths.all);
            factors = self.factors(&at_risk, &shape, &lengths);
        }
        for kind in 0..KINDS {
            let of_shape = shape.map(|chance| chance * factors[kind]);
            let weight = OWN_RUNS * lengths.of_kind[kind];
            let own = smoothed(&self.returned[kind], &at_risk[kind], &of_shape, weight, Prior::One);
            self.worth[kind] =
                best_rates(&std::array::from_fn(|at| (of_shape[at] * own[at]).min(CHANCE_MAX)));
        }
        let is_seen = |kind: &ObjectKind| kind.is_continued() && at_risk[kind.index()][0] > 0.0;
        let any_continued = ObjectKind::all().any(|kind| is_seen(&kind));
        self.keep_heads(any_continued);
        self.halve_if_full();
    }

    /// The chance at each age that all kinds share.
    fn shape(&self, at_risk: &ByKind<f64>, factors: &[f64; KINDS], run_length: f64) -> [f64; BINS] {
        let (mut returned, mut expected) = ([0.0_f32; BINS], [0.0_f64; BINS]);
        for kind in 0..KINDS {
            for at in 0..BINS {
                returned[at] += self.returned[kind][at];
                expected[at] += factors[kind] * at_risk[kind][at];
            }
        }
        let weight = SHAPE_RUNS * run_length;
        let all: f64 = returned.iter().map(|count| f64::from(*count)).sum();
        let level = (all + weight * CHANCE) / (expected.iter().sum::<f64>() + weight);
        let widths: [f64; BINS] = std::array::from_fn(|at| level * log_width(at));
        let own = smoothed(&returned, &expected, &widths, weight * level, Prior::Neighbour);
        std::array::from_fn(|at| widths[at] * own[at])
    }

    /// How much sooner or later than all others each kind comes back.
    fn factors(
        &self,
        at_risk: &ByKind<f64>,
        shape: &[f64; BINS],
        lengths: &Lengths,
    ) -> [f64; KINDS] {
        let expected: [f64; KINDS] = std::array::from_fn(|kind| {
            let chances = at_risk[kind].iter().zip(shape).map(|(count, chance)| count * chance);
            chances.sum()
        });
        let returned: [f64; KINDS] =
            std::array::from_fn(|kind| f64::from(self.returned[kind].iter().sum::<f32>()));
        // Kinds that were read equally often help each other out.
        let (mut of_reads, mut expected_of_reads) = ([0.0; 4], [0.0; 4]);
        for kind in ObjectKind::all().filter(|kind| !kind.is_last()) {
            let (at, reads) = (kind.index(), usize::from(kind.reads()));
            of_reads[reads] += returned[at];
            expected_of_reads[reads] += factor_at_start(kind) * expected[at];
        }
        let weight = FACTOR_RUNS * lengths.all;
        std::array::from_fn(|at| {
            let kind = ObjectKind::at(at);
            let reads = usize::from(kind.reads());
            let group = (of_reads[reads] + weight) / (expected_of_reads[reads] + weight);
            let start = factor_at_start(kind) * if kind.is_last() { 1.0 } else { group };
            let weight = FACTOR_RUNS * lengths.of_kind[at];
            start * (returned[at] + weight) / (start * expected[at] + weight)
        })
    }

    /// Sees to it that the head of a prompt is worth no less than what was stored behind it: blocks
    /// without their head are of no use.
    fn keep_heads(&mut self, any_continued: bool) {
        let is_behind = |kind: &ObjectKind| match any_continued {
            true => kind.is_continued(),
            false => kind.reads() == 0 && !kind.is_last(),
        };
        for at in 0..BINS {
            let behind =
                ObjectKind::all().filter(is_behind).map(|kind| self.worth[kind.index()][at]);
            let mut least = behind.fold(0.0, f32::max);
            for reads in 0..3 {
                let head = &mut self.worth[ObjectKind::returned(reads).index()][at];
                *head = head.max(least);
                least = *head;
            }
            for kind in ObjectKind::all().filter(|kind| kind.reads() == 0) {
                let new = &mut self.worth[kind.index()][at];
                *new = new.min(least);
            }
        }
    }

    /// Old counts weigh less as new ones come.
    fn halve_if_full(&mut self) {
        let counts = self.returned.iter().chain(&self.given_up).flatten();
        if counts.sum::<f32>() > CURVE_EVENTS_MAX {
            let counts = self.returned.iter_mut().chain(&mut self.given_up).flatten();
            counts.for_each(|count| *count /= 2.0);
        }
    }
}

/// The factor of a kind before anything was seen.
fn factor_at_start(kind: ObjectKind) -> f64 {
    match (kind.is_last(), kind.reads()) {
        (true, _) => 0.1,
        (false, 0) => 1.0,
        (false, _) => 3.0,
    }
}

/// How long runs of sampled keys are that come back together, on average over the keys.
struct Lengths {
    of_kind: [f64; KINDS],
    all: f64,
}

impl Lengths {
    fn of(runs: &[Runs; KINDS]) -> Self {
        let length = |squares: f64, lengths: f64| (squares / (lengths + 1.0)).max(1.0);
        let of_kind = std::array::from_fn(|at| {
            let start = if ObjectKind::at(at).is_last() { 1.0 } else { CURVE_PRIOR_RUNS };
            length(runs[at].squares + start, runs[at].lengths)
        });
        let squares: f64 = runs.iter().map(|run| run.squares).sum();
        let lengths = runs.iter().map(|run| run.lengths).sum();
        Self { of_kind, all: length(squares + CURVE_PRIOR_RUNS, lengths) }
    }
}

/// How many keys of each kind reached an age without coming back before.
fn at_risk(seen: &ByKind<f32>, returned: &ByKind<f32>) -> ByKind<f64> {
    let mut table = [[0.0; BINS]; KINDS];
    for kind in 0..KINDS {
        let mut older = 0.0;
        for at in (0..BINS).rev() {
            let here = f64::from(seen[kind][at] + returned[kind][at]);
            table[kind][at] = older + here / 2.0;
            older += here;
        }
    }
    table
}

/// What is believed of an age of which little was seen.
#[derive(Clone, Copy)]
enum Prior {
    /// As much as expected comes back.
    One,
    /// It is as with the age before.
    Neighbour,
}

/// How many times as many came back at each age as were expected, over neighbours too. What is
/// believed of it before weighs as much as `weight` keys that are expected.
fn smoothed(
    returned: &[f32; BINS],
    at_risk: &[f64; BINS],
    chances: &[f64; BINS],
    weight: f64,
    before: Prior,
) -> [f64; BINS] {
    let mut last = 1.0;
    std::array::from_fn(|at| {
        let (mut here, mut expected) = (weight * last, weight);
        for near in at.saturating_sub(3)..(at + 4).min(BINS) {
            let share = NEAR[near.abs_diff(at)];
            here += share * f64::from(returned[near]);
            expected += share * at_risk[near] * chances[near];
        }
        let found = here / expected;
        if let Prior::Neighbour = before {
            last = found;
        }
        found
    })
}

/// A bin's width in quarters of a doubling.
fn log_width(at: usize) -> f64 {
    4.0 * ((edge(at + 1) + 1) as f64 / (edge(at) + 1) as f64).log2()
}

/// For each age the best chance per time that any time from then on has: the steepest line from the
/// point of an age to a later one, over the time that objects are kept and the part that came back.
fn best_rates(chances: &[f64; BINS]) -> [f32; BINS] {
    let (mut left, mut time, mut back) = (1.0, 0.0, 0.0);
    let mut points = [(0.0, 0.0); BINS + 1];
    for (at, chance) in chances.iter().enumerate() {
        time += (edge(at + 1) - edge(at)) as f64 * left * (1.0 - chance / 2.0);
        back += left * chance;
        left *= 1.0 - chance;
        points[at + 1] = (time, back);
    }
    let slope = |from: (f64, f64), to: (f64, f64)| (to.1 - from.1) / (to.0 - from.0).max(1e-300);
    let mut corners = vec![points[BINS]];
    let mut rates = [0.0; BINS];
    for at in (0..BINS).rev() {
        let here = points[at];
        while let [.., second, first] = corners[..]
            && slope(here, first) <= slope(first, second)
        {
            corners.pop();
        }
        rates[at] = corners.last().map_or(0.0, |first| slope(here, *first)) as f32;
        corners.push(here);
    }
    rates
}

#[cfg(test)]
mod tests;
