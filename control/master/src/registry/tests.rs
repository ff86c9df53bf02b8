//! Facts about clients and segments, one test each.
//! Invariant: every test states in its name what holds.

mod confirm;
mod drains;
mod holdings;
mod tasks;

use std::ops::{Deref, DerefMut};

use perigee_schemas::Status;

use super::*;

fn spec(id: u128, client: u128) -> SegmentSpec {
    SegmentSpec {
        name: "host-a:12345".to_owned(),
        endpoint: format!("host-a:{}", 1000 + client),
        host_id: "host-a".to_owned(),
        ..SegmentSpec::bare(id, client, 1 << 20)
    }
}

/// A registry whose records are checked at the end, and before each call while it has few segments.
struct Checked(Registry);

impl Deref for Checked {
    type Target = Registry;

    fn deref(&self) -> &Registry {
        &self.0
    }
}

impl DerefMut for Checked {
    fn deref_mut(&mut self) -> &mut Registry {
        if self.0.segments.len() <= 64 {
            self.0.check();
        }
        &mut self.0
    }
}

impl Drop for Checked {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.0.check();
        }
    }
}

fn registry() -> Checked {
    registry_with(RegistrySettings { client_ttl_ms: 100, ..RegistrySettings::default() })
}

fn registry_with(settings: RegistrySettings) -> Checked {
    Checked(Registry::new(settings))
}

fn unmounted(registry: &mut Registry) -> Vec<u32> {
    let events = registry.take_events().into_iter();
    let unmounted = events.filter_map(|event| match event {
        SegmentEvent::Unmounted { index } => Some(index),
        _ => None,
    });
    unmounted.collect()
}

#[test]
fn mounting_the_same_segment_again_changes_nothing() {
    let mut registry = registry();
    assert_eq!(registry.mount(0, spec(1, 7)), Ok(0));
    assert_eq!(registry.mount(0, spec(1, 7)), Ok(0));
    assert_eq!(registry.take_events().len(), 1);
    assert_eq!(registry.mount(0, spec(1, 8)), Err(Status::UnavailableInCurrentStatus));
}

#[test]
fn a_segment_without_bytes_is_refused() {
    let empty = SegmentSpec { bytes: 0, ..spec(1, 7) };
    assert_eq!(registry().mount(0, empty), Err(Status::InvalidParams));
}

#[test]
fn two_live_clients_of_one_name_are_both_fine() {
    let mut registry = registry();
    assert_eq!(registry.mount(0, spec(1, 7)), Ok(0));
    assert_eq!(registry.mount(0, spec(2, 8)), Ok(1));
    assert_eq!(registry.segments_by_name("host-a:12345").count(), 2);
}

#[test]
fn a_restarted_client_at_the_same_endpoint_replaces_its_predecessor() {
    let mut registry = registry();
    registry.mount(0, spec(1, 7)).unwrap();
    let mut restarted = spec(2, 8);
    restarted.endpoint = spec(1, 7).endpoint;
    assert_eq!(registry.mount(0, restarted), Ok(1));
    assert_eq!(unmounted(&mut registry), [0]);
    assert!(!registry.knows(7));
}

#[test]
fn the_same_loopback_endpoint_on_another_host_is_another_client() {
    let mut registry = registry();
    registry.mount(0, spec(1, 7)).unwrap();
    let mut elsewhere = spec(2, 8);
    elsewhere.endpoint = spec(1, 7).endpoint;
    elsewhere.host_id = "host-b".to_owned();
    registry.mount(0, elsewhere).unwrap();
    assert_eq!(registry.segments().count(), 2);
}

#[test]
fn a_silent_client_expires_with_its_segments_and_must_mount_again() {
    let mut registry = registry();
    registry.mount(0, spec(1, 7)).unwrap();
    assert_eq!(registry.ping(100, 7), ClientState::Ok);
    assert!(registry.tick(200).is_empty());
    assert_eq!(registry.tick(201), [7]);
    assert_eq!(unmounted(&mut registry), [0]);
    assert_eq!(registry.ping(202, 7), ClientState::NeedRemount);
    assert_eq!(registry.remount(203, 7, [spec(1, 7)]), Ok(vec![Ok(1)]));
    assert_eq!(registry.ping(204, 7), ClientState::Ok);
}

/// A registry whose only client, 7, was heard at the time 0, and which was stopped from then on
/// until `HOUR_MS`.
fn paused_registry() -> Checked {
    let mut registry = registry_with(RegistrySettings {
        client_ttl_ms: 2 * ATTENTION_MS,
        ..RegistrySettings::default()
    });
    registry.mount(0, spec(1, 7)).unwrap();
    registry
}

const HOUR_MS: u64 = 60 * 60 * 1000;

#[test]
fn a_pause_of_the_master_is_not_the_silence_of_its_clients() {
    let mut registry = paused_registry();
    assert!(registry.tick(HOUR_MS).is_empty());
    assert_eq!(registry.ping(HOUR_MS + 1, 7), ClientState::Ok);
}

#[test]
fn a_client_that_stays_silent_after_a_pause_of_the_master_expires() {
    let mut registry = paused_registry();
    assert!(registry.tick(HOUR_MS).is_empty());
    assert!(registry.tick(HOUR_MS + ATTENTION_MS).is_empty());
    assert_eq!(registry.tick(HOUR_MS + ATTENTION_MS + 1), [7]);
}

#[test]
fn a_pause_that_a_sign_of_life_ends_gives_that_client_no_longer_life() {
    let mut registry = paused_registry();
    assert_eq!(registry.ping(HOUR_MS, 7), ClientState::Ok);
    let silent = |registry: &mut Registry, ms| registry.tick(HOUR_MS + ms);
    assert!(silent(&mut registry, ATTENTION_MS).is_empty());
    assert!(silent(&mut registry, 2 * ATTENTION_MS).is_empty());
    assert_eq!(silent(&mut registry, 2 * ATTENTION_MS + 1), [7]);
}

#[test]
fn clients_of_a_master_that_is_always_late_expire_all_the_same() {
    let mut registry = paused_registry();
    let late = (1..).map(|turn| turn * 10 * ATTENTION_MS);
    let mut turns = late.map(|now_ms| registry.tick(now_ms)).take(4);
    assert_eq!(turns.find(|gone| !gone.is_empty()), Some(vec![7]));
}

#[test]
fn the_grace_of_an_unmount_runs_while_the_master_is_stopped() {
    let mut registry = paused_registry();
    assert_eq!(registry.drain(0, 7, 1, HOUR_MS), Ok(()));
    registry.take_events();
    registry.tick(HOUR_MS);
    assert_eq!(unmounted(&mut registry), [0]);
}

#[test]
fn a_client_without_segments_becomes_known_by_remounting_none() {
    let mut registry = registry();
    assert_eq!(registry.ping(0, 9), ClientState::NeedRemount);
    assert_eq!(registry.remount(0, 9, []), Ok(Vec::new()));
    assert_eq!(registry.ping(1, 9), ClientState::Ok);
    assert_eq!(registry.client_count(), 1);
}

#[test]
fn a_client_cannot_remount_or_unmount_for_another() {
    let mut registry = registry();
    assert_eq!(registry.remount(0, 9, [spec(1, 7)]), Ok(vec![Err(Status::IllegalClient)]));
    registry.mount(0, spec(1, 7)).unwrap();
    assert_eq!(registry.unmount(0, 9, 1), Err(Status::IllegalClient));
    assert_eq!(registry.unmount(0, 7, 2), Err(Status::SegmentNotFound));
    assert_eq!(registry.unmount(0, 7, 1), Ok(()));
    assert_eq!(registry.segments().count(), 0);
}

#[test]
fn a_graceful_unmount_ends_at_its_deadline() {
    let mut registry = registry();
    registry.mount(0, spec(1, 7)).unwrap();
    registry.take_events();
    assert_eq!(registry.drain(0, 7, 1, 50), Ok(()));
    assert_eq!(registry.take_events(), [SegmentEvent::Draining { index: 0 }]);
    let state = registry.segment(0).map(|view| view.state);
    assert_eq!(state, Some(SegmentState::GracefullyUnmounting));
    assert_eq!(registry.mount(10, spec(1, 7)), Err(Status::UnavailableInCurrentStatus));
    assert_eq!(registry.drain(10, 7, 1, 1000), Ok(()));
    registry.tick(49);
    assert!(registry.take_events().is_empty());
    registry.tick(50);
    assert_eq!(unmounted(&mut registry), [0]);
}

#[test]
fn a_number_is_never_given_to_a_second_segment() {
    let mut registry = registry();
    for round in 0..5 {
        assert_eq!(registry.mount(0, spec(1, 7)), Ok(round));
        registry.unmount(0, 7, 1).unwrap();
    }
}

#[test]
fn a_client_that_leaves_takes_its_segments_along() {
    let mut registry = registry();
    registry.mount(0, spec(1, 7)).unwrap();
    registry.mount(0, spec(2, 7)).unwrap();
    assert!(registry.leave(1, 7));
    assert_eq!(unmounted(&mut registry), [0, 1]);
    assert!(!registry.leave(2, 7));
}
