//! The report of a mesh, and the words of its command.

use super::*;
use perigee_mesh::{FindingKind, LinkReadings, LoadRate, PORT};
use perigee_verdict::{CulpritKind, NicOfHost};

fn link(from: &str, to: &str, rate: f64) -> LinkResult {
    let rate = Some(LoadRate { bytes_per_second: rate });
    LinkResult {
        from: NicOfHost::new(from, "rail1"),
        to: NicOfHost::new(to, "rail1"),
        nic_frame_bytes: [9000; 2],
        speed_mbps: Some(100_000),
        outcome: Ok(LinkReadings {
            round_trip_ns: 12_345,
            there: rate,
            back: rate,
            probes: 3000,
            lost_there: 30,
            frame_bytes: Some(9000),
            ..LinkReadings::default()
        }),
    }
}

fn report(links: Vec<LinkResult>) -> CheckReport {
    CheckReport {
        hosts: vec![("node3".to_owned(), MeshHost::default())],
        unheard: Vec::new(),
        seconds: 3,
        now_unix_s: 10_000,
        before_unix_s: 0,
        known_links: 0,
        links,
        findings: Vec::new(),
        culprits: Vec::new(),
    }
}

#[test]
fn a_mesh_is_one_line_a_link_and_fits_a_terminal() {
    let long = "gpu-node-with-a-long-name.rack7.example";
    let mut report = report(vec![link("node3", "node7", 12.5e9), link(long, long, 1e9)]);
    report.findings.push(LinkFinding {
        kind: FindingKind::Bandwidth,
        from: NicOfHost::new("node3", "rail1"),
        to: NicOfHost::new("node7", "rail1"),
        evidence: "0.31 of its baseline, 3.88 GB/s instead of 12.50 GB/s".to_owned(),
        ratio: Some(0.31),
    });
    report.culprits.push(Culprit {
        kind: CulpritKind::Nic,
        name: "node7/rail1".to_owned(),
        sick: 2,
        looked_at: 2,
        links: Vec::new(),
    });
    report.unheard.push(Unheard { host: "node9".to_owned(), reason: "word ".repeat(40) });
    let text = report.text();
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(text.contains("node3/rail1 - node7/rail1"), "{text}");
    assert!(text.contains("12.500  12.500   9000   1.00 %"), "{text}");
    assert!(text.contains("SLOW  node3/rail1 -> node7/rail1: 0.31 of its baseline"), "{text}");
    assert!(text.contains("At fault: nic node7/rail1 (2 of its 2 links)"), "{text}");
}

#[test]
fn the_exit_code_tells_what_is_wrong() {
    let finding = |kind| LinkFinding {
        kind,
        from: NicOfHost::new("a", "n"),
        to: NicOfHost::new("b", "n"),
        evidence: String::new(),
        ratio: None,
    };
    assert_eq!(exit_code(&report(Vec::new())), 69);
    let mut checked = report(vec![link("a", "b", 1e9)]);
    assert_eq!(exit_code(&checked), 0);
    assert!(checked.text().contains("Nothing is wrong"), "{}", checked.text());
    checked.findings.push(finding(FindingKind::Bandwidth));
    assert_eq!(exit_code(&checked), EXIT_DEGRADED);
    checked.findings.push(finding(FindingKind::Loss));
    assert_eq!(exit_code(&checked), EXIT_FAILED);
    checked.findings.clear();
    checked.unheard.push(Unheard { host: "c".to_owned(), reason: "gone".to_owned() });
    assert_eq!(exit_code(&checked), EXIT_FAILED);
}

#[test]
fn words_before_the_first_flag_are_hosts() {
    let of = |words: &[&str]| {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        with_flag_for_hosts(&words)
    };
    assert_eq!(of(&["a", "b:1", "--load=1s"]), ["--hosts=a,b:1", "--load=1s"]);
    assert_eq!(of(&["--load", "1s"]), ["--load", "1s"]);
    assert_eq!(of(&[]), [""; 0]);
}

#[test]
fn the_table_of_flags_is_sound() {
    assert_eq!(CHECK.check(), Vec::<String>::new());
    assert_eq!(
        i128::from(PORT),
        CHECK.find("port").map_or(0, |flag| flag.default.parse().unwrap())
    );
}

#[test]
fn hosts_of_a_masters_segments_are_asked_once_each() {
    let mut segments = crate::status::samples();
    let both = |segments: &[SegmentUse]| hosts_of(segments, &[]);
    assert_eq!(both(&segments), ["10.0.0.1"]);
    segments[1].segment.endpoint = "[fd00::2]:4000".to_owned();
    assert_eq!(both(&segments), ["10.0.0.1", "[fd00::2]"]);
    assert_eq!(hosts_of(&segments, &["10.0.0.1".to_owned()]), ["[fd00::2]"]);
}
