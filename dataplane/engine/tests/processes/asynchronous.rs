//! Asynchronous batches whose peer is killed, restarted or silent: they go on within their
//! deadline, or end by it.

use super::*;

/// Submits one batch and waits for its end: its state, and what the engine says of it.
fn submit_and_wait(
    here: &TransferEngine,
    name: &str,
    request: TransferRequest,
    limit: Duration,
) -> Result<(TransferState, Result<(), EngineError>), EngineError> {
    // SAFETY: the tests keep the memory until the batch is over.
    let batch = unsafe { here.submit(name, &[request], &within(limit)) }?;
    let state = here.wait(batch, LONG)?.state;
    let outcome = here.batch_outcome(batch);
    here.release(batch)?;
    Ok((state, outcome))
}

#[test]
fn an_asynchronous_batch_goes_on_to_a_peer_that_was_restarted() {
    let mut first = Peer::start("127.0.0.1");
    let here = engine("127.0.0.1");
    let memory = vec![1u8; BYTES];
    let send = |peer: &Peer, address| {
        submit_and_wait(&here, &peer.name, write(&memory, address, BYTES), LONG)
    };
    assert_eq!(send(&first, first.address), Ok((TransferState::Completed, Ok(()))));
    first.kill();
    let second = Peer::start_with(&first.name, ELSEWHERE);
    assert_eq!(first.name, second.name, "it takes its port back");
    assert_eq!(send(&second, second.address), Ok((TransferState::Completed, Ok(()))));
    let stale = send(&second, first.address);
    assert!(matches!(stale, Err(EngineError::Peer(PeerError::Restarted { .. }))), "{stale:?}");
    let sent = send(&second, first.address).unwrap();
    assert!(
        matches!(sent, (TransferState::Invalid, Err(EngineError::RemoteAddress { .. }))),
        "{sent:?}"
    );
    here.close();
}

#[test]
fn asynchronous_batches_for_addresses_of_an_earlier_life_are_refused_once() {
    let mut first = Peer::start("127.0.0.1");
    let here = engine("127.0.0.1");
    let memory = vec![1u8; 4096];
    let send = |peer: &Peer| {
        let request = write(&memory, peer.address, 4096);
        // Who is not known when the batch is submitted is looked up at once.
        submit_and_wait(&here, &peer.name, request, LONG)
            .unwrap_or_else(|e| (TransferState::Failed, Err(e)))
    };
    assert_eq!(send(&first), (TransferState::Completed, Ok(())));
    first.kill();
    let mut second = Peer::start(&first.name);
    let refused = send(&second);
    assert!(
        matches!(
            refused,
            (TransferState::Failed, Err(EngineError::Peer(PeerError::Restarted { .. })))
        ),
        "{refused:?}"
    );
    assert!(second.end(), "its memory is untouched");
    let third = Peer::start(&second.name);
    let refused = send(&third);
    assert!(
        matches!(
            refused,
            (TransferState::Failed, Err(EngineError::Peer(PeerError::Restarted { .. })))
        ),
        "{refused:?}"
    );
    assert_eq!(send(&third), (TransferState::Completed, Ok(())), "now it is meant");
    here.close();
}

#[test]
fn batches_submitted_before_the_caller_could_hear_of_a_restart_never_reach_the_new_life() {
    let mut first = Peer::start("127.0.0.1");
    let here = engine("127.0.0.1");
    let memory = vec![1u8; 4096];
    let request = write(&memory, first.address, 4096);
    let moved = submit_and_wait(&here, &first.name, request, LONG);
    assert_eq!(moved, Ok((TransferState::Completed, Ok(()))));
    first.kill();
    let mut second = Peer::start(&first.name);
    let mut batches = Vec::new();
    let sent = (0..1000).find_map(|_| {
        // SAFETY: `memory` outlives the engine.
        match unsafe { here.submit(&first.name, &[request], &within(LONG)) } {
            Ok(batch) => batches.push(batch),
            Err(error) => return Some(error),
        }
        None
    });
    assert!(
        matches!(sent, None | Some(EngineError::Peer(PeerError::Restarted { .. }))),
        "{sent:?}"
    );
    for batch in batches {
        assert_eq!(here.wait(batch, LONG).unwrap().state, TransferState::Failed);
        let error = here.batch_outcome(batch).unwrap_err();
        assert!(matches!(error, EngineError::Peer(PeerError::Restarted { .. })), "{error}");
    }
    assert!(second.end(), "its memory is untouched");
    here.close();
}

#[test]
fn an_asynchronous_batch_to_a_peer_that_stays_away_fails_and_names_it() {
    let mut peer = Peer::start("127.0.0.1");
    let here = engine("127.0.0.1");
    let memory = vec![1u8; 4096];
    let request = write(&memory, peer.address, 4096);
    let send = || submit_and_wait(&here, &peer.name, request, LONG);
    assert_eq!(send(), Ok((TransferState::Completed, Ok(()))));
    peer.kill();
    let gone = submit_and_wait(&here, &peer.name, request, LONG);
    let (TransferState::Failed, Err(error)) = gone.unwrap() else {
        panic!("nothing is there");
    };
    assert!(error.to_string().contains(&peer.name), "{error}");
    here.close();
}

/// An engine whose peer was killed and replaced by a listener that accepts and never answers.
fn silenced() -> (TransferEngine, String, u64, std::net::TcpListener) {
    let mut peer = Peer::start("127.0.0.1");
    let here = engine("127.0.0.1");
    let memory = vec![1u8; 4096];
    let request = write(&memory, peer.address, 4096);
    let moved = submit_and_wait(&here, &peer.name, request, LONG);
    assert_eq!(moved, Ok((TransferState::Completed, Ok(()))));
    peer.kill();
    let silent = std::net::TcpListener::bind(&peer.name).unwrap();
    (here, peer.name.clone(), peer.address, silent)
}

#[test]
fn a_batch_whose_peer_is_never_found_ends_by_its_deadline() {
    let (here, name, address, _silent) = silenced();
    let memory = vec![1u8; 4096];
    let request = write(&memory, address, 4096);
    let late = submit_and_wait(&here, &name, request, Duration::from_millis(300));
    let (TransferState::Timeout, Err(EngineError::Peer(PeerError::Deadline { peer, .. }))) =
        late.clone().unwrap()
    else {
        panic!("{late:?}");
    };
    assert_eq!(peer, name);
    here.close();
}

#[test]
fn of_batches_that_wait_for_the_same_silent_peer_each_ends_by_its_own_deadline() {
    let (here, name, address, silent) = silenced();
    let memory = vec![1u8; 4096];
    let request = write(&memory, address, 4096);
    // SAFETY: `memory` outlives the engine.
    let submit = |limit| unsafe { here.submit(&name, &[request], &within(limit)) };
    let long = submit(LONG).unwrap();
    let short = submit(Duration::from_millis(500));
    // The look-up goes on for the other one.
    let _asking = silent.accept().unwrap();
    match short {
        Ok(short) => assert_eq!(here.wait(short, LONG).unwrap().state, TransferState::Timeout),
        // The peer was known to be away by then, so the call itself asked for it.
        Err(error) => {
            assert!(matches!(error, EngineError::Peer(PeerError::Deadline { .. })), "{error}");
        }
    }
    assert_eq!(here.batch_status(long).unwrap().state, TransferState::Pending);
    here.close();
}

#[test]
fn a_batch_whose_peer_is_looked_up_again_is_over_when_it_is_taken_back() {
    let (here, name, address, silent) = silenced();
    let memory = vec![1u8; 4096];
    let request = write(&memory, address, 4096);
    // SAFETY: `memory` outlives the engine.
    let batch = unsafe { here.submit(&name, &[request], &within(LONG)) }.unwrap();
    // The peer is being asked who it is.
    let _asking = silent.accept().unwrap();
    assert_eq!(here.batch_status(batch).unwrap().state, TransferState::Pending);
    assert_eq!(here.status(batch, 0).unwrap().state, TransferState::Pending);
    assert!(here.release(batch).is_err(), "it is under way");
    here.cancel(batch).unwrap();
    assert_eq!(here.batch_status(batch).unwrap().state, TransferState::Canceled);
    here.release(batch).unwrap();
    here.close();
}

#[test]
fn closing_an_engine_ends_a_batch_whose_peer_is_looked_up_again() {
    let (here, name, address, silent) = silenced();
    let memory = vec![1u8; 4096];
    let request = write(&memory, address, 4096);
    // SAFETY: `memory` outlives the engine.
    let batch = unsafe { here.submit(&name, &[request], &within(LONG)) }.unwrap();
    let _asking = silent.accept().unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| here.wait(batch, LONG));
        here.close();
        assert_eq!(waiting.join().unwrap().unwrap().state, TransferState::Failed);
    });
    assert_eq!(here.batch_outcome(batch), Err(EngineError::Closed));
}
