//! A few seeds of every scenario on every run, and the seeds that once found something.
//! Invariant: what fails here fails again from the printed seed.
#![expect(clippy::panic, reason = "a broken promise fails its test with the seed")]

use perigee_simulation::scenario::{Scenario, Tally};

/// Seeds from which a scenario is played.
const SEEDS: u64 = 40;
/// The same of one that plays what another one plays already, and more.
const SEEDS_OF_MORE: u64 = 12;

fn assert_promises_are_kept(scenario: Scenario, seeds: u64) {
    let mut calls = Tally::default();
    for seed in 0..seeds {
        match scenario.play(seed) {
            Ok(report) => calls.add(report.calls),
            Err(failure) => panic!("{failure}"),
        }
    }
    let all_happened = calls.done > 0 && calls.failed > 0 && calls.faults > 0;
    assert!(all_happened, "Something never happened: {calls:?}");
}

#[test]
fn transfers_keep_their_promises_whatever_happens() {
    assert_promises_are_kept(Scenario::Transfer, SEEDS);
}

#[test]
fn engines_keep_their_promises_whatever_happens() {
    assert_promises_are_kept(Scenario::Engine, SEEDS);
}

#[test]
fn a_disk_keeps_its_promises_whatever_happens() {
    assert_promises_are_kept(Scenario::Disk, SEEDS);
}

#[test]
fn a_store_keeps_its_promises_whatever_happens() {
    assert_promises_are_kept(Scenario::Store, SEEDS);
}

#[test]
fn a_store_with_quotas_of_tenants_keeps_its_promises_whatever_happens() {
    assert_promises_are_kept(Scenario::Tenants, SEEDS_OF_MORE);
}

/// An order that was taken back while its worker connected: the worker kept later slices waiting
/// (151), or left its connection open for as long as a peer without power is silent.
const CANCELED_WHILE_CONNECTING: [u64; 4] = [151, 3829, 4184, 10507];

/// A lease that was given back after a restart of the master and ended another reader's (143), a
/// drain that did not wait for what an owner had still to announce (2139), a copy that was not
/// listed because it was written after its tombstone into the same segment (2269), generations that
/// an earlier life in the same epoch had given (638), a copy that was not believed although the
/// master's record named it (2354).
const AFTER_A_RESTART: [u64; 5] = [143, 638, 2139, 2269, 2354];

#[test]
fn stores_keep_their_promises_where_they_once_did_not() {
    for seed in AFTER_A_RESTART {
        if let Err(failure) = Scenario::Store.play(seed) {
            panic!("{failure}");
        }
    }
}

/// An object that the disk's queue had no room for when it was put, which nothing copied later, so
/// that its tenant's quota stayed full.
const WITH_A_FULL_QUOTA: u64 = 70;

#[test]
fn tenants_keep_their_promises_where_they_once_did_not() {
    if let Err(failure) = Scenario::Tenants.play(WITH_A_FULL_QUOTA) {
        panic!("{failure}");
    }
}

#[test]
fn engines_keep_their_promises_where_they_once_did_not() {
    for seed in CANCELED_WHILE_CONNECTING {
        if let Err(failure) = Scenario::Engine.play(seed) {
            panic!("{failure}");
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_one_another() {
    for scenario in Scenario::ALL {
        let reports = [7, 7, 8].map(|seed| scenario.play(seed).unwrap());
        assert_eq!(reports[0], reports[1], "{scenario:?}");
        assert_ne!(reports[0].hash, reports[2].hash, "{scenario:?}");
    }
}
