//! The choice by itself, and in a simulation of rails whose speed changes while requests run.
//! Invariant of the simulation: the same seed gives the same run.

use super::*;
use crate::bandwidth::Bandwidth;
use crate::limits::{WINDOW_BYTES_MAX, WINDOW_BYTES_MIN, WINDOW_TIME};
use crate::slicing::slice_bytes;
use proptest::prelude::*;
use std::collections::VecDeque;

fn lane(in_flight: u64, bandwidth: f64) -> SprayLane {
    SprayLane { in_flight, bandwidth, weight: 1.0, has_room: true }
}

#[test]
fn the_lane_that_delivers_first_is_taken() {
    assert_eq!(choose(&[lane(0, 1e9), lane(0, 4e9)], 1000, 1000), SprayChoice::Take(1));
    let busy = [lane(0, 1e9), lane(1 << 30, 4e9)];
    assert_eq!(choose(&busy, 1000, 1000), SprayChoice::Take(0));
}

#[test]
fn a_far_lane_is_taken_only_when_the_near_one_is_busy() {
    let far = SprayLane { weight: 1.4, ..lane(0, 1e9) };
    assert_eq!(choose(&[far, lane(0, 1e9)], 1000, 1000), SprayChoice::Take(1));
    assert_eq!(choose(&[far, lane(5000, 1e9)], 1000, 1000), SprayChoice::Take(0));
}

#[test]
fn the_last_slice_waits_for_the_fast_lane_instead_of_taking_the_slow_one() {
    let full = SprayLane { has_room: false, ..lane(1000, 1e9) };
    assert_eq!(choose(&[full, lane(0, 1e7)], 1000, 1000), SprayChoice::Hold);
    assert_eq!(choose(&[full, lane(0, 1e7)], 1000, 1 << 30), SprayChoice::Take(1));
    assert_eq!(choose(&[], 1, 1), SprayChoice::Nowhere);
}

proptest! {
    #[test]
    fn with_room_somewhere_and_a_large_backlog_some_lane_is_always_used(
        lanes in proptest::collection::vec((0u64..1_000_000, 1u32..1000, any::<bool>()), 1..16),
    ) {
        let lanes: Vec<SprayLane> = lanes.into_iter().map(|(in_flight, speed, has_room)| SprayLane {
            in_flight, bandwidth: f64::from(speed) * 1e6, weight: 1.0, has_room,
        }).collect();
        let any_room = lanes.iter().any(|lane| lane.has_room);
        match choose(&lanes, 4096, u64::MAX / 4) {
            SprayChoice::Take(index) => prop_assert!(lanes[index].has_room),
            SprayChoice::Hold => prop_assert!(!any_room),
            SprayChoice::Nowhere => prop_assert!(false, "there are lanes"),
        }
    }
}

/// A rail that serves slices one after the other at a speed that may change.
struct Wire {
    speed: f64,
    queue: VecDeque<u64>,
    /// Bytes left of the slice at its head.
    left: f64,
    measured: Bandwidth,
}

struct Simulation {
    wires: Vec<Wire>,
    now: Duration,
    random: u64,
    moved: u64,
}

const TICK: Duration = Duration::from_micros(20);

impl Simulation {
    fn new(speeds: &[f64], nominal: f64, seed: u64) -> Self {
        let wire = |speed: &f64| Wire {
            speed: *speed,
            queue: VecDeque::new(),
            left: 0.0,
            measured: Bandwidth::new(nominal),
        };
        Self {
            wires: speeds.iter().map(wire).collect(),
            now: Duration::from_secs(1),
            random: seed | 1,
            moved: 0,
        }
    }

    fn random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }

    fn advance(&mut self) {
        self.now += TICK;
        let jitter = 0.8 + (self.random() % 400) as f64 / 1000.0;
        for wire in &mut self.wires {
            let mut budget = wire.speed * TICK.as_secs_f64() * jitter;
            while let Some(head) = wire.queue.front().copied() {
                if wire.left > budget {
                    wire.left -= budget;
                    break;
                }
                budget -= wire.left;
                wire.queue.pop_front();
                wire.measured.completed(self.now, head);
                self.moved += head;
                wire.left = wire.queue.front().map_or(0.0, |next| *next as f64);
            }
        }
    }

    fn lanes(&self) -> Vec<SprayLane> {
        let lane = |wire: &Wire| {
            let bandwidth = wire.measured.bytes_per_second(self.now);
            let window = window_bytes(bandwidth, WINDOW_TIME, WINDOW_BYTES_MIN, WINDOW_BYTES_MAX);
            SprayLane {
                in_flight: wire.measured.in_flight(),
                bandwidth,
                weight: 1.0,
                has_room: wire.measured.in_flight() < window,
            }
        };
        self.wires.iter().map(lane).collect()
    }

    /// Moves `total` bytes in requests of `request` bytes, `depth` at a time; returns bytes per
    /// second.
    fn run(&mut self, total: u64, request: u64, depth: u64) -> f64 {
        let began = (self.now, self.moved);
        let slice = slice_bytes(request, self.wires.len(), 1 << 30, None);
        let mut bound = 0;
        while self.moved - began.1 < total {
            // A request is replaced only when it is complete, so at most `depth` of them are open.
            let opened = ((self.moved - began.1) / request + depth) * request;
            while bound < opened.min(total) {
                let backlog = opened.min(total) - bound;
                let SprayChoice::Take(index) = choose(&self.lanes(), slice, backlog) else {
                    break;
                };
                let wire = &mut self.wires[index];
                wire.measured.posted(self.now, slice);
                if wire.queue.is_empty() {
                    wire.left = slice as f64;
                }
                wire.queue.push_back(slice);
                bound += slice;
            }
            self.advance();
        }
        total as f64 / (self.now - began.0).as_secs_f64()
    }
}

const TOTAL: u64 = 768 << 20;

#[test]
fn a_rail_throttled_to_a_quarter_does_not_pull_the_sum_below_what_the_rails_give_alone() {
    for seed in 1..=8 {
        for (request, depth) in [(1 << 20, 4), (1 << 20, 16), (16 << 20, 4), (64 << 20, 1)] {
            let fast = 3e9;
            let mut both = Simulation::new(&[fast, fast], 12.5e9, seed);
            both.run(TOTAL / 4, request, depth);
            both.wires[1].speed = fast / 4.0;
            let sum = both.run(TOTAL, request, depth);
            let alone = fast * 1.25;
            assert!(
                sum >= 0.85 * alone,
                "seed {seed}, {depth} requests of {request} bytes: {:.2} of the sum",
                sum / alone
            );
        }
    }
}

#[test]
fn a_rail_that_recovers_is_used_again() {
    for seed in 1..=4 {
        let fast = 3e9;
        let mut both = Simulation::new(&[fast, fast / 4.0], 12.5e9, seed);
        both.run(TOTAL / 4, 1 << 20, 16);
        both.wires[1].speed = fast;
        let sum = both.run(TOTAL, 1 << 20, 16);
        assert!(sum >= 0.85 * 2.0 * fast, "seed {seed}: {:.2}", sum / (2.0 * fast));
    }
}

#[test]
fn eight_uneven_rails_give_most_of_their_sum() {
    let speeds: Vec<f64> = (1..=8).map(|step| f64::from(step) * 5e8).collect();
    let mut all = Simulation::new(&speeds, 12.5e9, 7);
    all.run(TOTAL / 4, 4 << 20, 16);
    let sum = all.run(TOTAL, 4 << 20, 16);
    let alone: f64 = speeds.iter().sum();
    assert!(sum >= 0.85 * alone, "{:.2} of the sum", sum / alone);
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = |seed| Simulation::new(&[2e9, 1e9], 1e9, seed).run(64 << 20, 1 << 20, 4);
    assert_eq!(run(5).to_bits(), run(5).to_bits());
    assert_ne!(run(5).to_bits(), run(6).to_bits());
}
