//! Two ends in one process, and one end towards a peer that never answers.

use std::net::TcpListener;

use super::*;
use crate::ends::mover::{Move, Mover as _};
use perigee_schemas::Direction;

const BYTES: u64 = 1 << 20;
/// Longer than any test may take.
const FOREVER: Duration = Duration::from_secs(3600);

fn end(stop: &Stop) -> EngineEnd {
    let options = EngineOptions::new("127.0.0.1", "P2PHANDSHAKE", "tcp", "").unwrap();
    EngineEnd::start(options, BYTES, stop).unwrap()
}

fn piece(end: &EngineEnd, remote: u64) -> Move {
    Move { direction: Direction::Write, local: end.address(), remote, bytes: 4096 }
}

/// Accepts connections into its backlog and says nothing.
fn silent() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let name = listener.local_addr().unwrap().to_string();
    (listener, name)
}

#[test]
fn the_first_contact_ends_with_its_deadline() {
    let (_listener, name) = silent();
    let end = end(&Stop::default());
    let error = end.towards(&name, Duration::from_millis(300)).unwrap_err();
    assert_eq!(error.exit_code(), 75, "{error}");
    assert!(error.to_string().contains(&name), "{error}");
}

#[test]
fn the_first_contact_ends_when_the_run_is_to_end() {
    let (_listener, name) = silent();
    let stop = Stop::default();
    // A start that finds `stop` set may fail: the watch closes the engine beneath it.
    let end = end(&stop);
    stop.set();
    let error = end.towards(&name, FOREVER).unwrap_err();
    // The watch may have closed the engine before the question was put.
    let ended = stop.excuse::<()>(Err(error)).unwrap_err();
    assert!(matches!(ended, BenchError::Interrupted), "{ended}");
}

#[test]
fn every_waiter_is_let_go_when_the_run_is_to_end() {
    let (target, stop) = (end(&Stop::default()), Stop::default());
    let end = end(&stop);
    let mover = end.towards(&target.name(), FOREVER).unwrap();
    mover.transfer(&piece(&end, 0)).unwrap();
    stop.set();
    while mover.transfer(&piece(&end, 0)).is_ok() {}
    assert!(mover.submit(&[piece(&end, 0)]).is_err());
}

#[test]
fn a_batch_that_leaves_the_targets_buffer_fails_with_the_targets_reason() {
    let (target, own) = (end(&Stop::default()), end(&Stop::default()));
    let mover = own.towards(&target.name(), Duration::from_secs(60)).unwrap();
    assert_eq!(mover.target_bytes(), BYTES);
    let ticket = mover.submit(&[piece(&own, BYTES)]).unwrap();
    let error = mover.wait(ticket).unwrap_err();
    assert_eq!(error.exit_code(), 2, "{error}");
    assert!(error.to_string().contains("buffers of one size"), "{error}");
}
