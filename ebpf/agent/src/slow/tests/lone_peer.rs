//! A host with one NIC that asks one peer: which of the two is slow.

use super::*;

/// A host with one NIC and one peer, as an agent without probes saw it: what round trips take and
/// what exchanges take at the peer, each second.
fn lone(round_trip: u64, own: u64, wait: u64) -> Signs {
    let ways = BTreeMap::from([("10.0.0.1".to_owned(), BTreeSet::from(["eth0".to_owned()]))]);
    let peer = |group| Sample {
        cause: SuspectCause::Still,
        ..sample(SuspectKind::Peer, group, "10.0.0.1", own)
    };
    let samples = vec![
        sample(SuspectKind::Nic, "sockets/virtual", "eth0", round_trip),
        sample(SuspectKind::Peer, "eth0", "10.0.0.1", round_trip),
        peer(OWN_GROUP),
        peer(STILL_GROUP),
        sample(SuspectKind::Shard, "", "a/0", wait),
    ];
    Signs { samples, ways, ..Signs::default() }
}

/// What is named in such turns, which come after a quiet half minute.
fn named_alone(turns: impl Iterator<Item = (u64, u64)>, wait: u64) -> Vec<(SuspectKind, String)> {
    let mut judge = SlowDetector::default();
    let quiet = std::iter::repeat_n((370 * US, 90 * US), 30);
    let mut named = BTreeSet::new();
    for (turn, (round_trip, own)) in quiet.chain(turns).enumerate() {
        let found = judge.judge(turn as u64 * 1000, &lone(round_trip, own, wait));
        named.extend(found.into_iter().map(|one| (one.kind, one.name)));
    }
    named.into_iter().collect()
}

#[test]
fn the_only_peer_that_stands_still_is_named_and_not_the_nic_that_it_lets_look_slow() {
    // 0.3 % of a core, and a process that is stopped for 300 ms of each second: its kernel
    // acknowledges late, and round trips are 10.5 ms and 3 ms.
    let starved = (0..20).map(|turn| (10_500 * US + turn % 3 * MS, 33 * MS));
    let stopped = (0..20).map(|turn| (3 * MS + turn % 4 * MS, 10 * MS));
    let peer = (SuspectKind::Peer, "10.0.0.1".to_owned());
    assert_eq!(named_alone(starved.clone(), MS), std::slice::from_ref(&peer));
    assert_eq!(named_alone(stopped, MS), [peer]);
    // All threads here wait: the numbers of this host are doubtful.
    assert_eq!(named_alone(starved, 400 * MS), []);
}

/// With probes, sockets give a sign of the NIC only in turns with few round trips, so that it is
/// older than what the peer took.
#[test]
fn a_nic_that_its_peer_explained_is_not_named_when_the_peer_is_well_before_it() {
    let mut judge = SlowDetector::default();
    let mut named = BTreeSet::new();
    for turn in 0..60 {
        let (round_trip, own) = match turn {
            0..30 => (600 * US, 90 * US),
            30..45 => (16 * MS, 180 * MS),
            _ => (16 * MS, 90 * US),
        };
        let mut signs = lone(round_trip, own, MS);
        if turn >= 45 {
            signs.samples.retain(|sample| sample.kind != SuspectKind::Nic);
        }
        let found = judge.judge(turn * 1000, &signs);
        named.extend(found.into_iter().map(|one| (one.kind, one.cause)));
    }
    let nic = named.iter().find(|(kind, _)| *kind == SuspectKind::Nic);
    assert_eq!(nic, None, "{named:?}");
}

#[test]
fn the_only_nic_that_takes_longer_is_named_while_its_peer_does_what_it_did() {
    let delayed = (0..20).map(|turn| (5 * MS + turn % 3 * 100 * US, 90 * US));
    assert_eq!(named_alone(delayed, MS), [(SuspectKind::Nic, "eth0".to_owned())]);
    // A busier peer that stays far from standing still.
    assert_eq!(named_alone((0..40).map(|_| (450 * US, 2 * MS)), MS), []);
}
