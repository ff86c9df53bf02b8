//! Each fault that can be planned, as the user of a queue pair sees it.

use std::time::Duration;

use super::bench::{End, PAST_RETRIES, end, join, joined, request};
use crate::device::{Device, DeviceEvent};
use crate::error::VerbsError;
use crate::pair_state::QueuePairState;
use crate::queue::QueuePairOptions;
use crate::region::RegionAccess;
use crate::software::{Clock, DevicePlan, SoftwareNetwork};
use crate::work::CompletionStatus::{Flushed, RemoteAccess, RetryExceeded, Success};
use crate::work::WorkOperation;

fn write_three(a: &mut End, b: &End) {
    for id in 1..=3 {
        a.write(id, b.region.as_ref(), 64);
    }
}

fn events(device: &dyn Device) -> Vec<DeviceEvent> {
    std::iter::from_fn(|| device.take_event().unwrap()).collect()
}

#[test]
fn a_dropped_request_ends_as_no_answer_after_all_retries_and_flushes_the_rest() {
    let (network, mut a, b) = joined(Clock::Manual);
    network.faults("a", "sw0").unwrap().drop_next(1);
    write_three(&mut a, &b);
    // One attempt and two retries of 67 ms.
    network.advance(Duration::from_millis(190));
    assert_eq!(a.ended(), []);
    network.advance(Duration::from_millis(20));
    assert_eq!(a.ended(), [(1, RetryExceeded), (2, Flushed), (3, Flushed)]);
    assert_eq!(a.pair.state().unwrap(), QueuePairState::Failed);
    assert_eq!(b.byte(0), 0);
}

#[test]
fn a_stranded_write_lands_while_its_target_queue_pair_lives() {
    for fenced in [false, true] {
        let (network, mut a, mut b) = joined(Clock::Manual);
        let late = Some(Duration::from_secs(1));
        network.faults("a", "sw0").unwrap().strand(late);
        a.fill(7);
        write_three(&mut a, &b);
        network.advance(PAST_RETRIES);
        assert_eq!(a.ended()[0], (1, RetryExceeded));
        drop(a);
        if fenced {
            b.pair.fail().unwrap();
        }
        assert_eq!(b.byte(0), 0);
        network.advance(Duration::from_secs(1));
        assert_eq!(b.byte(0), if fenced { 0 } else { 7 });
    }
}

#[test]
fn a_packet_that_comes_twice_or_out_of_turn_is_dropped() {
    let (network, mut a, b) = joined(Clock::Manual);
    let faults = network.faults("a", "sw0").unwrap();
    a.fill(1);
    a.write(1, b.region.as_ref(), 64);
    assert_eq!(a.ended(), [(1, Success)]);
    // The first of the next two never comes, so the second is not taken either.
    faults.drop_next(1);
    a.fill(2);
    a.write(2, b.region.as_ref(), 64);
    faults.strand(Some(Duration::from_millis(1)));
    a.write(3, b.region.as_ref(), 64);
    network.advance(PAST_RETRIES);
    assert_eq!(b.byte(0), 1);
}

#[test]
fn lost_attempts_are_retried_and_later_requests_wait_their_turn() {
    let (network, mut a, b) = joined(Clock::Manual);
    network.faults("a", "sw0").unwrap().drop_attempts(2);
    write_three(&mut a, &b);
    assert_eq!(a.ended(), []);
    network.advance(Duration::from_millis(140));
    assert_eq!(a.ended(), [(1, Success), (2, Success), (3, Success)]);
}

#[test]
fn a_duplicate_completion_carries_the_same_id() {
    let (network, mut a, b) = joined(Clock::Manual);
    network.faults("a", "sw0").unwrap().duplicate_next(1);
    write_three(&mut a, &b);
    assert_eq!(a.ended(), [(1, Success), (1, Success), (2, Success), (3, Success)]);
}

#[test]
fn a_flush_fails_the_queue_pair_without_a_cause() {
    let (network, mut a, b) = joined(Clock::Manual);
    network.faults("a", "sw0").unwrap().flush_next(1);
    write_three(&mut a, &b);
    assert_eq!(a.ended(), [(1, Flushed), (2, Flushed), (3, Flushed)]);
    assert_eq!(a.pair.state().unwrap(), QueuePairState::Failed);
}

#[test]
fn a_corrupted_key_is_refused_by_the_peer() {
    let (network, mut a, b) = joined(Clock::Manual);
    network.faults("a", "sw0").unwrap().corrupt_keys(1);
    write_three(&mut a, &b);
    assert_eq!(a.ended(), [(1, RemoteAccess), (2, Flushed), (3, Flushed)]);
}

#[test]
fn a_link_that_returns_in_time_loses_nothing() {
    let (network, mut a, b) = joined(Clock::Manual);
    let faults = network.faults("b", "sw0").unwrap();
    faults.down();
    assert!(!b.device.port_active().unwrap());
    write_three(&mut a, &b);
    network.advance(Duration::from_millis(100));
    assert_eq!(a.ended(), []);
    faults.up();
    network.advance(Duration::from_millis(100));
    assert_eq!(a.ended(), [(1, Success), (2, Success), (3, Success)]);
    let expected = [DeviceEvent::PortDown { port: 1 }, DeviceEvent::PortUp { port: 1 }];
    assert_eq!(events(b.device.as_ref()), expected);
    assert_eq!(events(a.device.as_ref()), []);
}

#[test]
fn a_link_that_stays_down_ends_the_work() {
    let (network, mut a, b) = joined(Clock::Manual);
    network.faults("a", "sw0").unwrap().down();
    write_three(&mut a, &b);
    network.advance(PAST_RETRIES);
    assert_eq!(a.ended(), [(1, RetryExceeded), (2, Flushed), (3, Flushed)]);
}

#[test]
fn a_cut_wire_parts_two_devices_and_no_others() {
    let network = SoftwareNetwork::new(Clock::Manual).unwrap();
    let plans = [DevicePlan::new("sw0"), DevicePlan::new("sw1")];
    let left = network.host("a", &plans).unwrap();
    let right = network.host("b", &plans).unwrap();
    network.cut(("a", "sw0"), ("b", "sw0")).unwrap();
    let mut results = Vec::new();
    for device in ["sw0", "sw1"] {
        let (mut a, mut b) = (end(left.as_ref(), "sw0"), end(right.as_ref(), device));
        join(&mut a, &mut b);
        a.write(1, b.region.as_ref(), 8);
        network.advance(PAST_RETRIES);
        results.push(a.ended()[0].1);
    }
    assert_eq!(results, [RetryExceeded, Success]);
    network.mend(("a", "sw0"), ("b", "sw0")).unwrap();
    let (mut a, mut b) = (end(left.as_ref(), "sw0"), end(right.as_ref(), "sw0"));
    join(&mut a, &mut b);
    a.write(1, b.region.as_ref(), 8);
    assert_eq!(a.ended(), [(1, Success)]);
}

#[test]
fn refused_memory_is_typed_and_over_after_the_count() {
    let (network, a, _b) = joined(Clock::Manual);
    let faults = network.faults("a", "sw0").unwrap();
    faults.refuse_registrations(1);
    let address = a.buffer.base() as u64;
    for refused in [true, false] {
        // SAFETY: the region is dropped at once.
        let region = unsafe { a.device.register(address, 64, RegionAccess::ALL) };
        assert_eq!(matches!(region, Err(VerbsError::OutOfMemory { .. })), refused);
    }
    faults.refuse_queue_pairs(1);
    for refused in [true, false] {
        let pair = a.queue.queue_pair(&QueuePairOptions::default());
        assert_eq!(matches!(pair, Err(VerbsError::OutOfMemory { .. })), refused);
    }
}

#[test]
fn posts_are_refused_one_by_one_and_those_before_are_on_their_way() {
    let (network, mut a, b) = joined(Clock::Manual);
    let faults = network.faults("a", "sw0").unwrap();
    let piece = [a.piece(0, 8)];
    let works = [1, 2].map(|id| request(id, WorkOperation::Write(&piece), b.region.as_ref()));
    faults.refuse_posts(1);
    let refused = a.pair.post(&works).unwrap_err();
    assert_eq!(refused.accepted, 0);
    assert!(matches!(refused.source, VerbsError::Call { .. }));
    a.pair.post(&works[..1]).unwrap();
    faults.report_full(1);
    let refused = a.pair.post(&works[1..]).unwrap_err();
    assert!(matches!(refused.source, VerbsError::QueueFull { .. }));
    a.pair.post(&works[1..]).unwrap();
    assert_eq!(a.ended(), [(1, Success), (2, Success)]);
}

#[test]
fn the_limit_of_queue_pairs_holds_and_dropped_ones_count_no_more() {
    let network = SoftwareNetwork::new(Clock::Manual).unwrap();
    let plan = DevicePlan::new("sw0");
    let mut limits = plan.current_limits();
    limits.queue_pairs = 2;
    let fabric = network.host("a", &[plan.limits(limits)]).unwrap();
    let device = fabric.open("sw0").unwrap();
    let queue = device.completion_queue(8).unwrap();
    let make = || queue.queue_pair(&QueuePairOptions::default());
    let (first, _second) = (make().unwrap(), make().unwrap());
    assert!(matches!(make(), Err(VerbsError::OutOfMemory { .. })));
    drop(first);
    make().unwrap();
}

#[test]
fn after_a_restart_of_the_peer_nothing_old_works() {
    let (network, mut a, mut b) = joined(Clock::Manual);
    network.restart("b");
    write_three(&mut a, &b);
    network.advance(PAST_RETRIES);
    assert_eq!(a.ended(), [(1, RetryExceeded), (2, Flushed), (3, Flushed)]);
    let lost = |error| matches!(error, VerbsError::DeviceLost { .. });
    assert!(lost(b.device.gids().unwrap_err()));
    assert!(lost(b.pair.post(&[]).unwrap_err().source));
    assert!(b.region.revoked());
    let fabric = network.host("b", &[]).unwrap();
    assert!(fabric.open("sw0").unwrap().port_active().unwrap());
}

#[test]
fn a_lost_device_says_so_and_comes_back_empty() {
    let (network, mut a, b) = joined(Clock::Manual);
    let faults = network.faults("a", "sw0").unwrap();
    network.faults("a", "sw0").unwrap().delay(Duration::from_secs(1));
    write_three(&mut a, &b);
    faults.lose();
    assert_eq!(a.ended(), [(1, Flushed), (2, Flushed), (3, Flushed)]);
    assert_eq!(events(a.device.as_ref()), [DeviceEvent::DeviceFatal]);
    let fabric = network.host("a", &[]).unwrap();
    assert_eq!(fabric.devices(), Ok(Vec::new()));
    assert!(matches!(fabric.open("sw0"), Err(VerbsError::DeviceLost { .. })));
    faults.restore();
    assert!(fabric.open("sw0").is_ok());
    assert!(matches!(a.device.gids(), Err(VerbsError::DeviceLost { .. })));
}

#[test]
fn a_queue_pair_can_fail_with_an_event() {
    let (network, a, _b) = joined(Clock::Manual);
    let queue_pair = a.pair.number();
    network.faults("a", "sw0").unwrap().fail_queue_pair(queue_pair);
    let expected = [DeviceEvent::QueuePairFatal { queue_pair }];
    assert_eq!(events(a.device.as_ref()), expected);
    assert_eq!(a.pair.state().unwrap(), QueuePairState::Failed);
}

#[test]
fn a_changed_address_is_announced_and_the_old_one_is_not_reached() {
    let (network, mut a, b) = joined(Clock::Manual);
    let mut gids = b.device.gids().unwrap();
    gids[0].address[15] ^= 1;
    network.faults("b", "sw0").unwrap().change_gids(&gids);
    assert_eq!(events(b.device.as_ref()), [DeviceEvent::GidChange { port: 1 }]);
    a.write(1, b.region.as_ref(), 8);
    network.advance(PAST_RETRIES);
    assert_eq!(a.ended(), [(1, RetryExceeded)]);
}

#[test]
fn the_same_calls_give_the_same_completions() {
    let run = || {
        let (network, mut a, b) = joined(Clock::Manual);
        let faults = network.faults("a", "sw0").unwrap();
        faults.drop_attempts(1);
        faults.duplicate_next(2);
        let mut log = Vec::new();
        for id in 0..20 {
            a.write(id, b.region.as_ref(), 64);
            network.advance(Duration::from_millis(30));
            log.push((network.now(), a.poll()));
        }
        log
    };
    assert_eq!(run(), run());
}
