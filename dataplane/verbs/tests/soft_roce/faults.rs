//! Rails and peers that go away: everything ends, and says why.

use std::time::{Duration, Instant};

use perigee_verbs::{CompletionStatus, ConnectOptions, Device, DeviceEvent};

use crate::end::{LONG, guest, host, rail, readable};

/// Waits for one event among others.
fn wait_for(device: &dyn Device, wanted: DeviceEvent) {
    let end = Instant::now() + LONG;
    let mut seen = Vec::new();
    while Instant::now() < end {
        readable(device.event_fd(), Duration::from_millis(200));
        while let Some(event) = device.take_event().unwrap() {
            if event == wanted {
                return;
            }
            seen.push(event);
        }
    }
    unreachable!("{wanted:?} did not come, but {seen:?}");
}

#[test]
fn a_link_that_goes_down_and_up_is_announced() {
    let Some(host) = guest() else { return };
    let (mut a, mut b) = host.joined();
    assert_eq!(a.write(&b, 64), CompletionStatus::Success);
    rail(&["down", "1"]);
    wait_for(a.device.as_ref(), DeviceEvent::PortDown { port: 1 });
    assert!(!a.device.port_active().unwrap());
    // The device flushes, or the retries end: either way it is over.
    assert!(!a.write(&b, 64).is_success());
    rail(&["up", "1"]);
    wait_for(a.device.as_ref(), DeviceEvent::PortUp { port: 1 });
    a.renew();
    b.renew();
    crate::end::join(&mut a, &mut b);
    assert_eq!(a.write(&b, 64), CompletionStatus::Success);
}

#[test]
fn a_rail_that_is_cut_in_silence_ends_the_work_after_its_retries() {
    let Some(host) = guest() else { return };
    let (mut a, mut b) = host.joined();
    assert_eq!(a.write(&b, 64), CompletionStatus::Success);
    rail(&["cut", "1"]);
    let status = a.write(&b, 64);
    rail(&["join", "1"]);
    assert_eq!(status, CompletionStatus::RetryExceeded);
    a.renew();
    b.renew();
    crate::end::join(&mut a, &mut b);
    assert_eq!(a.write(&b, 4096), CompletionStatus::Success);
}

#[test]
fn a_peer_whose_queue_pair_is_gone_is_not_waited_for() {
    let Some(host) = host() else { return };
    let (mut a, b) = host.joined();
    assert_eq!(a.write(&b, 64), CompletionStatus::Success);
    let crate::end::End { pair, .. } = b;
    drop(pair);
    let other = host.end(0);
    assert_eq!(a.write(&other, 64), CompletionStatus::RetryExceeded);
}

#[test]
fn lost_packets_are_sent_again_by_the_device() {
    let Some(host) = guest() else { return };
    let (mut a, mut b) = (host.end(1), host.end(0));
    let patient = ConnectOptions { timeout_exponent: 16, ..ConnectOptions::default() };
    crate::end::join_with(&mut a, &mut b, &patient);
    a.fill(crate::end::pattern);
    b.fill(|_| 0);
    rail(&["loss", "1", "2"]);
    let status = a.write(&b, 256 << 10);
    rail(&["clear", "1"]);
    assert_eq!(status, CompletionStatus::Success);
    assert_eq!(b.bytes(0, 256 << 10), a.bytes(0, 256 << 10));
}

#[test]
fn a_slow_link_takes_its_time_and_loses_nothing() {
    let Some(host) = guest() else { return };
    let (mut a, b) = host.joined();
    let delay = Duration::from_millis(40);
    rail(&["delay", "1", "40ms"]);
    let started = Instant::now();
    let status = a.write(&b, 4096);
    let taken = started.elapsed();
    rail(&["clear", "1"]);
    assert_eq!(status, CompletionStatus::Success);
    assert!(taken >= delay, "{taken:?}");
}
