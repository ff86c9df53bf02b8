//! Questions to peers and metadata servers, for callers who may break off before there is an
//! answer.
//! Invariant: a question ends by its own deadline, whether its caller still waits for it or not.

use crate::error::EngineError;
use perigee_shard::{INTERRUPTION_PAUSE, is_interruptible, poll_interruption};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread::Builder;

/// The answer to a question, which is asked on a thread of its own if the caller of this thread may
/// break off.
///
/// # Errors
/// That of the question; the caller has broken off; the thread cannot be started.
pub(crate) fn ask<T: Send + 'static>(
    question: impl FnOnce() -> Result<T, EngineError> + Send + 'static,
) -> Result<T, EngineError> {
    if !is_interruptible() {
        return question();
    }
    let (answer, answered) = sync_channel(1);
    let asked = Builder::new().name("perigee-question".to_owned()).spawn(move || {
        // The caller may have broken off.
        let _ = answer.send(question());
    });
    asked.map_err(|error| EngineError::Start(error.to_string()))?;
    loop {
        match answered.recv_timeout(INTERRUPTION_PAUSE) {
            Ok(answer) => return answer,
            Err(RecvTimeoutError::Timeout) if poll_interruption() => {
                return Err(EngineError::Canceled);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err(EngineError::Closed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perigee_shard::interruptible;
    use std::sync::mpsc::channel;

    #[test]
    fn a_caller_who_breaks_off_waits_for_no_answer() {
        let (release, released) = channel::<()>();
        let silent = move || {
            let _ = released.recv();
            Ok(())
        };
        let _breaks_off = interruptible(|| true);
        assert_eq!(ask(silent), Err(EngineError::Canceled));
        drop(release);
    }

    #[test]
    fn an_answer_comes_back_whether_its_caller_may_break_off_or_not() {
        let here = std::thread::current().id();
        let question = || Ok(std::thread::current().id());
        assert_eq!(ask(question), Ok(here));
        let _may_break_off = interruptible(|| false);
        assert!(ask(question).is_ok_and(|there| there != here));
        assert_eq!(ask::<()>(|| Err(EngineError::Closed)), Err(EngineError::Closed));
    }
}
