//! Hosts turn by turn: what becomes a sign, and what only looks like one.

use super::*;
use crate::slow::share::Mishap;
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
        wire_ns: turns * exchanges * (beside_ns + 90_000),
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
        let given = samples.take(&host(turn, links), &[]).samples;
        assert!(given.iter().all(|sample| sample.name != "10.0.0.3"), "{given:?}");
        assert_eq!(given.len(), if turn == 0 { 0 } else { 4 }, "{given:?}");
    }
    // The one that asked has gone.
    for turn in 10..20 {
        let links = vec![answering("10.0.0.3")];
        assert_eq!(samples.take(&host(turn, links), &[]).samples, [], "turn {turn}");
    }
}

#[test]
fn large_exchanges_are_no_sign_of_a_slow_peer() {
    let mut samples = Samples::default();
    for turn in 0..3 {
        // Arriving payload is timed; that of the second link is not.
        let mut timed = asked("10.0.0.3", turn, 100, 65_536, 0);
        timed.arrived_bytes = timed.bytes;
        timed.arrived_ns = turn * 100 * 600_000;
        timed.wire_ns += timed.arrived_ns;
        let links = vec![
            timed,
            asked("10.0.0.4", turn, 100, 65_536, 600_000),
            asked("10.0.0.5", turn, 100, 64, 10_640),
        ];
        let given = samples.take(&host(turn, links), &[]).samples;
        let beside = given.iter().filter(|sample| sample.group.is_empty());
        let times: Vec<_> = beside.map(|sample| sample.value_ns).collect();
        assert_eq!(times, if turn == 0 { vec![] } else { vec![40_000, 40_000, 50_000] });
    }
}

#[test]
fn the_time_of_a_peer_is_named_by_its_largest_part() {
    let mut samples = Samples::default();
    let mut what = Vec::new();
    for turn in 0..2 {
        let total_ns = turn * 100 * (3 * MS + 90_000);
        let link = |peer| LinkSeries { wire_ns: total_ns, ..asked(peer, turn, 100, 64, 0) };
        let spent_ns = turn * 100 * 3 * MS;
        let links = vec![
            LinkSeries { waited_ns: spent_ns, ..link("10.0.0.3") },
            LinkSeries { disk_ns: spent_ns, ..link("10.0.0.4") },
            LinkSeries { copied_ns: spent_ns, ..link("10.0.0.5") },
            LinkSeries { peer_ns: spent_ns, ..link("10.0.0.6") },
        ];
        let given = samples.take(&host(turn, links), &[]).samples;
        let peers = given.iter().filter(|sample| sample.group.is_empty());
        what = peers.map(|sample| sample.what.split(',').next().unwrap()).collect();
    }
    let causes =
        ["waiting for a core", "reading its disks", "copying and summing", "standing still"];
    assert_eq!(what, causes);
}

#[test]
fn the_only_peer_has_a_sign_of_its_own_without_what_depends_on_the_work() {
    let mut samples = Samples::default();
    let mut given = Vec::new();
    for (turn, peers) in [(0, 1), (1, 1), (2, 2), (3, 2)] {
        let link = |number: u64| {
            let mut link = asked(&format!("10.0.0.{number}"), turn, 100, 64, 0);
            link.disk_ns = turn * 100 * 5 * MS;
            link.waited_ns = turn * 100 * 2 * MS;
            link.wire_ns += link.disk_ns + link.waited_ns;
            link
        };
        let taken = samples.take(&host(turn, (0..peers).map(link).collect()), &[]).samples;
        let still = taken.into_iter().filter(|sample| sample.group == "still/");
        given.push(still.map(|sample| (sample.value_ns, sample.cause)).collect::<Vec<_>>());
    }
    let waits = (2 * MS + 40_000, SuspectCause::Core);
    assert_eq!(given, [vec![], vec![waits], vec![], vec![]]);
}

#[test]
fn what_a_thread_here_may_have_waited_is_not_held_against_the_only_peer() {
    let mut samples = Samples::default();
    let mut still = Vec::new();
    for turn in 0..2 {
        let link = LinkSeries {
            wire_ns: turn * 100 * 5 * MS,
            ..asked("10.0.0.3", turn, 100, 0, 5 * MS - 90_000)
        };
        let wait = Wait {
            thread: "python/perigee-data".to_owned(),
            run_ns: turn * 10 * MS,
            waited_ns: turn * 300 * MS,
            ..Wait::default()
        };
        let given = samples.take(&host(turn, vec![link]), &[wait]).samples;
        let of_peer = given.iter().filter(|sample| sample.group == "still/");
        still = of_peer.map(|sample| sample.value_ns).collect();
    }
    assert_eq!(still, [5 * MS - 90_000 + 40_000 - 3 * MS]);
}

#[test]
fn what_a_thread_here_may_have_waited_is_held_against_none_of_several_peers() {
    let mut samples = Samples::default();
    let mut given = Vec::new();
    // Four exchanges a turn with each: they become a sign in the third turn after the last one.
    for turn in 0..4 {
        let link =
            |number: u64, beside_ns| asked(&format!("10.0.0.{number}"), turn, 4, 0, beside_ns);
        let links = vec![link(2, 200 * MS), link(3, 10_000), link(4, 260 * MS)];
        let wait = Wait {
            thread: "python/python".to_owned(),
            run_ns: turn * 30 * MS,
            waited_ns: turn * 970 * MS,
            ..Wait::default()
        };
        let mut taken = samples.take(&host(turn, links), &[wait]).samples;
        taken.retain(|sample| sample.group == crate::slow::OWN_GROUP);
        taken.retain(|sample| sample.kind == SuspectKind::Peer);
        given = taken.into_iter().map(|sample| (sample.name, sample.value_ns)).collect();
    }
    // Of twelve exchanges of 260 ms in three turns 970 ms of each turn may be ours.
    let left_ns = (12 * 260 * MS - 3 * 970 * MS) / 12 + 40_000;
    let expected = [("10.0.0.2", 40_000), ("10.0.0.3", 40_000), ("10.0.0.4", left_ns)];
    assert_eq!(given, expected.map(|(name, value_ns)| (name.to_owned(), value_ns)));
}

#[test]
fn a_wire_is_timed_by_large_exchanges_in_each_direction() {
    let mut samples = Samples::default();
    let mut given = Vec::new();
    for turn in 0..2 {
        let bytes = turn * 20 * 65_536;
        let link = |peer, size| asked(peer, turn, 20, size, 0);
        let thin = LinkSeries {
            arrived_bytes: bytes,
            arrived_ns: turn * 20 * 5 * MS,
            ..link("10.0.0.3", 65_536)
        };
        let mut wide = link("10.0.0.4", 65_536);
        wide.socket.bytes_sent = bytes;
        wide.socket.busy_us = turn * 20 * 150;
        let mut small = link("10.0.0.5", 4096);
        small.socket.bytes_sent = bytes / 16;
        small.socket.busy_us = turn * 20 * 9000;
        let taken = samples.take(&host(turn, vec![thin, wide, small]), &[]).samples;
        given = taken.into_iter().filter(|sample| sample.group.starts_with("wire/")).collect();
    }
    // Three round trips of 40 us are not the wire's.
    let (kind, thin_ns, wide_ns) = (SuspectKind::Peer, 5 * MS - 120_000, 30_000);
    let nic = SuspectKind::Nic;
    assert_eq!(
        values(&given),
        [
            (kind, "10.0.0.3", thin_ns),
            (kind, "10.0.0.4", wide_ns),
            (nic, "eth0", thin_ns),
            (nic, "eth0", wide_ns)
        ]
    );
}

#[test]
fn lost_segments_are_counted_in_both_directions_without_those_sent_needlessly() {
    let mut samples = Samples::default();
    let mut shares = Vec::new();
    for turn in 0..2 {
        let mut link = asked("10.0.0.3", turn, 100, 64, 0);
        link.retransmits = 7 * turn;
        link.socket.needless = 3 * turn;
        link.socket.out_of_order = 2 * turn;
        link.socket.marked = turn;
        link.socket.segments_sent = 100 * turn;
        link.socket.segments_received = 200 * turn;
        shares = samples.take(&host(turn, vec![link]), &[]).shares;
    }
    let shares: Vec<_> =
        shares.iter().map(|share| (share.mishap, share.events, share.segments)).collect();
    assert_eq!(shares, [(Mishap::Lost, 6, 300), (Mishap::Queued, 1, 300)]);
}

#[test]
fn what_ports_count_of_bad_packets_is_a_sign_and_what_they_do_not_count_is_none() {
    let mut samples = Samples::default();
    let mut shares = Vec::new();
    for turn in 0..2 {
        let mut snapshot = host(turn, Vec::new());
        snapshot.nics[0].receive_packets = 900 * turn;
        snapshot.nics[0].transmit_packets = 100 * turn;
        snapshot.nics[0].hardware = [
            ("rx_crc_errors".to_owned(), 5 * turn),
            ("rx_frame_errors".to_owned(), 2 * turn),
            ("rx_missed_errors".to_owned(), 3),
        ]
        .into();
        shares = samples.take(&snapshot, &[]).shares;
    }
    let shares: Vec<_> =
        shares.iter().map(|share| (share.mishap, share.events, share.segments)).collect();
    assert_eq!(shares, [(Mishap::Damaged, 7, 1000), (Mishap::Discarded, 0, 1000)]);
}

#[test]
fn few_exchanges_become_a_sign_when_they_are_enough_together() {
    let mut samples = Samples::default();
    let given = (0..13).map(|turn| {
        let links = vec![asked("10.0.0.4", turn, 4, 0, 500_000)];
        let given = samples.take(&host(turn, links), &[]).samples;
        let sign = (SuspectKind::Peer, "10.0.0.4", 540_000);
        u8::from(values(&given).contains(&sign))
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
        let given = samples.take(&host(turn, links), &[]).samples;
        let starts_over: Vec<_> = given.iter().filter(|sample| sample.starts_over).collect();
        assert_eq!(starts_over.len(), usize::from(turn == 10), "turn {turn}: {starts_over:?}");
        assert!(starts_over.iter().all(|sample| sample.name == "eth0"));
    }
}
