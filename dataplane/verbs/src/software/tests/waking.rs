//! Descriptors and the real clock.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::bench::{end, join, joined};
use crate::device::DeviceEvent;
use crate::software::{Clock, DevicePlan, SoftwareNetwork};
use crate::work::CompletionStatus::Success;

const LONG: Duration = Duration::from_secs(30);

fn readable(fd: BorrowedFd<'_>, limit: Duration) -> bool {
    let mut fds = [PollFd::new(fd, PollFlags::POLLIN)];
    poll(&mut fds, PollTimeout::try_from(limit).unwrap()).unwrap() == 1
}

#[test]
fn an_armed_queue_wakes_once() {
    let (_network, mut a, b) = joined(Clock::Manual);
    a.write(1, b.region.as_ref(), 8);
    assert_eq!(a.ended(), [(1, Success)]);
    assert!(!readable(a.queue.event_fd(), Duration::ZERO));
    a.queue.arm().unwrap();
    a.write(2, b.region.as_ref(), 8);
    a.write(3, b.region.as_ref(), 8);
    assert_eq!(a.ended(), [(2, Success), (3, Success)]);
    assert!(readable(a.queue.event_fd(), Duration::ZERO));
    assert_eq!(a.queue.drain_events(), Ok(1));
    assert_eq!(a.queue.drain_events(), Ok(0));
    assert!(!readable(a.queue.event_fd(), Duration::ZERO));
}

#[test]
fn with_the_real_clock_a_sleeper_is_woken_without_polling() {
    let network = SoftwareNetwork::new(Clock::Real).unwrap();
    let plan = DevicePlan::new("sw0").delay(Duration::from_millis(20));
    let left = network.host("a", &[plan]).unwrap();
    let right = network.host("b", &[DevicePlan::new("sw0")]).unwrap();
    let (mut a, mut b) = (end(left.as_ref(), "sw0"), end(right.as_ref(), "sw0"));
    join(&mut a, &mut b);
    let started = Instant::now();
    a.queue.arm().unwrap();
    a.write(1, b.region.as_ref(), 8);
    assert!(readable(a.queue.event_fd(), LONG));
    assert!(started.elapsed() >= Duration::from_millis(20));
    assert_eq!(a.ended(), [(1, Success)]);
}

#[test]
fn with_the_real_clock_and_no_delay_work_is_over_when_posted() {
    let (_network, mut a, b) = joined(Clock::Real);
    a.fill(3);
    a.write(1, b.region.as_ref(), 8);
    assert_eq!(b.byte(7), 3);
}

#[test]
fn events_make_their_descriptor_readable_until_taken() {
    let (network, a, _b) = joined(Clock::Manual);
    assert!(!readable(a.device.event_fd(), Duration::ZERO));
    network.faults("a", "sw0").unwrap().down();
    assert!(readable(a.device.event_fd(), Duration::ZERO));
    let event = a.device.take_event().unwrap();
    assert_eq!(event, Some(DeviceEvent::PortDown { port: 1 }));
    assert!(!readable(a.device.event_fd(), Duration::ZERO));
    assert_eq!(a.device.take_event().unwrap(), None);
}
