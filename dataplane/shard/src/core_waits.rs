//! How long the calling thread waits for a core, by the scheduler's own books. Invariant: only the
//! thread that asked first asks again, and the books are opened once and read seldom.

use crate::limits::CORE_WAIT_FRESH;
use std::cell::{Cell, OnceCell};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;

/// The scheduler's books of the thread that opens them, where the kernel keeps some.
const BOOKS: &str = "/proc/thread-self/schedstat";

/// What a thread has waited in all its life, and how often it got a core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Waited {
    total_ns: u64,
    runs: u64,
}

thread_local! {
    /// Those of a thread that drives no shard.
    static OWN: CoreWaits = CoreWaits::default();
}

/// How long the calling thread has been without a core that it wanted, in all its life; nothing
/// where the kernel keeps no books.
pub(crate) fn core_waited() -> Duration {
    let waited = OWN.with(CoreWaits::read).unwrap_or_default();
    Duration::from_nanos(waited.total_ns)
}

/// Waits of one thread.
#[derive(Debug, Default)]
pub(crate) struct CoreWaits {
    books: OnceCell<Option<File>>,
    last: Cell<Option<(Duration, Waited)>>,
    typical: Cell<Duration>,
}

impl CoreWaits {
    /// The mean wait for each time that the thread got a core, since the reading before. Reading
    /// costs a system call, so it is done at most once in [`CORE_WAIT_FRESH`].
    pub(crate) fn typical(&self, now: Duration) -> Duration {
        let last = self.last.get();
        if last.is_some_and(|(read_at, _)| now.saturating_sub(read_at) < CORE_WAIT_FRESH) {
            return self.typical.get();
        }
        let waited = self.read().unwrap_or_default();
        self.last.set(Some((now, waited)));
        let typical = last.map_or(Duration::ZERO, |(_, before)| mean(before, waited));
        self.typical.set(typical);
        typical
    }

    fn read(&self) -> Option<Waited> {
        let books = self.books.get_or_init(|| File::open(BOOKS).ok()).as_ref()?;
        let mut text = [0; 96];
        let length = books.read_at(&mut text, 0).ok()?;
        parse(std::str::from_utf8(&text[..length]).ok()?)
    }
}

fn mean(before: Waited, now: Waited) -> Duration {
    let runs = now.runs.saturating_sub(before.runs);
    let waited_ns = now.total_ns.saturating_sub(before.total_ns);
    Duration::from_nanos(waited_ns.checked_div(runs).unwrap_or(0))
}

/// Time on a core, time without one, times that it got one.
fn parse(text: &str) -> Option<Waited> {
    let mut numbers = text.split_ascii_whitespace().skip(1).map(|word| word.parse().ok());
    Some(Waited { total_ns: numbers.next()??, runs: numbers.next()?? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_the_mean_of_the_runs_since_the_last_reading() {
        assert_eq!(parse("347704 3665909 2\n"), Some(Waited { total_ns: 3_665_909, runs: 2 }));
        assert_eq!(parse("347704 x 2"), None);
        assert_eq!(parse(""), None);
        let at = |total_ns, runs| Waited { total_ns, runs };
        assert_eq!(mean(at(100, 1), at(700, 4)), Duration::from_nanos(200));
        assert_eq!(mean(at(100, 1), at(100, 1)), Duration::ZERO, "it never left its core");
    }

    #[test]
    fn a_thread_that_shares_its_core_has_waited_for_it() {
        use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
        use nix::unistd::Pid;
        use std::sync::atomic::{AtomicBool, Ordering};

        let allowed = sched_getaffinity(Pid::from_raw(0)).unwrap();
        let core = (0..CpuSet::count()).find(|core| allowed.is_set(*core).unwrap()).unwrap();
        let mut one = CpuSet::new();
        one.set(core).unwrap();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let busy = || {
                sched_setaffinity(Pid::from_raw(0), &one).unwrap();
                while !is_over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            };
            scope.spawn(busy);
            scope.spawn(|| {
                sched_setaffinity(Pid::from_raw(0), &one).unwrap();
                let (before, begun) = (core_waited(), std::time::Instant::now());
                while core_waited() == before && begun.elapsed() < Duration::from_secs(60) {
                    std::hint::spin_loop();
                }
                is_over.store(true, Ordering::Relaxed);
                assert!(core_waited() > before, "two threads on one core, and none waited");
            });
        });
    }

    #[test]
    fn the_books_are_read_seldom_and_the_first_reading_charges_nothing() {
        let waits = CoreWaits::default();
        assert_eq!(waits.typical(Duration::from_secs(5)), Duration::ZERO);
        let read = waits.last.get();
        assert!(read.is_some());
        waits.typical(Duration::from_secs(5) + CORE_WAIT_FRESH / 2);
        assert_eq!(waits.last.get(), read);
        waits.typical(Duration::from_secs(6));
        assert_ne!(waits.last.get().map(|last| last.0), read.map(|last| last.0));
    }
}
