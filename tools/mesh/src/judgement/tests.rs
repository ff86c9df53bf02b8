//! Meshes of which one link is not as it should be.

use super::*;
use crate::readings::LoadRate;
use perigee_verdict::{CulpritKind, NicOfHost, Switches, culprits};

const GOOD: f64 = 1e9;

fn readings(there: f64, back: f64) -> LinkReadings {
    LinkReadings {
        round_trip_ns: 50_000,
        there: Some(LoadRate { bytes_per_second: there }),
        back: Some(LoadRate { bytes_per_second: back }),
        probes: 3000,
        frame_bytes: Some(1500),
        ..LinkReadings::default()
    }
}

fn nic(host: &str) -> NicOfHost {
    NicOfHost::new(host, "rail0")
}

fn link(from: &str, to: &str, outcome: Result<LinkReadings, String>) -> LinkResult {
    let (from, to) = (nic(from), nic(to));
    LinkResult { from, to, nic_frame_bytes: [1500; 2], speed_mbps: Some(10_000), outcome }
}

fn triangle(first: LinkReadings) -> Vec<LinkResult> {
    vec![
        link("a", "b", Ok(first)),
        link("a", "c", Ok(readings(GOOD, GOOD))),
        link("b", "c", Ok(readings(GOOD, GOOD))),
    ]
}

fn one(results: &[LinkResult]) -> LinkFinding {
    let found = judge(results, &LinkBaseline::default());
    assert_eq!(found.len(), 1, "{found:?}");
    found[0].clone()
}

#[test]
fn links_that_are_all_the_same_have_no_finding() {
    assert_eq!(judge(&triangle(readings(GOOD, GOOD)), &LinkBaseline::default()), []);
    assert_eq!(judge(&[], &LinkBaseline::default()), []);
}

#[test]
fn a_link_that_carries_less_than_the_others_is_slow_in_its_direction() {
    let found = one(&triangle(readings(GOOD, GOOD * 0.1)));
    assert_eq!(
        (found.kind, &found.from, &found.to),
        (FindingKind::Bandwidth, &nic("b"), &nic("a"))
    );
    assert!(found.evidence.starts_with("0.10 of the other links, 100.0 MB/s"), "{found:?}");
    let found = one(&triangle(LinkReadings { there: None, ..readings(GOOD, GOOD) }));
    assert_eq!((found.kind, found.ratio), (FindingKind::Bandwidth, Some(0.0)), "nothing came");
}

#[test]
fn links_of_slower_nics_are_held_against_their_own_kind() {
    let mut results = triangle(readings(GOOD * 0.1, GOOD * 0.1));
    results[0].speed_mbps = Some(1000);
    assert_eq!(judge(&results, &LinkBaseline::default()), []);
}

#[test]
fn a_link_is_held_against_its_own_baseline_first() {
    let before = triangle(readings(GOOD, GOOD));
    let mut baseline = LinkBaseline::default();
    baseline.learn(&before, &[], 1);
    let everything = |rate| {
        let ends = [("a", "b"), ("a", "c"), ("b", "c")];
        ends.map(|(from, to)| link(from, to, Ok(readings(rate, rate))))
    };
    let found = judge(&everything(GOOD * 0.31), &baseline);
    assert_eq!(found.len(), 6);
    assert!(found[0].evidence.starts_with("0.31 of its baseline"), "{found:?}");
    // A link that always was the slow one is no finding again.
    let slow = triangle(readings(GOOD * 0.1, GOOD * 0.1));
    let mut baseline = LinkBaseline::default();
    baseline.learn(&slow, &[], 1);
    assert_eq!(judge(&slow, &baseline), []);
}

#[test]
fn what_does_not_answer_loses_or_cuts_frames_is_a_failure() {
    let mut results = triangle(readings(GOOD, GOOD));
    results[0].outcome = Err("no connection".to_owned());
    assert_eq!(one(&results).kind, FindingKind::Unreachable);
    let found = one(&triangle(LinkReadings { lost_back: 30, ..readings(GOOD, GOOD) }));
    assert_eq!(found.kind, FindingKind::Loss);
    assert_eq!(found.evidence, "0.00 % lost there, 1.00 % back, of 3000 datagrams");
    let found = one(&triangle(LinkReadings { frame_bytes: Some(1400), ..readings(GOOD, GOOD) }));
    assert_eq!(found.kind, FindingKind::FrameSize);
    assert!(found.evidence.contains("above 1400 bytes"), "{found:?}");
    let mut results = triangle(readings(GOOD, GOOD));
    results[1].nic_frame_bytes = [9000, 1500];
    assert_eq!(one(&results).evidence, "MTU 9000 at a/rail0, 1500 at c/rail0");
    assert!(found.kind.is_failure());
}

#[test]
fn a_round_trip_that_is_longer_is_late() {
    let late = LinkReadings { round_trip_ns: 5_000_000, ..readings(GOOD, GOOD) };
    let found = one(&triangle(late.clone()));
    assert_eq!((found.kind, found.ratio), (FindingKind::RoundTrip, Some(100.0)));
    // Far hosts are far every time.
    let mut baseline = LinkBaseline::default();
    baseline.learn(&triangle(late.clone()), &[], 1);
    assert_eq!(judge(&triangle(late), &baseline), []);
    // Less than that is a busy host.
    let busy = LinkReadings { round_trip_ns: 800_000, ..readings(GOOD, GOOD) };
    assert_eq!(judge(&triangle(busy), &LinkBaseline::default()), []);
}

#[test]
fn one_thin_nic_is_named_by_the_links_it_is_part_of() {
    let mut results = triangle(readings(GOOD, GOOD * 0.1));
    results[2].outcome = Ok(readings(GOOD * 0.1, GOOD));
    results.push(link("c", "d", Ok(readings(GOOD, GOOD))));
    results.push(link("a", "d", Ok(readings(GOOD, GOOD))));
    results.push(link("b", "d", Ok(readings(GOOD * 0.1, GOOD))));
    let findings = judge(&results, &LinkBaseline::default());
    let found = culprits(&sick_links(&results, &findings), &Switches::new());
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((found[0].kind, found[0].name.as_str()), (CulpritKind::Nic, "b/rail0"));
}
