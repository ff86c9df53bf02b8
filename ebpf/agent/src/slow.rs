//! Who is slow: the odd one out among NICs, shards, disks and peers.
//!
//! Pure: samples go in once a turn, suspects come out; no clock, no I/O. The invariant: no subject
//! is named for what all of its kind show at the same time, and none for a single bad turn.

mod evidence;
pub(crate) mod link_state;
mod rule;
pub(crate) mod sample;
mod series;
pub(crate) mod share;
pub(crate) mod silence;
#[cfg(test)]
mod tests;

use crate::snapshot::{Suspect, SuspectCause, SuspectKind};
use evidence::evidence;
use link_state::{LinkState, LinkStateDetector};
pub(crate) use rule::{OWN_GROUP, RDMA_GROUP, SHORTEST_GROUP, STILL_GROUP, WIRE_GROUP};
use rule::{SlowRule, is_beyond};
use sample::{PeerBaseline, Sample, Subject, is_crowded, is_starved};
use series::{Grade, SubjectHistory, median};
use share::{ShareDetector, ShareSample};
use silence::{LinkSilence, SilenceDetector};
use std::collections::{BTreeMap, BTreeSet};

/// Turns without a sample after which a subject is forgotten.
const SILENT_TURNS_MAX: u32 = 30;
/// Turns without a sample after which a subject is not compared with others, and is cleared.
const STALE_TURNS: u32 = 3;
/// Most subjects tracked; further ones are not watched.
const SERIES_MAX: usize = 4096;

/// NICs by the peer that is reached over them.
pub(crate) type Ways = BTreeMap<String, BTreeSet<String>>;

/// What is judged of one turn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Signs {
    pub(crate) samples: Vec<Sample>,
    pub(crate) shares: Vec<ShareSample>,
    pub(crate) links: Vec<LinkState>,
    pub(crate) silences: Vec<LinkSilence>,
    pub(crate) ways: Ways,
    /// What `perigee check` measured of a round trip over each NIC.
    pub(crate) checked_ns: BTreeMap<String, u64>,
}

/// Finds slow subjects by their history and by comparison with each other.
#[derive(Debug, Default)]
pub(crate) struct SlowDetector {
    known: BTreeMap<Subject, SubjectHistory>,
    /// Who is slow now. A turn without a sample clears no subject: the worst are too slow to give
    /// any.
    blamed: BTreeMap<Subject, Suspect>,
    shares: ShareDetector,
    links: LinkStateDetector,
    silences: SilenceDetector,
}

impl SlowDetector {
    /// Takes the signs of a turn and tells who is slow, and since when.
    pub(crate) fn judge(&mut self, now_ms: u64, signs: &Signs) -> Vec<Suspect> {
        let mut lossy = self.shares.judge(now_ms, &signs.shares);
        for worse in self.links.judge(now_ms, &signs.links) {
            worse.add_to(&mut lossy);
        }
        for silent in self.silences.judge(now_ms, &signs.silences) {
            silent.add_to(&mut lossy);
        }
        let slow = self.compare(now_ms, signs);
        self.with_slow(lossy, slow, &signs.ways)
    }

    /// Who takes longer than others and than usually.
    fn compare(&mut self, now_ms: u64, signs: &Signs) -> Vec<Suspect> {
        let samples = &signs.samples;
        self.known.values_mut().for_each(SubjectHistory::begin_turn);
        for sample in samples {
            let who = (sample.kind, sample.group.clone(), sample.name.clone());
            if self.known.contains_key(&who) || self.known.len() < SERIES_MAX {
                let series = self.known.entry(who).or_default();
                if sample.starts_over {
                    series.start_over();
                }
                series.push(sample.value_ns);
            }
        }
        self.known.retain(|_, series| series.silent_turns() < SILENT_TURNS_MAX);
        let typical = self.typical();
        let slowdown =
            self.against_usual(&typical, |now, usual| now.saturating_mul(10) / usual.max(1));
        let increase = self.against_usual(&typical, u64::saturating_sub);
        let usual = self.usual();
        let is_crowded = is_crowded(&typical);
        for sample in samples {
            let who = (sample.kind, sample.group.clone(), sample.name.clone());
            let comparison = PeerBaseline {
                others_ns: others(&typical, &who),
                others_usual_ns: others(&usual, &who),
                others_slowdown_tenths: others(&slowdown, &who).unwrap_or(10).max(10),
                others_increase_ns: others(&increase, &who).unwrap_or(0),
                is_crowded,
                checked_ns: signs.checked_ns.get(&sample.name).copied(),
            };
            let series = self.known.get_mut(&who);
            match series.and_then(|series| judge_one(series, sample, &comparison, now_ms)) {
                Some(suspect) => drop(self.blamed.insert(who, suspect)),
                None => drop(self.blamed.remove(&who)),
            }
        }
        self.blamed.retain(|who, _| {
            let series = self.known.get(who);
            series.is_some_and(|series| series.silent_turns() < STALE_TURNS)
        });
        self.note_explained(&signs.ways, is_starved(&typical));
        let judged = self.blamed.iter().filter(|(who, _)| !self.was_explained(who));
        judged.map(|(_, suspect)| suspect.clone()).collect()
    }

    /// Notes which ways that take longer are explained, and which peers that seem to stand still:
    /// by a thread of this host that gets no core. They stay so for as many turns as count as the
    /// present: signs come and go at different times.
    fn note_explained(&mut self, ways: &Ways, is_starved: bool) {
        let slow = self
            .known
            .iter()
            .filter(|(who, series)| series.is_slow() || self.blamed.contains_key(*who));
        let explained = slow.map(|(who, _)| who).filter(|who| self.is_explained(who, ways));
        let mut explained: Vec<Subject> = explained.cloned().collect();
        let still = self.blamed.iter().filter(|(who, suspect)| {
            who.0 == SuspectKind::Peer && suspect.cause == SuspectCause::Still
        });
        explained.extend(still.filter(|_| is_starved).map(|(who, _)| who.clone()));
        for who in explained {
            self.known.entry(who).or_default().note_explained();
        }
    }

    fn was_explained(&self, who: &Subject) -> bool {
        self.known.get(who).is_some_and(SubjectHistory::was_explained)
    }

    /// Whether what a way takes longer is the time that all peers on it take themselves: a kernel
    /// acknowledges late what its program does not answer, so a program that stands still looks
    /// like a long way.
    fn is_explained(&self, who: &Subject, ways: &Ways) -> bool {
        let (kind, group, name) = who;
        let is_way = match kind {
            SuspectKind::Nic => group != RDMA_GROUP,
            SuspectKind::Peer => group != OWN_GROUP && group != STILL_GROUP,
            SuspectKind::Shard | SuspectKind::Disk => false,
        };
        let peers: Vec<&str> = match kind {
            SuspectKind::Nic => {
                let peers = ways.iter().filter(|(_, nics)| nics.contains(name));
                peers.map(|(peer, _)| peer.as_str()).collect()
            }
            _ => vec![name],
        };
        let of = |peer: &str| (SuspectKind::Peer, OWN_GROUP.to_owned(), peer.to_owned());
        let own = peers.into_iter().filter_map(|peer| self.known.get(&of(peer)));
        let (fresh, stale): (Vec<_>, Vec<_>) =
            own.partition(|series| series.silent_turns() < STALE_TURNS);
        let own = if fresh.is_empty() { stale } else { fresh };
        let Some(way_ns) = self.known.get(who).and_then(SubjectHistory::growth) else {
            return false;
        };
        let explains = |series: &SubjectHistory| series.growth() >= Some(way_ns / 2);
        is_way && !own.is_empty() && own.into_iter().all(explains)
    }

    /// Adds to those that lose those that are slow, but for their victims: peers behind a slow NIC
    /// look slow because of it, also while its own verdict is still to come, and those whose
    /// segments are lost on the way because of that, as NICs do all of whose links lose. None is
    /// named twice.
    fn with_slow(&self, lossy: Vec<Suspect>, slow: Vec<Suspect>, ways: &Ways) -> Vec<Suspect> {
        let is_nic = |suspect: &Suspect| suspect.kind == SuspectKind::Nic;
        let named = lossy.iter().chain(&slow).filter(|suspect| is_nic(suspect));
        let mut sick: BTreeSet<String> = named.map(|suspect| suspect.name.clone()).collect();
        let wavering = self.known.iter();
        let wavering = wavering.filter(|(who, series)| {
            who.0 == SuspectKind::Nic && series.is_slow() && !series.was_explained()
        });
        sick.extend(wavering.map(|(who, _)| who.2.clone()));
        let mut kept = lossy;
        for suspect in slow {
            let mut nics = ways.get(&suspect.name).into_iter().flatten();
            let is_victim = match suspect.kind {
                SuspectKind::Peer => {
                    nics.any(|nic| sick.contains(nic) || self.shares.is_bad(nic, &suspect.name))
                }
                SuspectKind::Nic => self.all_lose(&suspect.name, ways),
                SuspectKind::Shard | SuspectKind::Disk => false,
            };
            let is_named = |other: &Suspect| other.is_of(&suspect);
            if !is_victim && !kept.iter().any(is_named) {
                kept.push(suspect);
            }
        }
        kept
    }

    /// Whether segments are lost on all ways over a NIC, so that all of them take longer.
    fn all_lose(&self, device: &str, ways: &Ways) -> bool {
        let mut peers = ways.iter().filter(|(_, nics)| nics.contains(device)).peekable();
        peers.peek().is_some() && peers.all(|(peer, _)| self.shares.is_bad(device, peer))
    }

    /// What each did lately, of those who gave a sign lately.
    fn typical(&self) -> BTreeMap<Subject, u64> {
        let lately = self.known.iter().filter(|(_, series)| series.silent_turns() < STALE_TURNS);
        lately.filter_map(|(who, series)| Some((who.clone(), series.typical()?))).collect()
    }

    /// The baseline of each that has one.
    fn usual(&self) -> BTreeMap<Subject, u64> {
        let known = self.known.iter();
        known.filter_map(|(who, series)| Some((who.clone(), series.usual()?))).collect()
    }

    /// What each did lately, relative to its baseline, of those with a known baseline.
    fn against_usual(
        &self,
        typical: &BTreeMap<Subject, u64>,
        compare: impl Fn(u64, u64) -> u64,
    ) -> BTreeMap<Subject, u64> {
        let compared = |(who, now_ns): (&Subject, &u64)| {
            let usual_ns = self.known.get(who)?.usual()?;
            Some((who.clone(), compare(*now_ns, usual_ns)))
        };
        typical.iter().filter_map(compared).collect()
    }
}

fn judge_one(
    series: &mut SubjectHistory,
    sample: &Sample,
    comparison: &PeerBaseline,
    now_ms: u64,
) -> Option<Suspect> {
    let now_ns = series.typical()?;
    let rule = SlowRule::of(sample).after(series.starts_over());
    if !rule.needs_usual() {
        series.meet(comparison.others_ns.is_some());
    }
    let usual_ns = series.usual();
    let best_ns = series.best()?;
    let checked_ns = comparison.checked_ns.filter(|checked| {
        rule::is_round_trip(sample) && !comparison.is_crowded && is_beyond(best_ns, *checked)
    });
    let verdict = match (rule.verdict(best_ns, usual_ns, comparison), checked_ns) {
        (Grade::Good, Some(_)) => Grade::Slow,
        (verdict, _) => verdict,
    };
    let since_ms = series.settle(verdict, comparison.others_ns.is_some(), now_ms)?;
    Some(Suspect {
        kind: sample.kind,
        name: sample.name.clone(),
        cause: sample.cause,
        evidence: evidence(sample.what, now_ns, comparison.others_ns, (usual_ns, checked_ns)),
        since_ms,
        now_ns,
        usual_ns: checked_ns.or(usual_ns).or(comparison.others_ns).unwrap_or(0),
    })
}

/// The median of what the others of a group show.
fn others(typical: &BTreeMap<Subject, u64>, who: &Subject) -> Option<u64> {
    let comparable = typical
        .iter()
        .filter(|(other, _)| (other.0, &other.1) == (who.0, &who.1) && other.2 != who.2);
    median(comparable.map(|(_, value)| *value).collect())
}
