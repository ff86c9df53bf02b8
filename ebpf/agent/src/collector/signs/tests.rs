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

/// A link on which we only answer somebody who pauses for 7 ms between his questions.
fn answering(peer: &str) -> LinkSeries {
    LinkSeries {
        round_trip_ns: Some(7 * MS),
        asked_round_trip_ns: None,
        ..asked(peer, 0, 0, 0, 0)
    }
}

fn host(turn: u64, links: Vec<LinkSeries>) -> Snapshot {
    let nic = NicSeries {
        device: "eth0".to_owned(),
        kind: "ethernet".to_owned(),
        ..NicSeries::default()
    };
    Snapshot {
        monotonic_ns: 1 + turn * 1000 * MS,
        nics: vec![nic],
        links,
        ..Snapshot::default()
    }
}

fn told(signs: &[Sign]) -> Vec<(SuspectKind, &str, u64)> {
    let told = signs.iter();
    told.map(|sign| (sign.kind, sign.name.as_str(), sign.value_ns))
        .collect()
}

#[test]
fn connections_on_which_we_only_answer_give_no_sign() {
    let mut signs = Signs::default();
    for turn in 0..10 {
        let links = vec![asked("10.0.0.4", turn, 100, 0, 0), answering("10.0.0.3")];
        let given = signs.take(&host(turn, links), &[]);
        assert!(
            given.iter().all(|sign| sign.name != "10.0.0.3"),
            "{given:?}"
        );
        assert_eq!(given.len(), if turn == 0 { 0 } else { 3 }, "{given:?}");
    }
    // The one that asked has gone.
    for turn in 10..20 {
        let links = vec![answering("10.0.0.3")];
        assert_eq!(signs.take(&host(turn, links), &[]), [], "turn {turn}");
    }
}

#[test]
fn large_exchanges_are_no_sign_of_a_slow_peer() {
    let mut signs = Signs::default();
    for turn in 0..3 {
        let links = vec![
            asked("10.0.0.3", turn, 100, 65_536, 600_000),
            asked("10.0.0.4", turn, 100, 64, 10_640),
        ];
        let given = signs.take(&host(turn, links), &[]);
        let beside = given.iter().filter(|sign| sign.group.is_empty());
        let times: Vec<_> = beside.map(|sign| sign.value_ns).collect();
        assert!(times.iter().all(|time| *time < 20_000), "{times:?}");
    }
}

#[test]
fn few_exchanges_become_a_sign_when_they_are_enough_together() {
    let mut signs = Signs::default();
    let given = (0..13).map(|turn| {
        let links = vec![asked("10.0.0.4", turn, 4, 0, 500_000)];
        told(&signs.take(&host(turn, links), &[]))
            .iter()
            .filter(|sign| **sign == (SuspectKind::Peer, "10.0.0.4", 500_000))
            .count()
    });
    let given: Vec<_> = given.collect();
    assert_eq!(given, [0, 0, 0, 1, 0, 0, 1, 0, 0, 1, 0, 0, 1]);
}

#[test]
fn a_nic_is_measured_anew_when_the_nearest_of_those_we_ask_has_gone() {
    let mut signs = Signs::default();
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
        let given = signs.take(&host(turn, links), &[]);
        let anew: Vec<_> = given.iter().filter(|sign| sign.is_anew).collect();
        assert_eq!(anew.len(), usize::from(turn == 10), "turn {turn}: {anew:?}");
        assert!(anew.iter().all(|sign| sign.name == "eth0"));
    }
}
