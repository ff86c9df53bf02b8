//! Reports of a few hosts, and the verdict on all of them.

use super::*;
use crate::report::{ReportedLink, ReportedNic};

const HOSTS: usize = 4;

fn address(host: usize, rail: usize) -> IpAddr {
    format!("10.0.{rail}.{host}").parse().unwrap()
}

/// A host with two rails and a link to each other host over both.
fn report(host: usize) -> AgentReport {
    let nics = (0..2).map(|rail| ReportedNic {
        name: format!("rail{rail}"),
        addresses: vec![address(host, rail)],
        switch: None,
    });
    let others = (0..HOSTS).filter(|other| *other != host);
    let links = others.flat_map(|other| {
        (0..2).map(move |rail| ReportedLink {
            nic: format!("rail{rail}"),
            peer: address(other, rail).to_string(),
            round_trip_ns: Some(50_000),
            sent_again: 0,
        })
    });
    AgentReport {
        host: format!("h{host}"),
        nics: nics.collect(),
        links: links.collect(),
        suspects: Vec::new(),
        port: None,
    }
}

fn suspect(kind: &str, name: impl ToString) -> ReportedSuspect {
    ReportedSuspect {
        kind: kind.to_owned(),
        name: name.to_string(),
        cause: String::new(),
        evidence: "round trips of 9.0 ms, usually 50 us".to_owned(),
        since_ms: 77,
    }
}

fn because(cause: &str, suspect: ReportedSuspect) -> ReportedSuspect {
    ReportedSuspect { cause: cause.to_owned(), ..suspect }
}

/// All hosts report each second, for `seconds`; `blame` adds the suspects of each.
fn play(board: &mut ClusterBoard, seconds: u64, blame: impl Fn(usize) -> Vec<ReportedSuspect>) {
    for second in 0..seconds {
        for host in 0..HOSTS {
            let report = AgentReport { suspects: blame(host), ..report(host) };
            board.take(report, address(host, 9), second * 1000).unwrap();
        }
    }
}

fn named(board: &mut ClusterBoard, now_ms: u64) -> Vec<(CulpritKind, String)> {
    let culprits = &board.verdict(now_ms).culprits;
    culprits.iter().map(|one| (one.kind, one.name.clone())).collect()
}

#[test]
fn peers_that_name_one_address_and_the_nic_itself_are_one_culprit() {
    let mut board = ClusterBoard::default();
    play(&mut board, 6, |host| match host {
        2 => vec![suspect("nic", "rail1")],
        _ => vec![suspect("peer", address(2, 1))],
    });
    let verdict = board.verdict(6000).clone();
    assert_eq!(verdict.culprits.len(), 1, "{verdict:?}");
    let culprit = &verdict.culprits[0];
    assert_eq!((culprit.kind, culprit.name.as_str()), (CulpritKind::Nic, "h2/rail1"));
    assert_eq!((culprit.sick_links, culprit.links, culprit.since_ms), (3, 3, 77));
    assert!(culprit.evidence[0].starts_with("h0: peer 10.0.1.2: round trips"), "{culprit:?}");
    assert_eq!(verdict.hosts.len(), HOSTS);
    assert_eq!(verdict.links.iter().filter(|link| link.is_sick).count(), 6);
}

#[test]
fn a_culprit_is_named_only_after_it_has_stood_for_a_while() {
    let mut board = ClusterBoard::default();
    let blame = |host| if host == 0 { vec![suspect("peer", address(2, 1))] } else { Vec::new() };
    play(&mut board, 8, blame);
    // One host alone: a way between two NICs, or the first report of something else.
    assert_eq!(named(&mut board, 7000), []);
    play(&mut board, 14, blame);
    assert_eq!(named(&mut board, 13_000), [(CulpritKind::Path, "h0/rail1 - h2/rail1".to_owned())]);
}

/// As on a run in which the only NIC of a host lost 1 %: links that paused took its name away.
#[test]
fn a_culprit_that_is_missing_for_a_moment_is_the_same_and_one_that_ended_is_not_named() {
    let mut board = ClusterBoard::default();
    let mut named_at = Vec::new();
    for second in 0..40u64 {
        let is_found = second < 30 && second % 5 < 3;
        for host in 0..HOSTS {
            let blame = (is_found && host != 2).then(|| suspect("peer", address(2, 1)));
            let report = AgentReport { suspects: blame.into_iter().collect(), ..report(host) };
            board.take(report, address(host, 9), second * 1000).unwrap();
        }
        if named(&mut board, second * 1000 + 999) == [(CulpritKind::Nic, "h2/rail1".to_owned())] {
            named_at.push(second);
        }
    }
    // A second is judged at its first report, before the others of it have come.
    assert_eq!(named_at, (6..31).collect::<Vec<_>>());
}

#[test]
fn a_host_that_names_its_own_disk_explains_what_its_peers_see() {
    let mut board = ClusterBoard::default();
    play(&mut board, 20, |host| match host {
        1 => vec![suspect("disk", "nvme0n1")],
        _ => vec![suspect("peer", address(1, 0)), suspect("peer", address(1, 1))],
    });
    assert_eq!(named(&mut board, 19_000), [(CulpritKind::Disk, "h1/nvme0n1".to_owned())]);
}

#[test]
fn a_host_that_all_name_on_all_rails_is_the_host() {
    let mut board = ClusterBoard::default();
    play(&mut board, 6, |host| match host {
        3 => Vec::new(),
        _ => vec![suspect("peer", address(3, 0)), suspect("peer", address(3, 1))],
    });
    assert_eq!(named(&mut board, 6000), [(CulpritKind::Host, "h3".to_owned())]);
}

#[test]
fn a_host_whose_process_stands_still_is_named_at_once_and_no_nic_switch_or_path() {
    let host = one_of_own("h3");
    for cause in ["core", "copy", "disk", "still"] {
        // All see it; one that has no other peer takes it for its NIC.
        let mut board = ClusterBoard::default();
        let still = |rail| because(cause, suspect("peer", address(3, rail)));
        play(&mut board, 6, |host| match host {
            0 => vec![because("wire", suspect("nic", "rail0")), still(1)],
            3 => Vec::new(),
            _ => vec![still(0), still(1)],
        });
        let named = named(&mut board, 6000);
        assert!(named.contains(&host), "{cause}: {named:?}");
        assert!(!named.iter().any(|one| one.1.contains("h3/")), "{cause}: {named:?}");
        // Only one does: it is not the path either.
        let mut board = ClusterBoard::default();
        play(&mut board, 20, |host| if host == 1 { vec![still(0)] } else { Vec::new() });
        assert_eq!(self::named(&mut board, 19_000), std::slice::from_ref(&host), "{cause}");
        let evidence = &board.verdict(19_000).culprits[0].evidence;
        assert!(evidence[0].starts_with("h1: peer 10.0.0.3: "), "{evidence:?}");
    }
}

#[test]
fn a_host_that_is_found_for_its_programs_and_for_its_links_is_named_once() {
    let mut board = ClusterBoard::default();
    let of = |cause: &str, rail| because(cause, suspect("peer", address(3, rail)));
    play(&mut board, 6, |host| match host {
        3 => Vec::new(),
        0 => vec![of("core", 0), of("queue", 1)],
        _ => vec![of("queue", 0), of("queue", 1)],
    });
    assert_eq!(named(&mut board, 6000), [one_of_own("h3")]);
    let evidence = &board.verdict(6000).culprits[0].evidence;
    assert!(evidence[0].starts_with("h0: "), "what it says itself: {evidence:?}");
}

fn one_of_own(host: &str) -> (CulpritKind, String) {
    (CulpritKind::Host, host.to_owned())
}

#[test]
fn a_peer_whose_answers_are_lost_stands_still_only_if_it_says_so_itself() {
    let play_with = |cause: &str| {
        let mut board = ClusterBoard::default();
        play(&mut board, 20, |host| match host {
            3 => vec![because("loss", suspect("nic", "rail0"))],
            _ => vec![because(cause, suspect("peer", address(3, 0)))],
        });
        named(&mut board, 19_000)
    };
    let nic = (CulpritKind::Nic, "h3/rail0".to_owned());
    assert_eq!(play_with("still"), std::slice::from_ref(&nic));
    assert_eq!(play_with("core"), [one_of_own("h3"), nic]);
}

#[test]
fn a_host_without_a_core_for_its_own_thread_does_not_say_who_stands_still() {
    let play_with = |cause: &str| {
        let mut board = ClusterBoard::default();
        play(&mut board, 20, |host| match host {
            0 => {
                let thread = because("core", suspect("shard", "python/python"));
                let peers = [1, 2].map(|far| because(cause, suspect("peer", address(far, 0))));
                [vec![thread], peers.into()].concat()
            }
            _ => Vec::new(),
        });
        named(&mut board, 19_000)
    };
    let shard = (CulpritKind::Shard, "h0/python/python".to_owned());
    assert_eq!(play_with("still"), std::slice::from_ref(&shard));
    assert_eq!(play_with("disk"), [one_of_own("h1"), one_of_own("h2"), shard]);
}

#[test]
fn a_process_that_stands_still_on_a_host_without_an_agent_is_named_by_its_address() {
    let mut board = ClusterBoard::default();
    play(&mut board, 6, |_| vec![because("still", suspect("peer", "10.9.9.9"))]);
    assert_eq!(named(&mut board, 6000), [one_of_own("10.9.9.9")]);
}

#[test]
fn reports_of_agents_that_say_no_cause_are_read() {
    let text = r#"{"kind": "peer", "name": "10.0.0.1", "evidence": "e", "since_ms": 7}"#;
    let suspect: ReportedSuspect = serde_json::from_str(text).unwrap();
    assert!(!suspect.is_own() && suspect.is_of_way());
}

#[test]
fn a_nic_without_tcp_links_is_named_by_its_own_host() {
    let mut board = ClusterBoard::default();
    let blame = |host| if host == 2 { vec![suspect("nic", "mlx5_0")] } else { Vec::new() };
    play(&mut board, 6, blame);
    assert_eq!(named(&mut board, 6000), [(CulpritKind::Nic, "h2/mlx5_0".to_owned())]);
}

#[test]
fn hosts_that_are_silent_are_forgotten_and_with_them_what_they_name() {
    let mut board = ClusterBoard::default();
    play(&mut board, 6, |_| vec![suspect("nic", "rail1")]);
    assert_eq!(named(&mut board, 6000).len(), 1);
    let verdict = board.verdict(5000 + REPORT_FRESH_MS).clone();
    assert!(verdict.hosts.is_empty() && verdict.culprits.is_empty() && verdict.links.is_empty());
    let silent: Vec<_> = verdict.silent.iter().map(|one| (&*one.host, one.age_ms)).collect();
    assert_eq!(silent.len(), HOSTS);
    assert_eq!(silent[1], ("h1", REPORT_FRESH_MS));
    board.take(report(1), address(1, 9), 40_000).unwrap();
    assert!(board.verdict(41_000).silent.iter().all(|one| one.host != "h1"), "it reports again");
    assert!(board.verdict(5000 + SILENT_SHOWN_MS).silent.iter().all(|one| one.host == "h1"));
}

#[test]
fn what_is_kept_is_bounded_and_a_name_belongs_to_one_address() {
    let mut board = ClusterBoard::default();
    let of = |name: String| AgentReport { host: name, ..report(0) };
    let (one, other) = (address(1, 1), address(2, 2));
    for number in 0..HOSTS_PER_ADDRESS_MAX {
        board.take(of(format!("x{number}")), one, 0).unwrap();
    }
    assert_eq!(board.take(of("more".to_owned()), one, 0), Err(ReportRefusal::Full));
    assert_eq!(board.take(of("x1".to_owned()), other, 0), Err(ReportRefusal::Taken));
    assert_eq!(board.take(of(String::new()), other, 0), Err(ReportRefusal::Nameless));
    // A host that has moved is taken once the old one is forgotten.
    assert_eq!(board.take(of("x1".to_owned()), other, REPORT_FRESH_MS), Ok(()));
    for number in 0..HOSTS_MAX * 2 {
        let from = IpAddr::from([10, 1, (number / 250) as u8, (number % 250) as u8]);
        let _ = board.take(of(format!("y{number}")), from, REPORT_FRESH_MS);
    }
    assert_eq!(board.hosts.len(), HOSTS_MAX);
}

#[test]
fn a_document_reads_back_to_itself() {
    let mut board = ClusterBoard::default();
    play(&mut board, 6, |_| vec![suspect("peer", address(2, 1))]);
    let verdict = board.verdict(6000).clone();
    let text = serde_json::to_string(&verdict).unwrap();
    assert_eq!(serde_json::from_str::<ClusterVerdict>(&text).unwrap(), verdict);
}
