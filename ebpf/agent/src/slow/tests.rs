//! Synthetic hosts: who is blamed, and above all who is not.

mod lone_peer;
mod own_wait;

use super::evidence::short_time;
use super::*;
use crate::snapshot::SuspectCause;

const US: u64 = 1_000;
const MS: u64 = 1_000_000;

fn sample(kind: SuspectKind, group: &str, name: &str, value_ns: u64) -> Sample {
    Sample {
        kind,
        name: name.to_owned(),
        group: group.to_owned(),
        value_ns,
        what: "takes",
        cause: SuspectCause::Unknown,
        starts_over: false,
    }
}

/// The peers of the tests are behind these NICs.
fn signs(samples: Vec<Sample>) -> Signs {
    let ways = samples.iter().filter(|sample| sample.kind == SuspectKind::Peer);
    let ways = ways.map(|peer| (peer.name.clone(), BTreeSet::from([peer.group.clone()])));
    let ways = ways.collect();
    Signs { samples, ways, ..Signs::default() }
}

fn nic(name: &str, value_ns: u64) -> Sample {
    sample(SuspectKind::Nic, "shortest/ethernet", name, value_ns)
}

/// Random numbers of a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }

    /// Around `base`, with a bad turn now and then.
    fn noisy(&mut self, base: u64) -> u64 {
        let jitter = base * 3 / 4 + self.below(base / 2);
        self.spoilt(jitter)
    }

    /// As [`Random::noisy`], but within a tenth, as the shortest time of a turn is.
    fn steady(&mut self, base: u64) -> u64 {
        let jitter = base * 9 / 10 + self.below(base / 5);
        self.spoilt(jitter)
    }

    fn spoilt(&mut self, jitter: u64) -> u64 {
        if self.below(10) == 0 { jitter * 20 } else { jitter }
    }
}

/// Plays turns; returns all who were blamed in any of them.
fn play(
    judge: &mut SlowDetector,
    turns: u64,
    mut samples: impl FnMut(u64) -> Vec<Sample>,
) -> Vec<Suspect> {
    let mut blamed: Vec<Suspect> = Vec::new();
    for turn in 0..turns {
        for suspect in judge.judge(turn * 1000, &signs(samples(turn))) {
            let is_new =
                |other: &Suspect| (other.kind, &other.name) == (suspect.kind, &suspect.name);
            match blamed.iter_mut().find(|other| is_new(other)) {
                Some(old) => *old = suspect,
                None => blamed.push(suspect),
            }
        }
    }
    blamed
}

fn names(blamed: &[Suspect]) -> Vec<&str> {
    blamed.iter().map(|suspect| suspect.name.as_str()).collect()
}

#[test]
fn a_delay_on_one_of_two_nics_is_named_and_nothing_else() {
    for seed in 1..200 {
        for delay in [200 * US, 600 * US, 5 * MS] {
            let (mut judge, mut random) = (SlowDetector::default(), Random(seed));
            let quiet = play(&mut judge, 20, |_| {
                vec![nic("eth0", random.noisy(90 * US)), nic("eth1", random.noisy(90 * US))]
            });
            assert_eq!(names(&quiet), Vec::<&str>::new(), "seed {seed}");
            let blamed = play(&mut judge, 30, |_| {
                vec![nic("eth0", random.noisy(90 * US)), nic("eth1", random.noisy(90 * US) + delay)]
            });
            assert_eq!(names(&blamed), ["eth1"], "seed {seed}, delay {delay}");
        }
    }
}

#[test]
fn on_a_noisy_host_nothing_is_named() {
    for seed in 1..200 {
        let (mut judge, mut random) = (SlowDetector::default(), Random(seed));
        let blamed = play(&mut judge, 300, |turn| {
            // The whole host has bad minutes: everything takes longer at the same time.
            let bad = if turn / 60 % 2 == 1 { 8 } else { 1 };
            let mut samples = vec![
                nic("eth0", random.steady(90 * US * bad)),
                nic("eth1", random.steady(100 * US * bad)),
            ];
            for shard in ["a/0", "a/1", "b/0"] {
                let wait = random.below(60 * MS * bad);
                samples.push(sample(SuspectKind::Shard, "", shard, wait));
            }
            samples
        });
        assert_eq!(names(&blamed), Vec::<&str>::new(), "seed {seed}");
    }
}

#[test]
fn what_slows_both_nics_is_nobodys_fault_even_if_one_always_takes_longer() {
    let mut judge = SlowDetector::default();
    let times = |factor| vec![nic("eth0", 80 * US * factor), nic("eth1", 150 * US * factor)];
    assert!(play(&mut judge, 20, |_| times(1)).is_empty());
    assert!(play(&mut judge, 20, |_| times(8)).is_empty());
}

#[test]
fn a_short_disturbance_of_a_nic_is_no_verdict_while_another_slows() {
    let mut judge = SlowDetector::default();
    let rails = |rail0, rail1| vec![nic("rail0", rail0 * US), nic("rail1", rail1 * US)];
    play(&mut judge, 30, |_| rails(72, 65));
    // Taken from a run with 514 us on rail1: the disturbance of rail0 began first.
    let blamed = play(&mut judge, 40, |turn| match turn {
        0..4 => rails(204, 47),
        4..8 => rails(204, 583),
        _ => rails(72, 583),
    });
    assert_eq!(names(&blamed), ["rail1"]);
}

#[test]
fn minutes_in_which_all_are_slow_do_not_become_the_usual() {
    let mut judge = SlowDetector::default();
    let rails = |rail0, rail1| vec![nic("rail0", rail0 * US), nic("rail1", rail1 * US)];
    assert!(play(&mut judge, 240, |_| rails(70, 80)).is_empty());
    assert!(play(&mut judge, 340, |_| rails(560, 640)).is_empty());
    let blamed = play(&mut judge, 20, |_| rails(70, 280));
    assert_eq!(names(&blamed), ["rail1"]);
}

#[test]
fn a_small_delay_is_named_within_ten_turns() {
    let mut judge = SlowDetector::default();
    play(&mut judge, 20, |_| vec![nic("eth0", 150 * US), nic("eth1", 150 * US)]);
    let slow = |_| vec![nic("eth0", 150 * US), nic("eth1", 350 * US)];
    assert!(play(&mut judge, 7, slow).is_empty());
    assert_eq!(names(&play(&mut judge, 3, slow)), ["eth1"]);
}

#[test]
fn one_bad_turn_is_no_verdict() {
    let mut judge = SlowDetector::default();
    let blamed = play(&mut judge, 60, |turn| {
        let bad = if turn % 6 == 5 { 50 * MS } else { 0 };
        vec![nic("eth0", 90 * US), nic("eth1", 90 * US + bad)]
    });
    assert_eq!(names(&blamed), Vec::<&str>::new());
}

#[test]
fn a_nic_that_is_slow_from_the_start_is_named_by_its_siblings() {
    let mut judge = SlowDetector::default();
    let samples = |_| vec![nic("eth0", 80 * US), nic("eth1", 90 * US), nic("eth2", MS)];
    let blamed = play(&mut judge, 10, samples);
    assert_eq!(names(&blamed), ["eth2"]);
    assert!(blamed[0].evidence.contains("others 80 us"), "{}", blamed[0].evidence);
}

#[test]
fn what_a_nic_showed_alone_is_not_held_against_its_siblings() {
    let mut judge = SlowDetector::default();
    assert!(play(&mut judge, 30, |_| vec![nic("eth1", MS)]).is_empty());
    let blamed = play(&mut judge, 10, |_| vec![nic("eth0", 80 * US), nic("eth1", MS)]);
    assert_eq!(names(&blamed), ["eth1"]);
}

#[test]
fn nics_of_different_kinds_are_not_compared() {
    let mut judge = SlowDetector::default();
    let blamed = play(&mut judge, 60, |_| {
        vec![nic("eth0", MS), sample(SuspectKind::Nic, "virtual", "veth0", 30 * US)]
    });
    assert!(blamed.is_empty());
}

#[test]
fn a_lone_nic_is_blamed_for_a_lasting_change_unless_the_host_is_crowded() {
    for (wait, expected) in [(10 * MS, vec!["eth0"]), (700 * MS, vec![])] {
        let mut judge = SlowDetector::default();
        let shard = |wait| sample(SuspectKind::Shard, "", "a/0", wait);
        play(&mut judge, 20, |_| vec![nic("eth0", 90 * US), shard(wait)]);
        let blamed = play(&mut judge, 20, |_| vec![nic("eth0", MS), shard(wait)]);
        assert_eq!(names(&blamed), expected);
    }
}

#[test]
fn a_cleared_nic_is_blamed_again_with_the_time_of_the_second_fault() {
    let mut judge = SlowDetector::default();
    let fast = |_| vec![nic("eth0", 90 * US), nic("eth1", 90 * US)];
    let slow = |_| vec![nic("eth0", 90 * US), nic("eth1", MS)];
    play(&mut judge, 20, fast);
    assert_eq!(names(&play(&mut judge, 10, slow)), ["eth1"]);
    play(&mut judge, 8, fast);
    assert!(judge.judge(90_000, &signs(fast(0))).is_empty());
    let mut suspects = Vec::new();
    for turn in 0..8 {
        suspects = judge.judge(100_000 + turn * 1000, &signs(slow(turn)));
    }
    assert_eq!(suspects[0].since_ms, 104_000, "five slow turns in a row");
}

#[test]
fn a_starved_shard_is_distinguished_from_threads_that_share_a_busy_host() {
    let mut judge = SlowDetector::default();
    let shard = |name: &str, wait| sample(SuspectKind::Shard, "", name, wait);
    let busy = |_| vec![shard("a/0", 200 * MS), shard("a/1", 150 * MS), shard("b/0", 180 * MS)];
    assert!(play(&mut judge, 20, busy).is_empty());
    let starved = |_| vec![shard("a/0", 930 * MS), shard("a/1", 150 * MS), shard("b/0", 180 * MS)];
    let blamed = play(&mut judge, 10, starved);
    assert_eq!((names(&blamed), blamed[0].kind), (vec!["a/0"], SuspectKind::Shard));
}

#[test]
fn a_starved_shard_is_named_also_when_others_wait_many_times_their_little_usual() {
    let mut judge = SlowDetector::default();
    let shards = |waits: [u64; 3]| {
        let named = ["a/0", "a/1", "b/0"].into_iter().zip(waits);
        let samples = named.map(|(name, wait)| sample(SuspectKind::Shard, "", name, wait));
        samples.collect::<Vec<_>>()
    };
    assert!(play(&mut judge, 30, |_| shards([2 * MS, MS / 10, MS / 5])).is_empty());
    // Other work came to the host: all wait, but none for long.
    assert!(play(&mut judge, 30, |_| shards([40 * MS, 20 * MS, 30 * MS])).is_empty());
    let blamed = play(&mut judge, 10, |_| shards([970 * MS, 20 * MS, 30 * MS]));
    assert_eq!(names(&blamed), ["a/0"]);
    // A crowd: all wait half of the time.
    let crowd = |_| shards([560 * MS, 500 * MS, 530 * MS]);
    let after = play(&mut judge, 30, crowd);
    assert!(names(&after).is_empty() || names(&after) == ["a/0"]);
    assert!(judge.judge(90_000, &signs(crowd(0))).is_empty());
}

#[test]
fn who_is_too_slow_to_give_a_sign_each_turn_stays_blamed_but_not_for_ever() {
    let mut judge = SlowDetector::default();
    let shards = |waits: [u64; 2]| {
        let named = ["a/0", "a/1"].into_iter().zip(waits);
        let samples = named.map(|(name, wait)| sample(SuspectKind::Shard, "", name, wait));
        samples.collect::<Vec<_>>()
    };
    play(&mut judge, 20, |_| shards([5 * MS, 5 * MS]));
    play(&mut judge, 10, |_| shards([950 * MS, 5 * MS]));
    for turn in 0..20 {
        let given = if turn % 2 == 0 { 2 } else { 0 };
        let samples: Vec<_> = shards([950 * MS, 5 * MS]).into_iter().take(given).collect();
        assert_eq!(names(&judge.judge(100_000 + turn, &signs(samples))), ["a/0"]);
    }
    let quiet = |_: u64| shards([0, 5 * MS]).split_off(1);
    play(&mut judge, u64::from(STALE_TURNS), quiet);
    assert!(judge.judge(200_000, &signs(quiet(0))).is_empty());
}

#[test]
fn a_slow_disk_is_held_against_its_own_past() {
    let mut judge = SlowDetector::default();
    let disk = |value| vec![sample(SuspectKind::Disk, "loop", "loop0", value)];
    assert!(play(&mut judge, 20, |_| disk(400 * US)).is_empty());
    let blamed = play(&mut judge, 10, |_| disk(60 * MS));
    assert_eq!((names(&blamed), blamed[0].kind), (vec!["loop0"], SuspectKind::Disk));
}

#[test]
fn faults_that_come_back_do_not_become_the_usual() {
    let mut judge = SlowDetector::default();
    let disk = |value| vec![sample(SuspectKind::Disk, "loop", "loop0", value)];
    play(&mut judge, 20, |_| disk(2 * MS));
    for _ in 0..40 {
        assert_eq!(names(&play(&mut judge, 9, |_| disk(90 * MS))), ["loop0"]);
        play(&mut judge, 9, |_| disk(2 * MS));
    }
}

#[test]
fn one_slow_peer_of_a_nic_is_named_and_peers_behind_a_slow_nic_are_not() {
    let peer = |name: &str, value| sample(SuspectKind::Peer, "eth1", name, value);
    let mut judge = SlowDetector::default();
    let all = ["10.0.0.1", "10.0.0.2", "10.0.0.3"];
    play(&mut judge, 20, |_| all.map(|name| peer(name, 90 * US)).into());
    let one =
        |_| vec![peer("10.0.0.1", 90 * US), peer("10.0.0.2", 2 * MS), peer("10.0.0.3", 95 * US)];
    let blamed = play(&mut judge, 10, one);
    assert_eq!((names(&blamed), blamed[0].kind), (vec!["10.0.0.2"], SuspectKind::Peer));
    let mut judge = SlowDetector::default();
    let both = |_| {
        vec![nic("eth0", 80 * US), nic("eth1", MS), peer("10.0.0.1", 90 * US), peer("10.0.0.2", MS)]
    };
    assert_eq!(names(&play(&mut judge, 10, both)), ["eth1"]);
}

#[test]
fn peers_behind_a_nic_that_loses_are_not_named_and_others_still_are() {
    let loss = |device: &str, peer: &str, events| ShareSample {
        mishap: share::Mishap::Lost,
        device: device.to_owned(),
        peer: peer.to_owned(),
        events,
        segments: 450,
    };
    let mut judge = SlowDetector::default();
    let mut turn = |number: u64, lost, times: [u64; 4]| {
        let peers = ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"];
        let peer = |(name, value): (&str, u64)| sample(SuspectKind::Peer, "", name, value);
        let samples = peers.into_iter().zip(times).map(peer).collect();
        let nics = ["eth1", "eth0", "eth0", "eth0"];
        let pairs = peers.into_iter().zip(nics);
        let ways = pairs.clone().map(|(peer, nic)| (peer.to_owned(), BTreeSet::from([nic.into()])));
        let of_nic = |nic: &str| if nic == "eth1" { lost } else { 0 };
        let shares = pairs.clone().map(|(peer, nic)| loss(nic, peer, of_nic(nic))).collect();
        judge.judge(
            number * 1000,
            &Signs { samples, shares, ways: ways.collect(), ..Signs::default() },
        )
    };
    let usual = [90 * US, 90 * US, 95 * US, 92 * US];
    for number in 0..20 {
        assert_eq!(turn(number, 0, usual), []);
    }
    let slow = [3 * MS, 95 * US, 3 * MS, 92 * US];
    let mut named = Vec::new();
    for number in 20..32 {
        named = turn(number, 5, slow);
        assert!(named.iter().all(|suspect| suspect.name != "10.0.0.1"), "{named:?}");
    }
    assert_eq!(names(&named), ["eth1", "10.0.0.3"]);
}

#[test]
fn only_a_wire_that_becomes_much_thinner_is_named() {
    let wires = |of_first| {
        let wire = |name, value| sample(SuspectKind::Nic, "wire/out/ethernet", name, value);
        vec![wire("eth0", of_first), wire("eth1", 60 * US), wire("eth2", 70 * US)]
    };
    let mut judge = SlowDetector::default();
    assert_eq!(play(&mut judge, 20, |_| wires(60 * US)), []);
    assert_eq!(play(&mut judge, 20, |_| wires(800 * US)), []);
    assert_eq!(names(&play(&mut judge, 10, |_| wires(5 * MS))), ["eth0"]);
    let mut judge = SlowDetector::default();
    assert_eq!(play(&mut judge, 60, |_| wires(5 * MS)), []);
}

#[test]
fn a_rail_that_becomes_as_slow_as_one_that_always_was_is_named() {
    for (group, slow) in [("wire/in/virtual", 5 * MS), ("sockets/virtual", 2 * MS)] {
        let rails = |fast, slow| {
            let rail = |name, value| sample(SuspectKind::Nic, group, name, value);
            vec![rail("rail0", fast), rail("rail1", slow)]
        };
        let fast = 700 * US;
        let mut judge = SlowDetector::default();
        assert_eq!(play(&mut judge, 30, |_| rails(fast, slow)), []);
        // What slows both is neither's fault.
        assert_eq!(play(&mut judge, 30, |_| rails(3 * fast, 3 * slow)), []);
        assert_eq!(play(&mut judge, 30, |_| rails(fast, slow)), []);
        let blamed = play(&mut judge, 12, |_| rails(fast * 7, slow));
        assert_eq!(names(&blamed), ["rail0"], "{group}");
        play(&mut judge, 10, |_| rails(fast, slow));
        assert_eq!(play(&mut judge, 10, |_| rails(fast, slow)), []);
        let blamed = play(&mut judge, 12, |_| rails(fast, 4 * slow));
        assert_eq!(names(&blamed), ["rail1"], "{group}");
    }
}

#[test]
fn a_peer_that_was_always_farther_away_than_the_others_is_not_slow() {
    let peers = |far| {
        let peer = |name: &str, value| sample(SuspectKind::Peer, "eth1", name, value);
        vec![peer("10.0.0.1", 90 * US), peer("10.9.0.1", far), peer("10.0.0.2", 95 * US)]
    };
    let mut judge = SlowDetector::default();
    assert_eq!(play(&mut judge, 60, |_| peers(2 * MS)), []);
    assert_eq!(names(&play(&mut judge, 10, |_| peers(6 * MS))), ["10.9.0.1"]);
}

#[test]
fn a_nic_whose_nearest_peer_has_gone_is_not_slow_and_is_watched_again() {
    let begins = |turn| Sample { starts_over: turn == 0, ..nic("eth0", 2 * MS) };
    for siblings in [vec![], vec![nic("eth1", 90 * US)]] {
        let with = |sample: Sample| [vec![sample], siblings.clone()].concat();
        let mut judge = SlowDetector::default();
        assert_eq!(play(&mut judge, 20, |_| with(nic("eth0", 90 * US))), []);
        assert_eq!(play(&mut judge, 30, |turn| with(begins(turn))), []);
        let blamed = play(&mut judge, 20, |_| with(nic("eth0", 8 * MS)));
        assert_eq!(names(&blamed), ["eth0"]);
    }
}

#[test]
fn who_gives_no_sign_for_long_is_forgotten() {
    let mut judge = SlowDetector::default();
    play(&mut judge, 20, |_| vec![nic("eth0", 90 * US), nic("eth1", MS)]);
    play(&mut judge, u64::from(SILENT_TURNS_MAX), |_| Vec::new());
    assert!(judge.known.is_empty());
}

#[test]
fn times_are_short() {
    let times = [999, 45_300, 1_250_000, 930 * MS].map(short_time);
    assert_eq!(times, ["999 ns", "45 us", "1.2 ms", "930.0 ms"]);
}

#[test]
fn an_only_nic_that_is_slow_from_the_start_is_named_by_its_baseline() {
    let turn = |value_ns, checked_ns: Option<u64>| Signs {
        checked_ns: checked_ns.map(|ns| ("eth0".to_owned(), ns)).into_iter().collect(),
        ..signs(vec![nic("eth0", value_ns)])
    };
    let play = |value_ns, checked_ns| {
        let mut judge = SlowDetector::default();
        let turns = (0..20).map(|number| judge.judge(number * 1000, &turn(value_ns, checked_ns)));
        turns.last().unwrap_or_default()
    };
    assert!(play(5 * MS, None).is_empty(), "it is not known to be slow");
    let named = play(5 * MS, Some(100_000));
    assert_eq!(named.len(), 1);
    assert!(named[0].evidence.contains("100 us when perigee check measured it"), "{named:?}");
    assert!(play(900_000, Some(100_000)).is_empty(), "a busy wire has queues");
    assert!(play(5 * MS, Some(3 * MS)).is_empty(), "its peers are far away");
}
