//! Hosts turn by turn: what becomes a sign, and what only looks like one.

use super::*;
use crate::snapshot::NicSeries;

const MS: u64 = 1_000_000;

/// A link after `turns` turns in each of which there were that many exchanges of that many bytes.
fn asked(peer: &str, turns: u64, exchanges: u64, bytes: u64, beside_ns: u64) -> LinkSeries {
    LinkSeries {
        device: "eth0".to_owned(),
        peer: peer.to_owned(),
        connections: 1,
        round_trip_ns: Some(90_000),
        asked_round_trip_ns: Some(90_000),
        round_trip_min_ns: 40_000,
        operations: turns * exchanges,
        bytes: turns * exchanges * bytes,
        peer_ns: turns * exchanges * beside_ns,
        ..LinkSeries::default()
    }
}

/// A link on which we only answer a peer that pauses for 7 ms between its requests.
fn answering(peer: &str) -> LinkSeries {
    LinkSeries { round_trip_ns: Some(7 * MS), asked_round_trip_ns: None, ..asked(peer, 0, 0, 0, 0) }
}

fn host(turn: u64, links: Vec<LinkSeries>) -> Snapshot {
    let nic = NicSeries {
        device: "eth0".to_owned(),
        kind: "ethernet".to_owned(),
        ..NicSeries::default()
    };
    Snapshot { monotonic_ns: 1 + turn * 1000 * MS, nics: vec![nic], links, ..Snapshot::default() }
}

fn values(samples: &[Sample]) -> Vec<(SuspectKind, &str, u64)> {
    let values = samples.iter();
    values.map(|sample| (sample.kind, sample.name.as_str(), sample.value_ns)).collect()
}

#[test]
fn connections_on_which_we_only_answer_give_no_sign() {
    let mut samples = Samples::default();
    for turn in 0..10 {
        let links = vec![asked("10.0.0.4", turn, 100, 0, 0), answering("10.0.0.3")];
        let given = samples.take(&host(turn, links), &[]);
        assert!(given.iter().all(|sample| sample.name != "10.0.0.3"), "{given:?}");
        assert_eq!(given.len(), if turn == 0 { 0 } else { 3 }, "{given:?}");
    }
    // The one that asked has gone.
    for turn in 10..20 {
        let links = vec![answering("10.0.0.3")];
        assert_eq!(samples.take(&host(turn, links), &[]), [], "turn {turn}");
    }
}

#[test]
fn large_exchanges_are_no_sign_of_a_slow_peer() {
    let mut samples = Samples::default();
    for turn in 0..3 {
        let links = vec![
            asked("10.0.0.3", turn, 100, 65_536, 600_000),
            asked("10.0.0.4", turn, 100, 64, 10_640),
        ];
        let given = samples.take(&host(turn, links), &[]);
        let beside = given.iter().filter(|sample| sample.group.is_empty());
        let times: Vec<_> = beside.map(|sample| sample.value_ns).collect();
        assert!(times.iter().all(|time| *time < 20_000), "{times:?}");
    }
}

#[test]
fn few_exchanges_become_a_sign_when_they_are_enough_together() {
    let mut samples = Samples::default();
    let given = (0..13).map(|turn| {
        let links = vec![asked("10.0.0.4", turn, 4, 0, 500_000)];
        values(&samples.take(&host(turn, links), &[]))
            .iter()
            .filter(|sample| **sample == (SuspectKind::Peer, "10.0.0.4", 500_000))
            .count()
    });
    let given: Vec<_> = given.collect();
    assert_eq!(given, [0, 0, 0, 1, 0, 0, 1, 0, 0, 1, 0, 0, 1]);
}

#[test]
fn a_nic_is_measured_again_when_the_nearest_peer_that_we_ask_has_gone() {
    let mut samples = Samples::default();
    let far = |turn| LinkSeries {
        round_trip_ns: Some(2 * MS),
        asked_round_trip_ns: Some(2 * MS),
        round_trip_min_ns: 2 * MS,
        ..asked("10.9.0.1", turn, 100, 0, 0)
    };
    for turn in 0..20 {
        let mut links = vec![far(turn), answering("10.0.0.3")];
        if turn < 10 {
            links.push(asked("10.0.0.4", turn, 100, 0, 0));
        }
        let given = samples.take(&host(turn, links), &[]);
        let starts_over: Vec<_> = given.iter().filter(|sample| sample.starts_over).collect();
        assert_eq!(starts_over.len(), usize::from(turn == 10), "turn {turn}: {starts_over:?}");
        assert!(starts_over.iter().all(|sample| sample.name == "eth0"));
    }
}
