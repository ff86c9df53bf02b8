//! Who is slow: the odd one out among NICs, shards, disks and peers.
//!
//! Pure: signs go in once a turn, suspects come out; no clock, no I/O. The invariant: nobody is blamed for what all of his
//! kind show at the same time, and nobody for a single bad turn.

mod rule;
mod series;
#[cfg(test)]
mod tests;

use crate::snapshot::{Suspect, SuspectKind};
use rule::Rule;
pub(crate) use rule::{RDMA_GROUP, SHORTEST_GROUP};
use series::{Series, median};
use std::collections::BTreeMap;

/// Turns without a sign after which somebody is forgotten.
const SILENT_TURNS_MAX: u32 = 30;
/// Turns without a sign after which others are not compared with him, and he is not blamed any more.
const STALE_TURNS: u32 = 3;
/// Everybody that is remembered; more are not watched.
const SERIES_MAX: usize = 4096;
/// Half of our threads waiting this long in a second for a core make every number of the host doubtful.
const CROWDED_NS: u64 = 300_000_000;

/// How somebody did in one turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sign {
    pub(crate) kind: SuspectKind,
    pub(crate) name: String,
    /// Only members of a group are compared with each other.
    pub(crate) group: String,
    /// Smaller is better: a time for something that all of the group do.
    pub(crate) value_ns: u64,
    /// What the time is, for people.
    pub(crate) what: &'static str,
    /// From now on it is measured over others than before, so what it was is no measure.
    pub(crate) is_anew: bool,
}

/// Remembers how everybody did.
#[derive(Debug, Default)]
pub(crate) struct Judge {
    known: BTreeMap<Who, Series>,
    /// Who is slow now. A turn without a sign clears nobody: the worst are too slow to give any.
    blamed: BTreeMap<Who, Suspect>,
}

type Who = (SuspectKind, String, String);

/// Values of one turn that a subject is held against.
struct Comparison {
    others_ns: Option<u64>,
    /// How much slower than usual the others are, in tenths.
    others_slowdown_tenths: u64,
    /// And by how much.
    others_increase_ns: u64,
    is_crowded: bool,
}

impl Judge {
    /// Takes the signs of a turn and tells who is slow, and since when.
    pub(crate) fn judge(&mut self, now_ms: u64, signs: &[Sign]) -> Vec<Suspect> {
        self.known.values_mut().for_each(Series::begin_turn);
        for sign in signs {
            let who = (sign.kind, sign.group.clone(), sign.name.clone());
            if self.known.contains_key(&who) || self.known.len() < SERIES_MAX {
                let series = self.known.entry(who).or_default();
                if sign.is_anew {
                    series.begin_anew();
                }
                series.push(sign.value_ns);
            }
        }
        self.known
            .retain(|_, series| series.silent_turns() < SILENT_TURNS_MAX);
        let typical = self.typical();
        let slowdown =
            self.against_usual(&typical, |now, usual| now.saturating_mul(10) / usual.max(1));
        let increase = self.against_usual(&typical, u64::saturating_sub);
        let is_crowded = is_crowded(&typical);
        for sign in signs {
            let who = (sign.kind, sign.group.clone(), sign.name.clone());
            let comparison = Comparison {
                others_ns: others(&typical, &who),
                others_slowdown_tenths: others(&slowdown, &who).unwrap_or(10).max(10),
                others_increase_ns: others(&increase, &who).unwrap_or(0),
                is_crowded,
            };
            let series = self.known.get_mut(&who);
            match series.and_then(|series| judge_one(series, sign, &comparison, now_ms)) {
                Some(suspect) => drop(self.blamed.insert(who, suspect)),
                None => drop(self.blamed.remove(&who)),
            }
        }
        self.blamed.retain(|who, _| {
            let series = self.known.get(who);
            series.is_some_and(|series| series.silent_turns() < STALE_TURNS)
        });
        let blamed = self.blamed.iter();
        without_victims(blamed.map(|(who, suspect)| (who.1.as_str(), suspect.clone())))
    }

    /// What each did lately, of those who gave a sign lately.
    fn typical(&self) -> BTreeMap<Who, u64> {
        let lately = self
            .known
            .iter()
            .filter(|(_, series)| series.silent_turns() < STALE_TURNS);
        lately
            .filter_map(|(who, series)| Some((who.clone(), series.typical()?)))
            .collect()
    }

    /// What each did lately, held against his usual, of those whose usual is known.
    fn against_usual(
        &self,
        typical: &BTreeMap<Who, u64>,
        compare: impl Fn(u64, u64) -> u64,
    ) -> BTreeMap<Who, u64> {
        let compared = |(who, now_ns): (&Who, &u64)| {
            let usual_ns = self.known.get(who)?.usual()?;
            Some((who.clone(), compare(*now_ns, usual_ns)))
        };
        typical.iter().filter_map(compared).collect()
    }
}

fn judge_one(
    series: &mut Series,
    sign: &Sign,
    comparison: &Comparison,
    now_ms: u64,
) -> Option<Suspect> {
    let now_ns = series.typical()?;
    let rule = Rule::of(sign).after(series.is_anew());
    if !rule.needs_usual() {
        series.meet(comparison.others_ns.is_some());
    }
    let usual_ns = series.usual();
    let verdict = rule.verdict(series.best()?, usual_ns, comparison);
    let since_ms = series.settle(verdict, comparison.others_ns.is_some(), now_ms)?;
    Some(Suspect {
        kind: sign.kind,
        name: sign.name.clone(),
        evidence: evidence(sign.what, now_ns, comparison.others_ns, usual_ns),
        since_ms,
        now_ns,
        usual_ns: usual_ns.or(comparison.others_ns).unwrap_or(0),
    })
}

/// The median of what the others of a group show.
fn others(typical: &BTreeMap<Who, u64>, who: &Who) -> Option<u64> {
    let comparable = typical
        .iter()
        .filter(|(other, _)| (other.0, &other.1) == (who.0, &who.1) && other.2 != who.2);
    median(comparable.map(|(_, value)| *value).collect())
}

fn is_crowded(typical: &BTreeMap<Who, u64>) -> bool {
    let shards = typical
        .iter()
        .filter(|(who, _)| who.0 == SuspectKind::Shard);
    median(shards.map(|(_, value)| *value).collect()).is_some_and(|wait| wait >= CROWDED_NS)
}

/// Peers behind a slow NIC look slow because of it; and nobody is named twice.
fn without_victims<'a>(suspects: impl Iterator<Item = (&'a str, Suspect)>) -> Vec<Suspect> {
    let suspects: Vec<_> = suspects.collect();
    let nics: Vec<_> = suspects
        .iter()
        .filter(|(_, suspect)| suspect.kind == SuspectKind::Nic)
        .map(|(_, suspect)| suspect.name.clone())
        .collect();
    let mut kept: Vec<Suspect> = Vec::new();
    for (group, suspect) in suspects {
        let is_victim = suspect.kind == SuspectKind::Peer && nics.iter().any(|nic| nic == group);
        let is_named = |other: &Suspect| (other.kind, &other.name) == (suspect.kind, &suspect.name);
        if !is_victim && !kept.iter().any(is_named) {
            kept.push(suspect);
        }
    }
    kept
}

fn evidence(what: &str, now_ns: u64, others_ns: Option<u64>, usual_ns: Option<u64>) -> String {
    let mut text = format!("{what} {}", short_time(now_ns));
    if let Some(others) = others_ns {
        text.push_str(&format!(", others {}", short_time(others)));
    }
    if let Some(usual) = usual_ns {
        text.push_str(&format!(", usually {}", short_time(usual)));
    }
    text
}

/// Two or three digits and a unit.
fn short_time(nanoseconds: u64) -> String {
    match nanoseconds {
        0..1_000 => format!("{nanoseconds} ns"),
        1_000..1_000_000 => format!("{} us", nanoseconds / 1_000),
        _ => format!(
            "{}.{} ms",
            nanoseconds / 1_000_000,
            nanoseconds / 100_000 % 10
        ),
    }
}
