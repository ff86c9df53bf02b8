//! What a caller sees of a batch that is tried twice.

use super::*;
use perigee_mover::PeerError;

const LONG: Duration = Duration::from_secs(60);

fn elsewhere() -> EngineError {
    EngineError::Peer(PeerError::Unreachable { peer: "p".to_owned(), reason: "refused".to_owned() })
}

fn batch(requests: usize) -> Arc<Batch> {
    let pieces = vec![1; requests].into_iter();
    Arc::new(Batch::new(pieces, Vec::new(), None, None, None))
}

fn arrive(batch: &Batch, request: u32) {
    batch.moved(request, 10);
}

fn states(submission: &Submission, requests: usize) -> Vec<TransferState> {
    let state = |index| submission.request(index).unwrap().state;
    (0..requests).map(state).collect()
}

#[test]
fn a_failure_that_a_second_attempt_may_make_good_is_not_reported() {
    let first = batch(2);
    let submission = Submission::new(first.clone());
    first.failed(0, &elsewhere());
    first.failed(1, &elsewhere());
    // The end's action has not run yet, and a polling caller must not see a failure.
    assert_eq!(states(&submission, 2), [TransferState::Pending; 2]);
    assert!(submission.pause());
    assert!(!submission.is_over() && !submission.wait(Duration::ZERO));
    assert_eq!(submission.status().state, TransferState::Pending);
    assert!(submission.resume());
    let second = batch(2);
    submission.go_on(&second);
    arrive(&second, 0);
    assert_eq!(states(&submission, 2), [TransferState::Completed, TransferState::Pending]);
    arrive(&second, 1);
    assert!(submission.wait(LONG) && submission.is_over());
    assert_eq!((submission.status().bytes, submission.outcome()), (20, Ok(())));
}

#[test]
fn a_failure_beside_bytes_that_moved_is_reported_at_once() {
    let first = batch(3);
    let submission = Submission::new(first.clone());
    arrive(&first, 0);
    first.failed(1, &elsewhere());
    let expected = [TransferState::Completed, TransferState::Failed, TransferState::Pending];
    assert_eq!(states(&submission, 3), expected);
}

#[test]
fn the_second_attempt_has_the_last_word() {
    let first = batch(1);
    let submission = Submission::new(first.clone());
    first.failed(0, &elsewhere());
    assert!(submission.pause() && submission.resume());
    let second = batch(1);
    submission.go_on(&second);
    second.failed(0, &elsewhere());
    assert_eq!(submission.status().state, TransferState::Failed);
    assert!(!submission.pause() && !submission.resume());
    assert!(submission.wait(LONG));
}

#[test]
fn without_a_second_attempt_the_reason_for_that_is_reported() {
    let first = batch(1);
    let submission = Arc::new(Submission::new(first.clone()));
    first.failed(0, &elsewhere());
    assert!(submission.pause());
    let theirs = submission.clone();
    let sleeper = std::thread::spawn(move || theirs.wait(LONG));
    let late = EngineError::Peer(PeerError::Deadline { peer: "p".to_owned(), deadline: LONG });
    submission.give_up(&late);
    assert!(sleeper.join().unwrap());
    assert_eq!(submission.status().state, TransferState::Timeout);
    assert_eq!(submission.outcome(), Err(late));
    submission.give_up(&EngineError::Closed);
    assert_ne!(submission.outcome(), Err(EngineError::Closed));
}

#[test]
fn a_batch_that_is_taken_back_between_two_attempts_is_over() {
    let first = batch(1);
    let submission = Submission::new(first.clone());
    first.failed(0, &elsewhere());
    assert!(submission.pause());
    submission.cancel();
    assert_eq!(submission.status().state, TransferState::Canceled);
    assert!(!submission.resume(), "it was canceled");
}

#[test]
fn a_batch_that_is_taken_back_while_it_is_prepared_again_begins_as_canceled() {
    let first = batch(1);
    let submission = Submission::new(first.clone());
    first.failed(0, &elsewhere());
    assert!(submission.pause() && submission.resume());
    submission.cancel();
    assert!(!submission.is_over(), "its memory is in use");
    let second = batch(1);
    submission.go_on(&second);
    assert!(second.is_canceled());
}

#[test]
fn a_batch_that_was_taken_back_before_it_failed_is_not_tried_again() {
    let first = batch(1);
    let submission = Submission::new(first.clone());
    submission.cancel();
    first.failed(0, &elsewhere());
    assert!(!submission.pause());
    submission.settle();
    assert_eq!(submission.status().state, TransferState::Failed);
}

#[test]
fn a_batch_of_nothing_is_over_at_once() {
    let submission =
        Submission::new(Arc::new(Batch::new([0].into_iter(), Vec::new(), None, None, None)));
    assert!(submission.is_over() && submission.wait(Duration::ZERO));
}
