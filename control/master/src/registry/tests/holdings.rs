//! Facts about clients' lists of what they lend.

use super::{registry, spec, unmounted};
use crate::registry::{ClientState, ListedSegments, Registry};
use crate::segment::SegmentEvent;
use perigee_allocator::Extent;

/// Client 7 mounts a segment by a request of this number.
fn mount(registry: &mut Registry, id: u128, number: u64) {
    registry.mount(0, spec(id, 7)).unwrap();
    registry.number_mounts(7, &[id], number);
}

fn agree(registry: &mut Registry, segments: &[u128], mounts: u64) -> ClientState {
    let holdings = ListedSegments { segments, usable_bytes: &[], unbacked: &[], mounts };
    registry.agree(7, &holdings)
}

#[test]
fn a_mount_that_its_client_has_given_up_is_undone_by_the_next_list() {
    let mut registry = registry();
    mount(&mut registry, 1, 1);
    mount(&mut registry, 2, 2);
    assert_eq!(agree(&mut registry, &[1], 2), ClientState::Ok);
    assert_eq!(unmounted(&mut registry), [1]);
    assert_eq!(agree(&mut registry, &[1], 2), ClientState::Ok);
    assert!(registry.take_events().is_empty());
}

#[test]
fn a_list_says_nothing_about_mounts_that_its_client_began_later() {
    let mut registry = registry();
    mount(&mut registry, 1, 1);
    mount(&mut registry, 2, 2);
    assert_eq!(agree(&mut registry, &[1], 1), ClientState::Ok);
    assert_eq!(registry.segments().count(), 2);
}

#[test]
fn a_client_whose_segments_are_not_all_mounted_must_mount_again() {
    let mut registry = registry();
    mount(&mut registry, 3, 3);
    assert_eq!(agree(&mut registry, &[1, 2, 3], 3), ClientState::NeedRemount);
    let again = [1, 2, 3].map(|id| spec(id, 7));
    assert!(registry.remount(0, 7, again).is_ok());
    registry.number_mounts(7, &[1, 2, 3], 4);
    assert_eq!(agree(&mut registry, &[1, 2, 3], 4), ClientState::Ok);
    assert_eq!(registry.segments().count(), 3);
}

#[test]
fn a_segment_with_a_running_grace_needs_no_place_in_the_list() {
    let mut registry = registry();
    mount(&mut registry, 1, 1);
    registry.drain(0, 7, 1, 50).unwrap();
    assert_eq!(agree(&mut registry, &[], 1), ClientState::Ok);
    assert_eq!(registry.segments().count(), 1);
}

#[test]
fn segments_of_clients_that_do_not_number_their_mounts_stay() {
    let mut registry = registry();
    mount(&mut registry, 1, 0);
    assert_eq!(agree(&mut registry, &[], 5), ClientState::Ok);
    assert_eq!(registry.segments().count(), 1);
}

#[test]
fn the_list_of_one_client_says_nothing_about_another() {
    let mut registry = registry();
    mount(&mut registry, 1, 1);
    registry.mount(0, spec(2, 8)).unwrap();
    registry.number_mounts(8, &[1, 2], 9);
    assert_eq!(agree(&mut registry, &[1], 9), ClientState::Ok);
    assert_eq!(registry.segments().count(), 2);
}

#[test]
fn a_client_that_is_not_known_must_mount_again_whatever_it_lists() {
    assert_eq!(agree(&mut registry(), &[], 1), ClientState::NeedRemount);
}

#[test]
fn shards_hear_of_ranges_without_memory_that_lie_in_the_segment_and_in_order() {
    let mut registry = registry();
    mount(&mut registry, 1, 1);
    let whole = registry.segments().next().map_or(0, |mounted| mounted.spec.bytes);
    registry.take_events();
    let mut heard = |unbacked: &[(u32, Extent)]| {
        let usable_bytes = &[whole];
        let holdings = ListedSegments { segments: &[1], usable_bytes, unbacked, mounts: 1 };
        registry.agree(7, &holdings);
        registry.take_events()
    };
    let (low, high) = (Extent::new(0, 10), Extent::new(whole - 10, 10));
    let lacks = |ranges: &[Extent]| [SegmentEvent::Unbacked { index: 0, ranges: ranges.into() }];
    assert_eq!(heard(&[(0, low), (0, high), (1, Extent::new(20, 1))]), lacks(&[low, high]));
    assert_eq!(heard(&[(0, low), (0, high)]), []);
    let odd = [Extent::new(5, 10), Extent::new(20, 0), Extent::new(u64::MAX, 2)];
    let odd = odd.into_iter().chain([Extent::new(whole - 1, 2), high]).map(|range| (0, range));
    assert_eq!(heard(&[(0, low)].into_iter().chain(odd).collect::<Vec<_>>()), []);
    assert_eq!(heard(&[]), lacks(&[]));
}

#[test]
fn shards_hear_of_memory_that_an_owner_lacks_when_that_changes() {
    let mut registry = registry();
    mount(&mut registry, 1, 1);
    registry.take_events();
    let mut heard = |usable_bytes: &[u64]| {
        let holdings = ListedSegments { segments: &[1], usable_bytes, unbacked: &[], mounts: 1 };
        registry.agree(7, &holdings);
        registry.take_events()
    };
    let usable = |bytes| [SegmentEvent::Usable { index: 0, bytes }];
    assert_eq!(heard(&[u64::MAX]), []);
    assert_eq!(heard(&[1]), usable(1));
    assert_eq!(heard(&[1]), []);
    assert_eq!(heard(&[]).len(), 1, "all of it again");
}
