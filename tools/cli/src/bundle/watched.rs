//! What the agent shows and has recorded. Invariant: a stretch of the past is asked for in parts
//! that the agent gives whole, and their number is bounded.

use super::pieces::Piece;
use crate::asked_agent::AskedAgent;
use crate::limits::BUNDLE_SUSPECTS_MAX;
use perigee_agent::{AgentOptions, Collector, PastSuspect, Snapshot};
use std::time::Duration;

/// The agent keeps a quarter of an hour by the second; the rest of a day by ten seconds.
const FINE_MS: u64 = 900_000;
/// A part that comes whole, in seconds and in tens of seconds: the agent thins what is longer.
const FINE_PART_MS: u64 = 200_000;
const COARSE_PART_MS: u64 = 2_000_000;
/// Time before and after a past suspect that belongs to it.
const AROUND_MS: u64 = 120_000;
/// Between two readings of a host that has no agent.
const OWN_PAUSE: Duration = Duration::from_secs(1);

const PAGES: &[(&str, &str)] = &[
    ("agent/snapshot.json", "/snapshot.json"),
    ("agent/explain.txt", "/explain"),
    ("agent/metrics.txt", "/metrics"),
    ("agent/history-day.json", "/history.json"),
];

/// All of it, the last `minutes` in full.
pub(super) fn of_agent(agent: &AskedAgent, minutes: u64) -> Vec<Piece> {
    let snapshot = agent.ask("/snapshot.json").and_then(|text| {
        serde_json::from_str::<Snapshot>(&text).map_err(|error| error.to_string())
    });
    let snapshot = match snapshot {
        Ok(snapshot) => snapshot,
        Err(reason) => {
            let reason = format!("the agent at {} does not answer: {reason}", agent.place());
            return vec![("agent".to_owned(), Err(reason))];
        }
    };
    let pages = PAGES.iter().map(|(name, path)| ((*name).to_owned(), agent.ask(path)));
    let past = stretches(snapshot.taken_ms, minutes, &snapshot.past_suspects);
    let past = past.into_iter().map(|stretch| {
        let (name, from, to) = stretch;
        (format!("agent/{name}.json"), agent.ask(&format!("/history.json?from={from}&to={to}")))
    });
    pages.chain(past).collect()
}

/// Without an agent: what this host did in a second.
pub(super) fn of_own_reading() -> Vec<Piece> {
    let options = AgentOptions { state: None, ..AgentOptions::default() };
    let mut collector = Collector::new(options);
    let mut read = |name: &str| {
        let text = serde_json::to_string(&collector.collect()).map_err(|error| error.to_string());
        (name.to_owned(), text)
    };
    let first = read("agent/snapshot.json");
    std::thread::sleep(OWN_PAUSE);
    vec![first, read("agent/snapshot-later.json")]
}

/// Names and ends of the stretches to ask for.
fn stretches(now: u64, minutes: u64, suspects: &[PastSuspect]) -> Vec<(String, u64, u64)> {
    let begin = now.saturating_sub(minutes * 60_000);
    let fine = begin.max(now.saturating_sub(FINE_MS));
    let parts = |from: u64, to: u64, step: u64| {
        let begins = (from..to).step_by(usize::try_from(step).unwrap_or(usize::MAX));
        begins.map(move |at| (at, (at + step).min(to) - 1))
    };
    let all = parts(begin, fine, COARSE_PART_MS).chain(parts(fine, now + 1, FINE_PART_MS));
    let mut stretches: Vec<_> =
        all.map(|(from, to)| (format!("history-{from}"), from, to)).collect();
    let earlier = suspects.iter().filter(|past| past.until_ms < begin);
    stretches.extend(earlier.take(BUNDLE_SUSPECTS_MAX).map(|past| {
        let from = past.suspect.since_ms.saturating_sub(AROUND_MS);
        let to = past.until_ms.saturating_add(AROUND_MS);
        (format!("suspect-{}-{}", past.suspect.kind.label(), past.suspect.since_ms), from, to)
    }));
    stretches
}

#[cfg(test)]
mod tests {
    use super::*;
    use perigee_agent::{Suspect, SuspectCause, SuspectKind};

    const NOW: u64 = 1_800_000_000_000;

    #[test]
    fn a_stretch_is_asked_for_without_a_gap_and_no_part_is_thinned() {
        for minutes in [1, 15, 60, 1440] {
            let parts = stretches(NOW, minutes, &[]);
            assert_eq!(parts[0].1, NOW - minutes * 60_000);
            assert!(parts.windows(2).all(|two| two[0].2 + 1 == two[1].1), "{parts:?}");
            assert_eq!(parts.last().unwrap().2, NOW);
            let is_whole = |(_, from, to): &(String, u64, u64)| {
                let step = if *from >= NOW - FINE_MS { 1000 } else { 10_000 };
                (to - from) / step <= 240
            };
            assert!(parts.iter().all(is_whole) && parts.len() <= 60, "{}", parts.len());
        }
    }

    #[test]
    fn the_minutes_around_earlier_suspects_are_asked_for_as_well() {
        let past = |since_ms: u64| PastSuspect {
            suspect: Suspect {
                kind: SuspectKind::Nic,
                name: "eth1".to_owned(),
                cause: SuspectCause::Wire,
                evidence: String::new(),
                since_ms,
                now_ns: 1,
                usual_ns: 1,
            },
            until_ms: since_ms + 30_000,
        };
        let suspects = [past(NOW - 60_000), past(NOW - 7_200_000)];
        let found = stretches(NOW, 15, &suspects);
        let around: Vec<_> = found.iter().filter(|one| one.0.starts_with("suspect-nic")).collect();
        assert_eq!(around.len(), 1);
        assert_eq!((around[0].1, around[0].2), (NOW - 7_320_000, NOW - 7_050_000));
        let crowd: Vec<_> = (0..64).map(|at| past(NOW - 7_200_000 - at)).collect();
        let around = stretches(NOW, 15, &crowd);
        let around = around.iter().filter(|one| one.0.starts_with("suspect-"));
        assert_eq!(around.count(), BUNDLE_SUSPECTS_MAX);
    }
}
