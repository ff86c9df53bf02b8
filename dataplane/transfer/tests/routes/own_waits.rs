//! Callers without a core: what they wait for it is not the wire's.
#![expect(unsafe_code, reason = "there is no other way to give a core up to all others")]

use crate::node::{engine_within, node, page, payload, place, read_one, write_all};
use nix::libc;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use perigee_activity::{BatchMark, RingsSeen};
use perigee_transfer::Route;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const DEADLINE: Duration = Duration::from_secs(60);

/// Runs `task` on a thread that gets a core only if no other one wants it, beside one that always
/// does.
fn on_a_busy_core<T: Send>(task: impl FnOnce() -> T + Send) -> T {
    let allowed = sched_getaffinity(Pid::from_raw(0)).unwrap();
    let core = (0..CpuSet::count()).find(|core| allowed.is_set(*core).unwrap()).unwrap();
    let mut one = CpuSet::new();
    one.set(core).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            sched_setaffinity(Pid::from_raw(0), &one).unwrap();
            while !is_over.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        let task = scope.spawn(|| {
            sched_setaffinity(Pid::from_raw(0), &one).unwrap();
            let idle = libc::sched_param { sched_priority: 0 };
            // SAFETY: the structure outlives the call.
            let done = unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const idle) };
            assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
            let outcome = task();
            is_over.store(true, Ordering::Relaxed);
            outcome
        });
        task.join().unwrap()
    })
}

#[test]
fn a_caller_that_has_no_core_does_not_blame_the_wire() {
    let (node, data) = (node(), payload(1, 4096));
    let engine = engine_within(&node, Route::Tcp, DEADLINE);
    let place = place(&node, 0, data.len(), 7);
    let checksum = write_all(&engine, std::slice::from_ref(&place), std::slice::from_ref(&data))[0];
    let mut seen = RingsSeen::default();
    page().marks(&mut seen).unwrap();
    let is_own = |mark: &BatchMark| mark.queue_ns > 1_000_000 && mark.queue_ns > mark.wire_ns;
    let begun = Instant::now();
    let is_seen = on_a_busy_core(|| {
        while begun.elapsed() < DEADLINE {
            read_one(&engine, &place, checksum).unwrap();
            if page().marks(&mut seen).unwrap().slow.iter().any(is_own) {
                return true;
            }
        }
        false
    });
    assert!(is_seen, "the caller waited for its core, and no batch has that as this side's time");
    engine.close();
}
