//! The master's policies against an exact LRU, on made-up conversations.

use std::collections::BTreeSet;

use perigee_master::PolicyName;

use super::conversations;
use super::pool::{Pool, SHORT_LEASE_MS};

mod lru;

/// What a policy may lose to LRU, in points of hit rate.
const POINTS_MAX: f64 = 0.2;

/// Hit rate in percent.
fn percent(hits: usize, requests: &[Vec<u64>]) -> f64 {
    100.0 * hits as f64 / requests.iter().map(Vec::len).sum::<usize>() as f64
}

fn played(policy: PolicyName, requests: &[Vec<u64>], blocks: u64, watermark_ratio: f64) -> f64 {
    let pool = Pool::new(policy, &[blocks], SHORT_LEASE_MS, watermark_ratio);
    rate_of(pool, requests)
}

fn rate_of(mut pool: Pool, requests: &[Vec<u64>]) -> f64 {
    let hits = requests.iter().map(|request| pool.request(request).unwrap()).sum();
    percent(hits, requests)
}

fn exact(requests: &[Vec<u64>], blocks: u64) -> f64 {
    percent(lru::hits(requests, blocks as usize), requests)
}

#[test]
fn the_baseline_is_an_exact_lru() {
    let requests = conversations::make(1_000, 5);
    for blocks in [500, 1_500, 4_000] {
        let (played, exact) =
            (played(PolicyName::Lru, &requests, blocks, 1.0), exact(&requests, blocks));
        assert!((played - exact).abs() < POINTS_MAX, "{blocks}: {played:.2} %, {exact:.2} %");
    }
}

#[test]
fn conversations_hit_no_less_than_in_an_exact_lru() {
    let requests = conversations::make(3_000, 5);
    for blocks in [1_500, 3_000, 6_000, 9_000] {
        for watermark_ratio in [0.9, 1.0] {
            let kept = (blocks as f64 * watermark_ratio) as u64;
            let adaptive = played(PolicyName::Adaptive, &requests, blocks, watermark_ratio);
            let exact = exact(&requests, kept);
            assert!(adaptive >= exact - POINTS_MAX, "{blocks}: {adaptive:.2} %, LRU {exact:.2} %");
        }
    }
}

#[test]
fn conversations_that_once_hit_less_than_in_an_exact_lru_do_so_no_more() {
    // With these seeds an order that learned one factor for all lost up to 1.4 points.
    for seed in [3, 4, 6, 7, 8] {
        let requests = conversations::make(6_000, seed);
        let different = requests.iter().flatten().collect::<BTreeSet<_>>().len() as u64;
        for blocks in [different / 10, different / 5] {
            let adaptive = played(PolicyName::Adaptive, &requests, blocks, 1.0);
            let exact = exact(&requests, blocks);
            let least = exact - POINTS_MAX;
            assert!(adaptive >= least, "{seed}, {blocks}: {adaptive:.2} %, LRU {exact:.2} %");
        }
    }
}

#[test]
fn a_loop_longer_than_the_pool_is_hit_in_part() {
    // Least recently used, each block goes just before it is asked for again.
    let turn = |at: u64| (0..10).map(|block| at % 100 * 10 + block).collect();
    let requests: Vec<Vec<u64>> = (0..6_000).map(turn).collect();
    let (lru, adaptive) = (
        played(PolicyName::Lru, &requests, 600, 1.0),
        played(PolicyName::Adaptive, &requests, 600, 1.0),
    );
    assert!(lru < 1.0 && adaptive > 10.0, "{lru:.2} % and {adaptive:.2} %, 60 % at most");
}

#[test]
fn a_disk_behind_the_memory_hits_what_memory_has_evicted() {
    let requests = conversations::make(1_000, 5);
    let pool = Pool::new(PolicyName::Adaptive, &[500], SHORT_LEASE_MS, 1.0);
    let memory = rate_of(pool, &requests);
    let mut pool = Pool::new(PolicyName::Adaptive, &[500], SHORT_LEASE_MS, 1.0);
    pool.add_ssd(100_000);
    let (both, all) = (rate_of(pool, &requests), exact(&requests, 100_000));
    assert!(memory < all - 10.0 && (both - all).abs() < 0.01, "{memory:.2}, {both:.2}, {all:.2}");
}

#[test]
fn running_leases_and_two_segments_cost_no_hits() {
    let requests = conversations::make(3_000, 6);
    let pool = Pool::new(PolicyName::Adaptive, &[3_000, 3_000], 500, 0.9);
    let (adaptive, exact) = (rate_of(pool, &requests), exact(&requests, 5_400));
    assert!(adaptive >= exact - POINTS_MAX, "{adaptive:.2} %, LRU {exact:.2} %");
}

#[test]
fn requests_that_never_come_back_do_not_push_out_those_that_do() {
    // Every fifth request is one of 60 that take turns; the others come once. All of the 60 fit.
    let once = |at: u64| (0..10).map(|block| 1_000_000 + at * 10 + block).collect();
    let again = |at: u64| (0..10).map(|block| at / 5 % 60 * 10 + block).collect();
    let requests: Vec<Vec<u64>> =
        (0..9_000).map(|at| if at % 5 == 0 { again(at) } else { once(at) }).collect();
    let (lru, adaptive) = (
        played(PolicyName::Lru, &requests, 1_000, 1.0),
        played(PolicyName::Adaptive, &requests, 1_000, 1.0),
    );
    assert!(lru < 1.0 && adaptive > 10.0, "{lru:.2} % and {adaptive:.2} %, 20 % at most");
}
