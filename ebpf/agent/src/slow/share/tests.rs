//! Links turn by turn, as recorded: who loses, and whose fault it is.

use super::*;

/// One link in one turn: NIC, peer, segments that were lost, all segments.
type Row = (&'static str, &'static str, u64, u64);

fn turn(rows: &[Row]) -> Vec<ShareSample> {
    let sample = |(device, peer, events, segments): &Row| ShareSample {
        mishap: Mishap::Lost,
        device: (*device).to_owned(),
        peer: (*peer).to_owned(),
        events: *events,
        segments: *segments,
    };
    rows.iter().map(sample).collect()
}

/// Plays turns; all who were named in any of them, and in which turn first.
fn play(
    detector: &mut ShareDetector,
    turns: u64,
    rows: impl Fn(u64) -> Vec<Row>,
) -> Vec<(u64, Suspect)> {
    let mut named: Vec<(u64, Suspect)> = Vec::new();
    for number in 0..turns {
        for suspect in detector.judge(number * 1000, &turn(&rows(number))) {
            if !named.iter().any(|(_, other)| other.name == suspect.name) {
                named.push((number, suspect));
            }
        }
    }
    named
}

fn names(named: &[(u64, Suspect)]) -> Vec<(&str, &str)> {
    let mut names = Vec::new();
    for (_, suspect) in named {
        names.push((suspect.kind.label(), suspect.name.as_str()));
    }
    names.sort_unstable();
    names
}

/// Losses of one percent of some 450 segments a turn, as they come.
const ONE_PERCENT: [u64; 10] = [5, 3, 7, 4, 2, 6, 5, 1, 4, 8];

fn one_percent(turn: u64) -> u64 {
    ONE_PERCENT[turn as usize % ONE_PERCENT.len()]
}

/// One in a thousand.
fn one_per_mille(turn: u64) -> u64 {
    u64::from(matches!(turn % 5, 0 | 3))
}

#[test]
fn a_nic_that_loses_beside_one_that_does_not_is_named_and_its_only_peer_is_not() {
    for lost in [one_percent, one_per_mille] {
        let mut detector = ShareDetector::default();
        let quiet = |_| vec![("rail0", "a", 0, 460), ("rail1", "b", 0, 455)];
        assert_eq!(names(&play(&mut detector, 60, quiet)), []);
        let sick = |turn| vec![("rail0", "a", 0, 460), ("rail1", "b", lost(turn), 450)];
        let named = play(&mut detector, 40, sick);
        assert_eq!(names(&named), [("nic", "rail1")]);
        assert!(named[0].1.evidence.contains("others 0 %"), "{}", named[0].1.evidence);
        assert!(detector.is_bad("rail1", "b") && !detector.is_bad("rail0", "a"));
    }
}

#[test]
fn a_port_that_loses_and_damages_packets_is_named_once_with_both() {
    let mut detector = ShareDetector::default();
    let port = |mishap, device: &str, events| ShareSample {
        mishap,
        device: device.to_owned(),
        peer: String::new(),
        events,
        segments: 1000,
    };
    let mut named = Vec::new();
    for number in 0..20 {
        let turn = [("mlx5_0", 4), ("mlx5_1", 0)].map(|(device, events)| {
            [Mishap::Lost, Mishap::Damaged].map(|mishap| port(mishap, device, events))
        });
        named = detector.judge(number * 1000, turn.as_flattened());
    }
    assert_eq!(named.len(), 1, "{named:?}");
    let evidence = &named[0].evidence;
    assert_eq!(named[0].name, "mlx5_0");
    for part in ["packets were lost", "; ", "packets were damaged on the wire", "others 0 %"] {
        assert!(evidence.contains(part), "{evidence}");
    }
}

#[test]
fn one_percent_is_named_within_six_turns_and_cleared_within_three() {
    let mut detector = ShareDetector::default();
    let quiet = |_| vec![("rail0", "a", 0, 460), ("rail1", "b", 0, 455)];
    let sick = |turn| vec![("rail0", "a", 0, 460), ("rail1", "b", one_percent(turn), 450)];
    play(&mut detector, 60, quiet);
    let named = play(&mut detector, 20, sick);
    assert!(named[0].0 < 6, "turn {}", named[0].0);
    let after: Vec<_> = (0..3).map(|_| detector.judge(0, &turn(&quiet(0))).len()).collect();
    assert_eq!(after[2], 0, "{after:?}");
}

/// Two NICs, of which the second has one link, and how many turns that is named for after its loss
/// has ended.
fn named_after(lost: impl Fn(u64) -> (u64, u64), after: impl Fn(u64) -> (u64, u64)) -> u64 {
    let mut detector = ShareDetector::default();
    let rows = |(events, segments)| vec![("rail0", "a", 0, 9000), ("rail1", "b", events, segments)];
    play(&mut detector, 90, |_| rows((0, 4000)));
    let named = play(&mut detector, 60, |turn| rows(lost(turn)));
    assert_eq!(names(&named), [("nic", "rail1")]);
    let is_named = |number: &u64| !detector.judge(0, &turn(&rows(after(*number)))).is_empty();
    (0..300).filter(is_named).count() as u64
}

/// As on a run in which one rail lost 1 % for 26 seconds and its receiver saw 12 of 130,718.
#[test]
fn a_rare_loss_that_has_ended_is_named_for_half_a_minute_at_most() {
    let rare = |turn| (u64::from(matches!(turn % 8, 0 | 3 | 6)), 4000);
    // Less work came after it, so that as many segments do not come in a minute...
    let named = named_after(rare, |_| (0, 300));
    assert!(named <= 32, "{named} turns");
    // ... or a segment is lost now and then, as on any wire.
    let named = named_after(rare, |turn| (u64::from(turn % 12 == 5), 4000));
    assert!(named <= 32, "{named} turns");
}

#[test]
fn a_loss_that_has_ended_is_not_diluted_by_what_follows() {
    let lost = |turn| (u64::from(turn % 2 == 0), 1000);
    // Six events do not come in twelve turns.
    let named = named_after(lost, |_| (0, 1000));
    assert!(named <= 13, "{named} turns");
}

#[test]
fn a_loss_of_one_in_a_thousand_is_named_without_a_pause_while_it_lasts() {
    let mut detector = ShareDetector::default();
    let rows = |lost| vec![("rail0", "a", 0, 460), ("rail1", "b", lost, 450)];
    play(&mut detector, 60, |_| rows(0));
    let mut begun = 0;
    let mut was_named = false;
    // Up to ten turns without an event, as come by chance once in some minutes.
    for number in 0..600u64 {
        let lost = u64::from(matches!(number % 23, 0 | 2 | 3 | 5 | 8 | 9 | 11 | 12));
        let is_named = !detector.judge(number * 1000, &turn(&rows(lost))).is_empty();
        begun += u64::from(is_named && !was_named);
        was_named = is_named;
    }
    assert_eq!(begun, 1);
}

#[test]
fn a_host_that_loses_from_the_first_turn_on_has_its_nic_named_by_the_other_nic() {
    let mut detector = ShareDetector::default();
    let sick = |turn| vec![("rail0", "a", 0, 460), ("rail1", "b", one_percent(turn), 450)];
    assert_eq!(names(&play(&mut detector, 20, sick)), [("nic", "rail1")]);
}

#[test]
fn one_of_eight_peers_that_loses_is_named_and_its_nic_is_not() {
    const PEERS: [&str; 8] = ["p0", "p1", "p2", "p3", "p4", "p5", "p6", "p7"];
    let mut detector = ShareDetector::default();
    let rows = |lost: u64| {
        let row = |(index, peer)| ("eth0", peer, if index == 3 { lost } else { 0 }, 450);
        PEERS.into_iter().enumerate().map(row).collect::<Vec<Row>>()
    };
    assert_eq!(names(&play(&mut detector, 40, |_| rows(0))), []);
    let named = play(&mut detector, 20, |turn| rows(one_percent(turn)));
    assert_eq!(names(&named), [("peer", "p3")]);
}

#[test]
fn one_of_four_nics_behind_which_all_peers_lose_is_named_and_no_peer_is() {
    let mut detector = ShareDetector::default();
    let rows = |lost: u64| -> Vec<Row> {
        let nics = ["eth0", "eth1", "eth2", "eth3"].into_iter();
        let lossy = |nic| if nic == "eth2" { lost } else { 0 };
        let pairs = nics.flat_map(|nic| ["p0", "p1", "p2"].map(|peer| (nic, peer)));
        pairs.map(|(nic, peer)| (nic, peer, lossy(nic), 450)).collect()
    };
    assert_eq!(names(&play(&mut detector, 40, |_| rows(0))), []);
    let named = play(&mut detector, 20, |turn| rows(one_percent(turn)));
    assert_eq!(names(&named), [("nic", "eth2")]);
}

#[test]
fn a_peer_that_loses_behind_every_nic_is_named_and_no_nic_is() {
    let mut detector = ShareDetector::default();
    let rows = |lost: u64| -> Vec<Row> {
        let pairs = ["eth0", "eth1"].into_iter();
        let pairs = pairs.flat_map(|nic| ["p0", "p1", "p2"].map(|peer| (nic, peer)));
        let lossy = |peer| if peer == "p1" { lost } else { 0 };
        pairs.map(|(nic, peer)| (nic, peer, lossy(peer), 450)).collect()
    };
    assert_eq!(names(&play(&mut detector, 40, |_| rows(0))), []);
    let named = play(&mut detector, 20, |turn| rows(one_percent(turn)));
    assert_eq!(names(&named), [("peer", "p1")]);
}

#[test]
fn what_all_lose_at_the_same_time_is_not_blamed_on_one() {
    let mut detector = ShareDetector::default();
    let rows =
        |lost| vec![("eth0", "a", lost, 450), ("eth1", "b", lost, 450), ("eth0", "c", lost, 450)];
    assert_eq!(names(&play(&mut detector, 40, |_| rows(0))), []);
    assert_eq!(names(&play(&mut detector, 30, |turn| rows(one_percent(turn)))), []);
}

#[test]
fn a_wire_that_always_lost_is_not_named_for_it() {
    let mut detector = ShareDetector::default();
    let rows = |turn| vec![("eth0", "a", one_percent(turn), 450)];
    assert_eq!(names(&play(&mut detector, 200, rows)), []);
}

#[test]
fn the_only_link_of_a_host_that_begins_to_lose_goes_by_its_peer_and_not_by_the_nic() {
    let mut detector = ShareDetector::default();
    assert_eq!(names(&play(&mut detector, 60, |_| vec![("eth0", "a", 0, 450)])), []);
    let named = play(&mut detector, 20, |turn| vec![("eth0", "a", one_percent(turn), 450)]);
    assert_eq!(names(&named), [("peer", "a")]);
    let evidence = &named[0].1.evidence;
    assert!(evidence.contains("no other link that tells which end it is"), "{evidence}");
}

#[test]
fn what_a_port_counts_itself_names_it_without_another_link() {
    let mut detector = ShareDetector::default();
    assert_eq!(names(&play(&mut detector, 60, |_| vec![("mlx5_0", "", 0, 450)])), []);
    let named = play(&mut detector, 20, |turn| vec![("mlx5_0", "", one_percent(turn), 450)]);
    assert_eq!(names(&named), [("nic", "mlx5_0")]);
}

/// As on a run in which the only NIC of a host lost 1 % of what came and went, and throttled
/// connections had pauses: links of which too little is known left, and what was left named peers.
#[test]
fn the_only_nic_of_a_host_stays_named_while_one_or_the_other_of_its_links_pauses() {
    const PEERS: [&str; 3] = ["b", "c", "d"];
    let mut detector = ShareDetector::default();
    let rows = |lost: &dyn Fn(u64) -> (u64, u64)| {
        let rows = PEERS.into_iter().zip(0..).map(|(peer, index)| {
            let (events, segments) = lost(index);
            ("eth0", peer, events, segments)
        });
        rows.collect::<Vec<Row>>()
    };
    play(&mut detector, 60, |_| rows(&|_| (0, 450)));
    let mut episodes = 0;
    let mut was_named = false;
    for number in 0..60 {
        // Each link in its turn loses nothing for six seconds.
        let lost = |index| match (number + 20 * index) % 20 / 6 == index {
            true if number >= 20 => (0, 450),
            _ => (one_percent(number + index), 450),
        };
        let named = detector.judge(number * 1000, &turn(&rows(&lost)));
        assert!(named.iter().all(|one| one.name == "eth0"), "{number}: {named:?}");
        episodes += u32::from(!named.is_empty() && !was_named);
        was_named = !named.is_empty();
    }
    assert_eq!((episodes, was_named), (1, true));
    let after: Vec<_> =
        (0..3).map(|_| detector.judge(0, &turn(&rows(&|_| (0, 450)))).len()).collect();
    assert_eq!(after[2], 0, "{after:?}");
}

#[test]
fn a_burst_in_one_turn_and_losses_now_and_then_name_none() {
    let mut detector = ShareDetector::default();
    let rows = |turn: u64| {
        let burst = if turn % 20 == 19 { 40 } else { 0 };
        let single = u64::from(turn % 9 == 4);
        vec![("eth0", "a", burst, 900), ("eth0", "b", single, 900), ("eth1", "c", 0, 900)]
    };
    assert_eq!(names(&play(&mut detector, 300, rows)), []);
}

#[test]
fn links_that_are_silent_are_forgotten_and_numbers_of_no_sense_do_no_harm() {
    let mut detector = ShareDetector::default();
    play(&mut detector, 3, |_| vec![("eth0", "a", u64::MAX, u64::MAX), ("eth0", "b", 9, 0)]);
    assert_eq!(detector.links.len(), 1);
    let most = [("eth0", "a"), ("eth0", "d"), ("eth1", "a"), ("eth1", "b")];
    let most =
        most.map(|(nic, peer)| (nic, peer, if peer == "b" { 0 } else { u64::MAX }, u64::MAX));
    play(&mut detector, 100, |_| most.to_vec());
    play(&mut detector, u64::from(SILENT_TURNS_MAX), |_| Vec::new());
    assert!(detector.links.is_empty());
}
