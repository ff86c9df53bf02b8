//! A host with several peers, of which a thread of its own gets no core.

use super::*;

const PEERS: [&str; 3] = ["198.51.102.2", "198.51.102.3", "198.51.102.4"];

/// What exchanges take at the peers beside what is known, and how long the busiest thread waited.
fn turn(own: [u64; 3], cause: SuspectCause, wait: u64) -> Signs {
    let peer = |(name, own): (&str, u64)| Sample {
        cause,
        ..sample(SuspectKind::Peer, OWN_GROUP, name, own)
    };
    let mut samples: Vec<Sample> = PEERS.into_iter().zip(own).map(peer).collect();
    for (thread, wait) in [("python/python", wait), ("bench/0", MS), ("bench/1", MS)] {
        samples.push(sample(SuspectKind::Shard, "", thread, wait));
    }
    let ways = PEERS.map(|peer| (peer.to_owned(), BTreeSet::from(["eth0".to_owned()])));
    Signs { samples, ways: ways.into(), ..Signs::default() }
}

/// What is named in such turns, which come after a quiet half minute.
fn named(own: [u64; 3], cause: SuspectCause, wait: u64) -> Vec<String> {
    let mut judge = SlowDetector::default();
    let mut named = BTreeSet::new();
    for number in 0..90 {
        let signs = match number {
            30..60 => turn(own, cause, wait),
            _ => turn([40 * US, 42 * US, 41 * US], cause, 2 * MS),
        };
        named.extend(judge.judge(number * 1000, &signs).into_iter().map(|one| one.name));
    }
    named.into_iter().collect()
}

/// As in a run in which a Python client got 3 % of a core while another program of its host was
/// well: each batch of exchanges stands still as long as the thread that asks.
#[test]
fn peers_of_a_thread_without_a_core_do_not_stand_still_and_the_thread_is_named() {
    let still = [3_600 * US, 42 * US, 3_600 * US];
    assert_eq!(named(still, SuspectCause::Still, 970 * MS), ["python/python"]);
}

#[test]
fn a_peer_that_stands_still_is_named_while_threads_here_have_their_cores() {
    let still = [3_600 * US, 42 * US, 41 * US];
    assert_eq!(named(still, SuspectCause::Still, 150 * MS), [PEERS[0]]);
}

#[test]
fn what_a_peer_says_of_itself_counts_whatever_threads_here_wait() {
    for cause in [SuspectCause::Core, SuspectCause::Copy, SuspectCause::Disk] {
        let named = named([3_600 * US, 42 * US, 41 * US], cause, 970 * MS);
        assert_eq!(named, [PEERS[0], "python/python"]);
    }
}
