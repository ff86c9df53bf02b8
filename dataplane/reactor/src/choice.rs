//! Which backend the shards of this process run on: io_uring where the kernel lets them, epoll
//! elsewhere.
//!
//! It is found out once, before the first executor starts, and stays: an answer that was given is
//! given again. What the probe got may be refused to a later shard, because locked memory is
//! counted per user over all processes: that shard runs on epoll, unless io_uring was asked for.

use crate::uring::probe::{UringUnavailable, probe};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The variable that chooses.
const VARIABLE: &str = "PERIGEE_REACTOR";

/// What carries out the operations of shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// The fast one.
    IoUring,
    /// The one that every kernel and container allows.
    Epoll,
}

impl Backend {
    /// Its name in settings, logs and metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Backend::IoUring => "io_uring",
            Backend::Epoll => "epoll",
        }
    }
}

/// A backend, and why it is this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackendChoice {
    /// What shards run on.
    pub backend: Backend,
    /// Why, for people.
    pub reason: String,
    /// Whether the setting names this backend, so that no other one may take its place.
    pub is_asked_for: bool,
}

/// Shards that have started on io_uring, and on epoll.
static STARTED: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

/// Why there is no choice.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChoiceError {
    /// The variable says something else.
    #[error("{VARIABLE} is \"{0}\"; it can be io_uring, epoll or auto")]
    Unknown(String),
    /// io_uring was asked for.
    #[error("{VARIABLE} is io_uring, but {0}. Or leave it at auto, which takes epoll then")]
    Refused(UringUnavailable),
}

/// What the shards of this process run on. The first call probes and says it in the log.
///
/// # Errors
/// The setting is not valid, or asks for io_uring where it is refused; the same error each time.
pub fn choice() -> Result<&'static BackendChoice, ChoiceError> {
    static CHOICE: OnceLock<Result<BackendChoice, ChoiceError>> = OnceLock::new();
    let choice = CHOICE.get_or_init(|| {
        let wanted = std::env::var(VARIABLE).unwrap_or_default();
        let choice = decide(&wanted, probe);
        choice.iter().for_each(say);
        choice
    });
    choice.as_ref().map_err(Clone::clone)
}

/// Says it in the log. What costs speed is a warning: Python shows those alone.
fn say(choice: &BackendChoice) {
    let BackendChoice { backend, reason, is_asked_for } = choice;
    let reactor = backend.name();
    if *backend == Backend::Epoll && !is_asked_for {
        tracing::warn!(reactor, reason, "Shards run on the slower reactor");
    } else {
        tracing::info!(reactor, reason, "Shards run on this reactor");
    }
}

/// Counts a shard that has started.
pub fn note_shard(backend: Backend) {
    STARTED[backend as usize].fetch_add(1, Ordering::Relaxed);
}

/// The name of what the shards of this process run on: `mixed` where io_uring was refused to some
/// of them, `none` where they cannot run.
#[must_use]
pub fn reactor_name() -> &'static str {
    let started = STARTED.each_ref().map(|count| count.load(Ordering::Relaxed) > 0);
    match started {
        [true, true] => "mixed",
        [true, false] => Backend::IoUring.name(),
        [false, true] => Backend::Epoll.name(),
        [false, false] => choice().map_or("none", |choice| choice.backend.name()),
    }
}

fn decide(
    wanted: &str,
    probe: impl FnOnce() -> Result<(), UringUnavailable>,
) -> Result<BackendChoice, ChoiceError> {
    let asked = |backend: Backend| {
        let reason = format!("{VARIABLE} is {}", backend.name());
        Ok(BackendChoice { backend, reason, is_asked_for: true })
    };
    let chosen =
        |backend, reason: String| Ok(BackendChoice { backend, reason, is_asked_for: false });
    match wanted {
        "epoll" => asked(Backend::Epoll),
        "io_uring" => probe().map_err(ChoiceError::Refused).and_then(|()| asked(Backend::IoUring)),
        "" | "auto" => match probe() {
            Ok(()) => chosen(Backend::IoUring, "the kernel allows io_uring".to_owned()),
            Err(refusal) => chosen(Backend::Epoll, refusal.to_string()),
        },
        other => Err(ChoiceError::Unknown(other.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REFUSAL: UringUnavailable = UringUnavailable::Disabled(2);

    #[test]
    fn io_uring_is_taken_where_it_is_allowed_and_epoll_elsewhere() {
        for wanted in ["", "auto"] {
            let choice = decide(wanted, || Ok(())).unwrap();
            assert_eq!((choice.backend, choice.is_asked_for), (Backend::IoUring, false));
            let choice = decide(wanted, || Err(REFUSAL)).unwrap();
            assert_eq!((choice.backend, choice.reason), (Backend::Epoll, REFUSAL.to_string()));
        }
        let choice = decide("epoll", || unreachable!("the kernel is not asked")).unwrap();
        assert_eq!(choice.backend, Backend::Epoll);
    }

    #[test]
    fn io_uring_that_is_asked_for_and_refused_is_an_error_that_says_why() {
        let choice = decide("io_uring", || Ok(())).unwrap();
        assert_eq!((choice.backend, choice.is_asked_for), (Backend::IoUring, true));
        let error = decide("io_uring", || Err(REFUSAL)).unwrap_err();
        assert!(error.to_string().contains("io_uring_disabled is 2"), "{error}");
        let error = decide("uring", || Ok(())).unwrap_err();
        assert!(error.to_string().contains("io_uring, epoll or auto"), "{error}");
    }
}
