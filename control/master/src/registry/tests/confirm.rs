//! Facts about owners that must answer, and about what one client may mount.

use super::*;
use crate::limits::{
    CONFIRM_PAUSE_MS, SEGMENTS_PER_ADDRESS_MAX, SEGMENTS_PER_CLIENT_MAX, SEGMENTS_UNCONFIRMED_MAX,
};
use perigee_schemas::limits::{SEGMENT_BYTES_MAX, SEGMENT_TEXT_BYTES_MAX};
use std::net::{IpAddr, Ipv4Addr};

fn asking() -> Checked {
    Checked(Registry::new(RegistrySettings { confirms: true, ..RegistrySettings::default() }))
}

fn state(registry: &Registry, index: u32) -> Option<SegmentState> {
    registry.segment(index).map(|view| view.state)
}

fn address(number: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 0, 0, number))
}

#[test]
fn a_segment_takes_objects_only_after_its_owner_has_answered() {
    let mut registry = asking();
    registry.mount(0, spec(1, 7)).unwrap();
    let events = registry.take_events();
    assert_eq!(events.last(), Some(&SegmentEvent::Draining { index: 0 }));
    assert_eq!(state(&registry, 0), Some(SegmentState::Unconfirmed));
    let asked = registry.segment_to_ask(0, 7).unwrap();
    assert_eq!(registry.segment_to_ask(1, 7), None, "it was asked just now");
    assert_eq!(registry.segment_to_ask(CONFIRM_PAUSE_MS, 7), Some(asked.clone()));
    registry.confirm(CONFIRM_PAUSE_MS, 7, asked.id);
    assert_eq!(registry.take_events(), [SegmentEvent::Resumed { index: 0 }]);
    assert_eq!(state(&registry, 0), Some(SegmentState::Ok));
    assert_eq!(registry.segment_to_ask(100_000, 7), None);
}

#[test]
fn a_client_at_an_endpoint_makes_way_only_for_one_that_has_answered_there() {
    let mut registry = asking();
    registry.mount(0, spec(1, 7)).unwrap();
    registry.confirm(0, 7, 1);
    let mut stranger = spec(2, 8);
    stranger.endpoint = spec(1, 7).endpoint;
    registry.mount(0, stranger).unwrap();
    assert!(registry.knows(7), "the endpoint's listener is still 7");
    assert_eq!(state(&registry, 0), Some(SegmentState::Ok));
    registry.confirm(0, 8, 2);
    assert!(!registry.knows(7));
    assert_eq!(unmounted(&mut registry), [0]);
}

#[test]
fn an_answer_for_one_segment_says_nothing_of_another() {
    let mut registry = asking();
    registry.mount(0, spec(1, 7)).unwrap();
    registry.mount(0, spec(2, 7)).unwrap();
    assert_eq!(registry.segment_to_ask(0, 7).unwrap().id, 1);
    assert_eq!(registry.segment_to_ask(0, 7).unwrap().id, 2);
    assert_eq!(registry.segment_to_ask(0, 7), None);
    registry.confirm(0, 8, 1);
    registry.confirm(0, 7, 2);
    assert_eq!(state(&registry, 0), Some(SegmentState::Unconfirmed));
    assert_eq!(state(&registry, 1), Some(SegmentState::Ok));
}

#[test]
fn segments_without_an_answer_keep_no_other_one_waiting() {
    let mut registry = asking();
    for id in 1..=3 {
        registry.mount(0, spec(id, 7)).unwrap();
    }
    // One at a time, each when the first of them may be asked about again.
    let asked = (0..6).map(|turn| {
        let now_ms = turn * CONFIRM_PAUSE_MS;
        registry.segment_to_ask(now_ms, 7).unwrap().id
    });
    assert_eq!(asked.collect::<Vec<_>>(), [1, 2, 3, 1, 2, 3]);
}

#[test]
fn forged_segments_make_way_for_others() {
    let mut registry = asking();
    for client in 0..SEGMENTS_MAX as u128 + 10 {
        registry.mount(0, spec(client, client)).unwrap();
    }
    assert_eq!(registry.segments().count(), SEGMENTS_UNCONFIRMED_MAX);
    registry.mount(0, spec(1 << 64, 1 << 64)).unwrap();
    registry.confirm(0, 1 << 64, 1 << 64);
    let confirmed = registry.segment_by_id(1 << 64).map(|view| view.state);
    assert_eq!(confirmed, Some(SegmentState::Ok));
}

#[test]
fn one_client_and_one_address_have_a_share_of_the_segments() {
    let mut registry = registry();
    let mut mounted = 0;
    for client in 0..4u128 {
        registry.arrive(0, client, address(1)).unwrap();
        let ids = (0..=SEGMENTS_PER_CLIENT_MAX as u128).map(|id| client << 32 | id);
        let results = ids.map(|id| registry.mount(0, spec(id, client)));
        let own = results.filter(Result::is_ok).count();
        assert!(own <= SEGMENTS_PER_CLIENT_MAX, "client {client}");
        mounted += own;
    }
    assert_eq!(mounted, SEGMENTS_PER_ADDRESS_MAX);
    registry.arrive(0, 9, address(2)).unwrap();
    assert!(registry.mount(0, spec(1 << 64, 9)).is_ok(), "another address has its own share");
}

#[test]
fn segments_of_more_bytes_than_any_host_has_are_refused_and_no_sum_wraps() {
    let mut registry = registry();
    let sized = |id, bytes| SegmentSpec { bytes, ..spec(id, 7) };
    for bytes in [u64::MAX, 1 << 63, SEGMENT_BYTES_MAX + 1] {
        assert_eq!(registry.mount(0, sized(1, bytes)), Err(Status::InvalidParams));
    }
    assert!(registry.mount(0, sized(1, SEGMENT_BYTES_MAX)).is_ok());
}

#[test]
fn texts_of_a_segment_are_short() {
    let mut registry = registry();
    let long = "n".repeat(SEGMENT_TEXT_BYTES_MAX + 1);
    let lengthen: [fn(&mut SegmentSpec) -> &mut String; 5] = [
        |spec| &mut spec.name,
        |spec| &mut spec.endpoint,
        |spec| &mut spec.host_id,
        |spec| &mut spec.rendezvous,
        |spec| &mut spec.protocol,
    ];
    for text in lengthen {
        let mut forged = spec(1, 7);
        text(&mut forged).clone_from(&long);
        assert_eq!(registry.mount(0, forged.clone()), Err(Status::InvalidParams));
        text(&mut forged).pop();
        assert!(registry.mount(0, forged).is_ok());
        registry.unmount(0, 7, 1).unwrap();
    }
}
