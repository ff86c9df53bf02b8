//! What is drawn at 80x24, and what keys do.

use super::board::TopState;
use super::read_again;
use super::screen;
use super::table::View;
use super::watched::{AfterKey, Watched};
use perigee_agent::{
    Distribution, FlowSeries, LinkSeries, NicSeries, SlowBatchEntry, Snapshot, Suspect,
    SuspectCause, SuspectKind, TaskSeries,
};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::time::Duration;

fn snapshot(second: u64) -> Snapshot {
    let nic = |device: &str, rate: u64, up: bool| NicSeries {
        device: device.to_owned(),
        port: 1,
        kind: "roce".to_owned(),
        up,
        link_bytes_per_second: Some(25_000_000_000),
        receive_bytes: rate * second,
        transmit_bytes: 2 * rate * second,
        ..NicSeries::default()
    };
    let mut buckets = vec![0; 40];
    buckets[14] = 100 * second;
    let flow = FlowSeries {
        device: "mlx5_0".to_owned(),
        route: "rdma".to_owned(),
        direction: "write".to_owned(),
        program: "python3".to_owned(),
        shard: "0".to_owned(),
        operations: 100 * second,
        bytes: 1_000_000 * second,
        latency: Distribution {
            count: 100 * second,
            sum_ns: 20_000 * 100 * second,
            buckets,
            quarters: Vec::new(),
        },
        ..FlowSeries::default()
    };
    Snapshot {
        monotonic_ns: second * 1_000_000_000,
        host: "gpu-7".to_owned(),
        nics: vec![
            nic("mlx5_1", 1_000_000, true),
            nic("mlx5_0", 5_000_000_000, true),
            nic("mlx5_2", 0, false),
        ],
        flows: vec![flow],
        ..Snapshot::default()
    }
}

fn board() -> TopState {
    let mut board = TopState::new(Duration::from_secs(1), "gpu-7:9305");
    for second in 1..=5 {
        board.take(snapshot(second));
    }
    board
}

fn drawn(board: &TopState) -> Vec<String> {
    drawn_at(board, 80, 24)
}

fn drawn_at(board: &TopState, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| screen::draw(board, frame)).unwrap();
    let buffer = terminal.backend().buffer();
    let line = |y: u16| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
    (0..height).map(line).collect()
}

fn press(board: &mut TopState, keys: &[KeyCode]) -> AfterKey {
    let mut last = AfterKey::Stay;
    for key in keys {
        last = board.press(KeyEvent::new(*key, KeyModifiers::NONE));
    }
    last
}

fn show(board: &mut TopState, view: View) {
    for _ in View::ALL {
        if board.view != view {
            press(board, &[KeyCode::Tab]);
        }
    }
    assert_eq!(board.view, view);
}

#[test]
fn nics_are_drawn_with_rates_share_and_latency_in_80_columns() {
    let lines = drawn(&board());
    assert!(lines[0].contains("gpu-7") && lines[0].contains("NICs"));
    let busiest = &lines[2];
    assert!(busiest.starts_with("mlx5_0"), "{busiest}");
    for part in ["roce", "up", "5.0G", "10.0G", "40%", "24.6us"] {
        assert!(busiest.contains(part), "{part} in {busiest}");
    }
    assert!(lines.iter().any(|line| line.starts_with("mlx5_2") && line.contains("DOWN")));
    assert!(lines[23].contains("q end"));
}

#[test]
fn an_empty_table_says_whether_the_filter_or_the_host_has_emptied_it() {
    let mut board = board();
    press(&mut board, &[KeyCode::Char('f'), KeyCode::Char('z'), KeyCode::Enter]);
    let filtered = drawn(&board)[1..23].join("\n");
    assert!(filtered.contains("No row contains `z`. Esc clears"), "{filtered}");
    let mut empty = TopState::new(Duration::from_secs(1), "gpu-7:9305");
    empty.take(Snapshot::default());
    let lines = drawn(&empty);
    let words: Vec<_> = lines[1..4].iter().flat_map(|line| line.split_whitespace()).collect();
    let whole = "Probes says what is off, and why.";
    assert!(words.join(" ").contains(whole), "{words:?}");
}

#[test]
fn long_names_take_the_room_there_is_and_show_where_they_are_cut() {
    let mut board = TopState::new(Duration::from_secs(1), "gpu-7:9305");
    for second in 1..=5 {
        let mut named = snapshot(second);
        named.nics[0].device = "enP6s2f1np1v12.1002-bond-storage".to_owned();
        board.take(named);
    }
    let is_whole = |lines: &[String]| {
        let name = "enP6s2f1np1v12.1002-bond-storage ";
        lines.iter().any(|line| line.starts_with(name))
    };
    assert!(is_whole(&drawn_at(&board, 120, 24)));
    let narrow = drawn(&board);
    let cut = narrow.iter().find(|line| line.starts_with("enP6s2")).unwrap();
    assert!(cut.contains("~ roce"), "{cut}");
}

#[test]
fn all_keys_are_explained_also_in_60_columns() {
    let mut board = board();
    press(&mut board, &[KeyCode::Char('?')]);
    let lines = drawn_at(&board, 60, 15).join("\n");
    for part in ["Esc clears it", "slower and faster", "q            end"] {
        assert!(lines.contains(part), "{part} in {lines}");
    }
}

#[test]
fn keys_sort_filter_and_change_the_view() {
    let mut board = board();
    press(
        &mut board,
        &[
            KeyCode::Char('f'),
            KeyCode::Char('5'),
            KeyCode::Char('_'),
            KeyCode::Char('1'),
            KeyCode::Enter,
        ],
    );
    let lines = drawn(&board);
    assert!(lines[2].starts_with("mlx5_1"));
    assert!(!lines.iter().any(|line| line.starts_with("mlx5_0")));
    press(&mut board, &[KeyCode::Esc]);
    show(&mut board, View::Flows);
    assert!(drawn(&board)[2].contains("python3"));
    let before = board.sorted_by();
    press(&mut board, &[KeyCode::Char('s')]);
    assert_ne!(board.sorted_by(), before);
    assert_eq!(press(&mut board, &[KeyCode::Char('q')]), AfterKey::End);
}

#[test]
fn enter_opens_the_graph_of_the_selected_row_and_escape_closes_it() {
    let mut board = board();
    press(&mut board, &[KeyCode::Down, KeyCode::Enter]);
    assert_eq!(board.graph.as_deref(), Some("mlx5_1/1"));
    assert!(drawn(&board).iter().any(|line| line.contains("mlx5_1/1: the last 4 readings")));
    press(&mut board, &[KeyCode::Esc]);
    assert!(board.graph.is_none());
}

/// A thread that waits for this share of a second each second.
fn waiting(second: u64, share: f64) -> Snapshot {
    let mut buckets = vec![0; 40];
    buckets[20] = second;
    let run_queue = Distribution {
        count: second,
        sum_ns: (share * 1e9) as u64 * second,
        buckets,
        quarters: Vec::new(),
    };
    let task = TaskSeries {
        program: "perigee".to_owned(),
        thread: "perigee-data".to_owned(),
        threads: 1,
        run_queue,
        ..TaskSeries::default()
    };
    Snapshot { tasks: vec![task], ..snapshot(second) }
}

#[test]
fn the_marks_beside_a_graph_differ_however_small_a_share_is() {
    for (share, marks) in [
        (0.5, ["50%", "25%", "0%"]),
        (0.06, ["6.0%", "3.0%", "0.0%"]),
        (0.004, ["0.40%", "0.20%", "0.00%"]),
        (0.0, ["100%", "50%", "0%"]),
    ] {
        let mut board = TopState::new(Duration::from_secs(1), "gpu-7:9305");
        for second in 1..=5 {
            board.take(waiting(second, share));
        }
        show(&mut board, View::Shards);
        press(&mut board, &[KeyCode::Enter]);
        let text = drawn(&board).concat();
        assert!(text.contains("perigee-data: the last"), "{text}");
        for mark in marks {
            let beside = ["│", " "].map(|end| format!("│{mark}{end}"));
            assert!(beside.iter().any(|mark| text.contains(mark)), "{mark} in {text}");
        }
    }
}

#[test]
fn a_source_that_fails_is_reported_and_the_last_numbers_stay() {
    let mut board = board();
    board.trouble = Some("connection refused".to_owned());
    let lines = drawn(&board);
    assert!(lines[2].starts_with("mlx5_0"));
    assert!(lines[23].contains("connection refused"));
}

#[test]
fn a_pipe_gets_every_table() {
    let text = board().text();
    for part in
        ["NICs", "Links", "Flows", "Slow", "Disks", "Shards", "Probes", "mlx5_0", "python3 0"]
    {
        assert!(text.contains(part), "{part}");
    }
}

#[test]
fn a_terminal_that_is_too_small_is_reported_and_a_large_one_is_used() {
    let board = board();
    for (width, height) in [(1, 1), (10, 3), (39, 24), (80, 5)] {
        let text = drawn_at(&board, width, height).concat();
        assert!(!text.contains("mlx5_0"), "{width}x{height}: {text}");
    }
    assert!(drawn_at(&board, 39, 5)[0].starts_with("perigee top needs 40x6, this is 39x5"));
    let narrow = drawn_at(&board, 30, 5);
    let words: Vec<&str> = narrow.iter().map(|line| line.trim()).collect();
    assert_eq!(words.join(" ").trim(), "perigee top needs 40x6, this is 30x5");
    assert!(drawn_at(&board, 40, 6)[2].starts_with("mlx5_0"));
    assert!(drawn_at(&board, 300, 90)[2].starts_with("mlx5_0"));
}

#[test]
fn a_second_reading_with_the_same_stamp_is_read_again_until_there_is_a_newer_one() {
    let mut state = TopState::new(Duration::from_secs(1), "agent");
    state.take(snapshot(1));
    assert!(!state.has_two());
    let unknown = state.text();
    let nic = unknown.lines().find(|line| line.starts_with("mlx5_0")).unwrap();
    assert_eq!(nic.split_whitespace().nth(3), Some("-"), "{nic}");
    let mut readings = [1, 1, 1, 2].map(snapshot).into_iter();
    read_again(&mut state, || readings.next().ok_or_else(|| "asked too often".to_owned()));
    assert!(state.has_two() && state.trouble.is_none());
    assert!(!state.text().lines().any(|line| line.starts_with("mlx5_0") && line.contains(" - ")));
}

#[test]
fn who_is_slow_is_named_below_every_view() {
    let mut board = board();
    let mut next = snapshot(6);
    next.suspects = vec![Suspect {
        kind: SuspectKind::Nic,
        name: "mlx5_1".to_owned(),
        cause: SuspectCause::Wire,
        evidence: "round trips of 1.2 ms, others 45 us, usual 50 us".to_owned(),
        since_ms: 0,
        now_ns: 1_200_000,
        usual_ns: 45_000,
    }];
    board.take(next);
    for _ in View::ALL {
        assert!(drawn(&board)[22].starts_with("SLOW nic mlx5_1: round trips of 1.2 ms"));
        press(&mut board, &[KeyCode::Tab]);
    }
    assert!(board.text().starts_with("SLOW nic mlx5_1"));
    board.take(snapshot(7));
    assert!(!drawn(&board).concat().contains("SLOW"));
}

/// Each second a thousand exchanges of 100 us, 30 us of them the peer's.
fn linked(second: u64) -> Snapshot {
    let link = LinkSeries {
        device: "eth0".to_owned(),
        peer: "10.0.0.9".to_owned(),
        asked_round_trip_ns: Some(45_000),
        retransmits: 3 * second,
        operations: 1000 * second,
        bytes: 4_000_000 * second,
        wire_ns: 100_000_000 * second,
        waited_ns: 10_000_000 * second,
        copied_ns: 15_000_000 * second,
        disk_ns: 5_000_000 * second,
        ..LinkSeries::default()
    };
    Snapshot { links: vec![link], taken_ms: 1_000_000 + 1000 * second, ..snapshot(second) }
}

#[test]
fn links_show_what_an_exchange_took_and_the_peers_part_of_it_in_80_columns() {
    let mut board = board();
    (6..9).for_each(|second| board.take(linked(second)));
    show(&mut board, View::Links);
    let lines = drawn(&board);
    assert!(lines[1].contains("peer's") && lines[1].contains("resent/s"), "{}", lines[1]);
    let cells: Vec<&str> = lines[2].split_whitespace().collect();
    let expected = ["eth0", "10.0.0.9", "4.0M", "1.0k", "100us", "30.0us", "45.0us", "3"];
    assert_eq!(cells, expected);
}

fn batch(ended_ms: u64, wire_ns: u64) -> SlowBatchEntry {
    SlowBatchEntry {
        ended_ms,
        device: "eth0".to_owned(),
        peer: "10.0.0.9".to_owned(),
        direction: "read".to_owned(),
        bytes: 65_536,
        queue_ns: 1_000_000,
        wire_ns,
        peer_ns: 3_000_000,
        ..SlowBatchEntry::default()
    }
}

#[test]
fn slow_batches_are_listed_latest_first_and_rows_are_forgotten() {
    let mut board = board();
    for second in 6..300 {
        let mut slow = linked(second);
        let now = slow.taken_ms;
        slow.slow = vec![batch(now - 4000, 20_000_000), batch(now - 61_000, 90_000_000)];
        board.take(slow);
    }
    show(&mut board, View::Slow);
    let lines = drawn(&board);
    let cells: Vec<&str> = lines[2].split_whitespace().collect();
    let expected =
        ["4s", "24.0ms", "1.0ms", "20.0ms", "3.0ms", "0ns", "65.5k", "read", "eth0", "10.0.0.9"];
    assert_eq!(cells, expected);
    assert!(lines[3].starts_with("61s"), "{}", lines[3]);
    assert!(board.remembered() < 16, "{}", board.remembered());
}

fn suspect(number: usize, evidence: &str) -> Suspect {
    Suspect {
        kind: SuspectKind::Peer,
        name: format!("10.0.0.{number}"),
        cause: SuspectCause::Core,
        evidence: evidence.to_owned(),
        since_ms: 0,
        now_ns: 1,
        usual_ns: 1,
    }
}

#[test]
fn evidence_is_shown_to_its_end_and_many_suspects_leave_the_table_room() {
    let evidence = "its core: each exchange waits 1.9 ms for it, others 3 us, usually 2 us, over \
                    the last five seconds and behind both of its NICs";
    let mut board = board();
    let mut next = snapshot(6);
    next.suspects = (0..3).map(|number| suspect(number, evidence)).collect();
    board.take(next);
    let lines = drawn(&board);
    let shown: Vec<&str> = lines[17..23].iter().flat_map(|line| line.split_whitespace()).collect();
    let shown = shown.join(" ");
    assert_eq!(shown.matches(evidence).count(), 3, "{shown}");
    let mut crowd = snapshot(7);
    crowd.suspects = (0..40).map(|number| suspect(number, evidence)).collect();
    board.take(crowd);
    let lines = drawn(&board);
    assert!(lines[22].starts_with("SLOW and 34 more"), "{}", lines[22]);
    assert!(lines[2].starts_with("mlx5_0"));
}
