//! What is drawn of a cluster.

use super::*;
use perigee_verdict::{ClusterLink, CulpritKind, JudgedHost, NicOfHost, SilentHost};
use ratatui::Terminal;
use ratatui::backend::TestBackend;

fn link(from: &str, to: &str, round_trip_us: u64, is_sick: bool) -> ClusterLink {
    ClusterLink {
        from: NicOfHost::new(from, "rail0"),
        to: NicOfHost::new(to, "rail0"),
        is_sick,
        round_trip_ns: Some(round_trip_us * 1000),
        sent_again: 0,
    }
}

fn verdict() -> ClusterVerdict {
    let host = |name: &str| JudgedHost {
        host: name.to_owned(),
        nics: vec!["rail0".to_owned()],
        age_ms: 1500,
        agent: None,
    };
    ClusterVerdict {
        version: 1,
        taken_ms: 20_000,
        culprits: vec![NamedCulprit {
            kind: CulpritKind::Nic,
            name: "c/rail0".to_owned(),
            sick_links: 2,
            links: 2,
            since_ms: 8000,
            evidence: vec!["a: peer 10.0.0.3: loses 1 %".to_owned()],
        }],
        hosts: ["a", "b", "c"].map(host).to_vec(),
        silent: vec![SilentHost { host: "d".to_owned(), age_ms: 17_400 }],
        links: vec![
            link("a", "b", 80, false),
            link("b", "a", 90, false),
            link("a", "c", 4200, true),
            link("b", "c", 300, true),
        ],
    }
}

fn state() -> ClusterState {
    let mut state = ClusterState::new(Duration::from_secs(2), "m:9003");
    state.accept(Ok(verdict()));
    state
}

fn drawn(state: &ClusterState) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
    terminal.draw(|frame| draw(state, frame)).unwrap();
    let buffer = terminal.backend().buffer();
    let line = |y| (0..80).map(|x| buffer[(x, y)].symbol()).collect::<String>();
    (0..24).map(|y| line(y).trim_end().to_owned()).collect()
}

#[test]
fn the_culprit_stands_above_the_matrix_and_sick_fields_are_marked() {
    let lines = drawn(&state());
    assert_eq!(lines[0], "perigee top --cluster  m:9003  3 agents, 4 links");
    assert_eq!(lines[1], "SLOW nic c/rail0, 2 of its 2 links, for 12 s");
    assert_eq!(lines[2], "     a: peer 10.0.0.3: loses 1 %");
    assert_eq!(lines[4], "NIC             a         b         c");
    assert_eq!(lines[5], "a/rail0                90us    4.2ms!");
    assert_eq!(lines[6], "b/rail0      90us              300us!");
    assert_eq!(lines[7], "c/rail0    4.2ms!    300us!");
    assert_eq!(lines[9], "a: rail0; reported 1 s ago");
    assert_eq!(lines[12], "d: silent for 17 s, not judged");
}

#[test]
fn hosts_without_room_are_counted_and_those_behind_sick_links_are_shown() {
    let mut verdict = verdict();
    for number in 0..20 {
        verdict.links.push(link("a", &format!("aa{number}"), 50, false));
    }
    let lines = matrix::matrix(&verdict, 40);
    let columns: Vec<&str> = lines[0].1.split_whitespace().collect();
    assert!(columns[1..].is_sorted(), "{columns:?}");
    assert!(lines[0].1.starts_with("NIC") && lines[0].1.contains(" c"), "{lines:?}");
    assert_eq!(lines.last().unwrap().1, "and 20 more hosts; a wider window shows them");
}

#[test]
fn a_master_without_agents_and_one_without_an_answer_are_said() {
    let mut state = ClusterState::new(Duration::from_secs(2), "m:9003");
    assert!(state.text().contains("start agents with --report_to=MASTER"));
    state.accept(Err("connection refused".to_owned()));
    assert!(drawn(&state).last().unwrap().starts_with("No answer: connection refused"));
    let key = |code| KeyEvent::new(code, KeyModifiers::NONE);
    assert_eq!(state.press(key(KeyCode::Char('x'))), AfterKey::Stay);
    assert_eq!(state.press(key(KeyCode::Char('q'))), AfterKey::End);
}
