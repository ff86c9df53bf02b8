//! The load against memory of this process.

use std::sync::atomic::Ordering;

use super::*;
use crate::ends::mover::memory::MemoryTarget;

const ROOM: u64 = 64 << 10;

fn run(
    target: &MemoryTarget,
    operation: &'static str,
    depth: u64,
    verify: bool,
    steps: usize,
) -> Result<u64, BenchError> {
    let mut buffer = vec![0_u8; ROOM as usize];
    let share = Share {
        operation,
        bytes: 4000,
        depth,
        local: buffer.as_mut_ptr() as u64,
        remote: 0,
        room: ROOM,
        verify,
    };
    let mut worker = WindowWorker::new(target, share)?;
    let mut corrupt = 0;
    for _ in 0..steps {
        let step = worker.step(u64::MAX)?;
        assert_eq!(step.units, 4000);
        corrupt += step.corrupt;
    }
    while let Some(step) = worker.drain()? {
        corrupt += step.corrupt;
    }
    Ok(corrupt)
}

#[test]
fn right_bytes_are_never_called_wrong() {
    for operation in ["write", "read", "mixed"] {
        for depth in [1, 2, 7, 16] {
            let target = MemoryTarget::new(ROOM as usize);
            assert_eq!(
                run(&target, operation, depth, true, 200).unwrap(),
                0,
                "{operation} {depth}"
            );
        }
    }
}

#[test]
fn one_wrong_byte_is_counted() {
    for operation in ["write", "read", "mixed"] {
        for depth in [1, 5] {
            let mut target = MemoryTarget::new(ROOM as usize);
            target.spoil_every = 50;
            let corrupt = run(&target, operation, depth, true, 200).unwrap();
            assert!(corrupt > 0, "{operation} {depth}");
        }
    }
}

#[test]
fn the_depth_is_kept_full_and_never_passed() {
    let target = MemoryTarget::new(ROOM as usize);
    run(&target, "write", 7, false, 100).unwrap();
    assert_eq!(target.most_in_flight.load(Ordering::Relaxed), 7);
    // What was still in flight at the end was waited for.
    assert_eq!(target.pieces.load(Ordering::Relaxed), 106);
}

#[test]
fn no_more_is_begun_than_is_wanted() {
    let target = MemoryTarget::new(ROOM as usize);
    let mut buffer = vec![0_u8; ROOM as usize];
    let share = Share {
        operation: "write",
        bytes: 4000,
        depth: 7,
        local: buffer.as_mut_ptr() as u64,
        remote: 0,
        room: ROOM,
        verify: false,
    };
    let mut worker = WindowWorker::new(&target, share).unwrap();
    for wanted in (1..=9).rev() {
        worker.step(wanted).unwrap();
    }
    assert_eq!(worker.drain().unwrap(), None);
    assert_eq!(target.pieces.load(Ordering::Relaxed), 9);
}

#[test]
fn a_target_that_goes_away_is_an_error() {
    let mut target = MemoryTarget::new(ROOM as usize);
    target.gone_after = 20;
    assert!(run(&target, "write", 4, false, 100).is_err());
    assert!(run(&target, "read", 1, false, 100).is_err());
}
