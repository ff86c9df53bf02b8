//! Whether a listener takes one more connection, and what is said when it cannot. Invariant:
//! accepted connections leave some hundred of the process's descriptors, or half of them, to
//! everything else, and a lasting shortage is logged once.

use crate::environment::Stream;
use crate::limits::{DESCRIPTORS_SPARED, TROUBLE_EPISODE};
use nix::sys::resource::{Resource, getrlimit};
use std::cell::Cell;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Accepted connections of this process that hold a descriptor.
static OPEN: AtomicUsize = AtomicUsize::new(0);

/// What one listener admits.
#[derive(Debug)]
pub struct Admission {
    connections_max: usize,
    /// When a connection could not be taken last.
    troubled: Cell<Option<Duration>>,
}

/// The right to keep an accepted connection; given back when it is dropped.
#[derive(Debug)]
pub struct Admitted {
    is_counted: bool,
}

impl Admission {
    /// For a listener with at most so many connections.
    #[must_use]
    pub fn new(connections_max: usize) -> Self {
        Self { connections_max, troubled: Cell::new(None) }
    }

    /// The right to keep a connection beside the `open` ones of this listener. `None` beyond its
    /// bound, or if connections have taken their share of the descriptors: then the connection is
    /// to be closed.
    pub fn admit(&self, stream: &impl Stream, open: usize, now: Duration) -> Option<Admitted> {
        let has_room = open < self.connections_max;
        let is_counted = stream.socket().is_some();
        let admitted = has_room.then(|| Admitted::new(is_counted)).flatten();
        if admitted.is_none() && self.begins_episode(now) {
            tracing::warn!(
                open,
                "Too many connections, further ones are closed at once; raise the limit of open files"
            );
        }
        admitted
    }

    /// The kernel gave no connection; try again after [`crate::ACCEPT_PAUSE`].
    pub fn failed(&self, error: &io::Error, now: Duration) {
        if self.begins_episode(now) {
            tracing::warn!(%error, "Cannot accept a connection; raise the limit of open files");
        }
    }

    /// Whether this trouble is not the one of a moment ago.
    fn begins_episode(&self, now: Duration) -> bool {
        let before = self.troubled.replace(Some(now));
        before.is_none_or(|before| now.saturating_sub(before) >= TROUBLE_EPISODE)
    }
}

impl Admitted {
    fn new(is_counted: bool) -> Option<Self> {
        let open = OPEN.fetch_add(usize::from(is_counted), Ordering::Relaxed);
        let admitted = Self { is_counted };
        // A right that is not handed out is given back by its drop.
        (!is_counted || open < share()).then_some(admitted)
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        OPEN.fetch_sub(usize::from(self.is_counted), Ordering::Relaxed);
    }
}

/// Descriptors that accepted connections may take. Asked each time: programs raise their limit.
fn share() -> usize {
    let (soft, _) = getrlimit(Resource::RLIMIT_NOFILE).unwrap_or((u64::MAX, u64::MAX));
    share_of(usize::try_from(soft).unwrap_or(usize::MAX))
}

fn share_of(descriptors: usize) -> usize {
    descriptors - DESCRIPTORS_SPARED.min(descriptors / 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::resource::setrlimit;
    use perigee_reactor::Message;
    use std::net::SocketAddr;
    use std::os::fd::{AsFd, BorrowedFd};
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;

    #[derive(Clone)]
    struct Silent(Option<Arc<UnixStream>>);

    impl Stream for Silent {
        async fn receive_up_to(&self, buffer: Vec<u8>, _: usize) -> (io::Result<usize>, Vec<u8>) {
            (Ok(0), buffer)
        }

        async fn receive_message(&self, _: Message) -> io::Result<()> {
            Ok(())
        }

        async fn send_message(&self, _: Message) -> io::Result<()> {
            Ok(())
        }

        fn shutdown(&self) {}

        fn is_quiet(&self) -> bool {
            true
        }

        fn local_address(&self) -> io::Result<SocketAddr> {
            Err(io::ErrorKind::Unsupported.into())
        }

        fn socket(&self) -> Option<BorrowedFd<'_>> {
            self.0.as_ref().map(|stream| stream.as_fd())
        }
    }

    #[test]
    fn connections_leave_some_hundred_descriptors_or_half_of_them() {
        let shares = [100, 896, 1024, 10_500].map(share_of);
        assert_eq!(shares, [50, 448, 576, 10_052]);
    }

    #[test]
    fn connections_take_half_of_few_descriptors_and_give_them_back() {
        let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        setrlimit(Resource::RLIMIT_NOFILE, 100, hard).unwrap();
        let admission = Admission::new(60);
        let real = Silent(Some(Arc::new(UnixStream::pair().unwrap().0)));
        let admit = |stream: &Silent, open| admission.admit(stream, open, Duration::ZERO);
        let mut kept: Vec<_> = (0..50).map(|open| admit(&real, open).unwrap()).collect();
        for _ in 0..3 {
            assert!(admit(&real, 50).is_none());
            let simulated = admit(&Silent(None), 50).unwrap();
            drop(simulated);
        }
        kept.pop();
        kept.extend(admit(&real, 49));
        assert_eq!(kept.len(), 50);
        assert!(admit(&real, 50).is_none());
        setrlimit(Resource::RLIMIT_NOFILE, 200, hard).unwrap();
        assert!(admit(&real, 59).is_some());
        assert!(admit(&real, 60).is_none(), "the listener's own bound");
    }

    #[test]
    fn trouble_that_goes_on_begins_once() {
        let admission = Admission::new(0);
        let times = [0, 50, 40_000, 99_999, 159_999, 160_000];
        let begun = times.map(|at_ms| admission.begins_episode(Duration::from_millis(at_ms)));
        assert_eq!(begun, [true, false, false, false, true, false]);
    }
}
