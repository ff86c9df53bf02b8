//! Counting and summing. Invariant: expected lines are written out, not computed.

use super::*;
use crate::Samples;
use crate::limits::{LABEL_SETS_MAX, PIECE_BYTES};

const BUILD: BuildInfo = BuildInfo { version: "1.2.3", commit: "abc", reactor: "epoll" };

fn segment(name: &str, allocated_bytes: u64) -> SegmentNumbers {
    SegmentNumbers {
        name: name.to_owned(),
        allocated_bytes,
        capacity_bytes: 100,
        largest_free_bytes: 40,
    }
}

#[test]
fn batch_is_a_failure_only_when_every_item_failed() {
    let cells = MasterCells::default();
    for failed in [0, 1, 3] {
        cells.record_batch(RpcKind::BatchExistKey, 3, failed, 10);
    }
    cells.record_batch(RpcKind::BatchExistKey, 0, 0, 10);
    let totals = MasterCells::call_totals([&cells], RpcKind::BatchExistKey);
    let expected =
        CallTotals { requests: 4, failures: 1, partial_successes: 1, items: 9, failed_items: 4 };
    assert_eq!(totals, expected);
    assert_eq!((totals.successes(), totals.good_items()), (2, 5));
}

#[test]
fn shards_are_summed_when_read() {
    let (first, second) = (MasterCells::default(), MasterCells::default());
    first.record_call(RpcKind::Ping, true, 1_500);
    second.record_call(RpcKind::Ping, false, 3_000_000);
    let samples = Samples::of_master([&first, &second], &MasterNumbers::default(), BUILD);
    let text = samples.render();
    for line in [
        "master_ping_requests_total 2",
        "master_ping_failures_total 1",
        "perigee_rpc_requests_total{rpc=\"Ping\"} 2",
        "perigee_rpc_duration_seconds_bucket{rpc=\"Ping\",le=\"0.000001536\"} 1",
        "perigee_rpc_duration_seconds_count{rpc=\"Ping\"} 2",
        "perigee_build_info{version=\"1.2.3\",commit=\"abc\",reactor=\"epoll\"} 1",
        "perigee_connections{shard=\"1\"} 0",
    ] {
        assert!(text.contains(&format!("\n{line}\n")), "{line}");
    }
    assert!(text.contains("\nperigee_rpc_requests_total{rpc=\"Leave\"} 0\n"));
    assert!(!text.contains("perigee_rpc_duration_seconds_count{rpc=\"Leave\"}"), "never called");
}

#[test]
fn every_name_the_master_writes_is_in_the_catalogue() {
    let cells = MasterCells::default();
    cells.record_call(RpcKind::Ping, true, 1_500);
    let mut samples = Samples::of_master([&cells], &MasterNumbers::default(), BUILD);
    samples.add_segments(vec![segment("a", 1)]);
    assert_eq!(samples.refused(), Vec::<String>::new());
}

#[test]
fn parts_of_the_state_are_added_up() {
    let mut numbers =
        MasterNumbers { allocated_bytes: 10, capacity_bytes: 100, keys: 2, ..Default::default() };
    let other = MasterNumbers {
        allocated_bytes: 6,
        capacity_bytes: 200,
        keys: 3,
        value_sizes: HistogramTotals { counts: vec![1; 8], sum: 7, ..Default::default() },
        ..Default::default()
    };
    numbers.merge(other);
    assert_eq!((numbers.keys, numbers.allocated_bytes, numbers.capacity_bytes), (5, 16, 300));
    let text = Samples::of_master([], &numbers, BUILD).render();
    assert!(text.contains("\nmaster_total_capacity_bytes 300\n"));
    assert!(text.contains("\nmaster_value_size_bytes_count 8\n"));
}

#[test]
fn segments_of_one_name_are_one_series() {
    let mut samples = Samples::of_master([], &MasterNumbers::default(), BUILD);
    samples.add_segments(vec![segment("a", 10), segment("b", 1), segment("a", 5)]);
    let text = samples.render();
    for line in [
        "segment_allocated_bytes{segment=\"a\"} 15",
        "segment_total_capacity_bytes{segment=\"a\"} 200",
        "perigee_segment_used_ratio{segment=\"b\"} 0.01",
        "perigee_segment_largest_free_bytes{segment=\"a\"} 40",
        "perigee_segments 3",
    ] {
        assert!(text.contains(&format!("\n{line}\n")), "{line}");
    }
    assert_eq!(text.matches("\nsegment_allocated_bytes{").count(), 2);
}

#[test]
fn the_text_of_many_segments_comes_in_bounded_pieces_that_are_whole_together() {
    let many = || {
        let segments = (0..LABEL_SETS_MAX).map(|at| segment(&format!("{at:0>250}"), 1)).collect();
        let mut samples = Samples::of_master([], &MasterNumbers::default(), BUILD);
        samples.add_segments(segments);
        samples
    };
    let pieces: Vec<String> = many().pieces().collect();
    let whole = pieces.concat();
    assert!(whole.len() > 16 * PIECE_BYTES, "4 families of long names");
    assert!(pieces.iter().all(|piece| piece.len() < PIECE_BYTES + (64 << 10)));
    for name in ["segment_allocated_bytes", "perigee_segment_largest_free_bytes"] {
        assert_eq!(whole.matches(&format!("\n{name}{{")).count(), LABEL_SETS_MAX, "{name}");
    }
    let families = whole.lines().filter(|line| line.starts_with("# TYPE ")).count();
    let usual = Samples::of_master([], &MasterNumbers::default(), BUILD);
    let usual: Vec<String> = usual.pieces().collect();
    assert_eq!(usual.len(), 1, "a usual scrape is one piece");
    let wanted = usual[0].lines().filter(|line| line.starts_with("# TYPE ")).count();
    assert_eq!(families, wanted);
    assert_eq!(many().render(), whole);
}

#[test]
fn each_key_of_a_batch_counts_as_a_removal() {
    let cells = MasterCells::default();
    cells.record_call(RpcKind::Remove, true, 10);
    cells.record_batch(RpcKind::BatchRemove, 2, 1, 10);
    let text = Samples::of_master([&cells], &MasterNumbers::default(), BUILD).render();
    for line in [
        "master_remove_requests_total 3",
        "master_remove_failures_total 1",
        "perigee_rpc_requests_total{rpc=\"Remove\"} 1",
    ] {
        assert!(text.lines().any(|served| served == line), "{line}");
    }
}

#[test]
fn upserts_are_in_no_family_of_puts() {
    for kind in [RpcKind::PutStart, RpcKind::PutEnd, RpcKind::PutRevoke] {
        let replacing = kind.replacing();
        assert_ne!(replacing, kind);
        assert_eq!(replacing.family(), None);
        assert_eq!(replacing.batched().family(), None);
        assert!(replacing.batched().is_batch());
    }
}

#[test]
fn all_evictions_are_from_memory() {
    let numbers = MasterNumbers { evicted_keys: 7, ..MasterNumbers::default() };
    let text = Samples::of_master([&MasterCells::default()], &numbers, BUILD).render();
    for line in ["master_evicted_key_count 7", "master_evicted_key_count_mem 7"] {
        assert!(text.lines().any(|served| served == line), "{line}");
    }
}
