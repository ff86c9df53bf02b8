//! The mailbox of a shard that falls asleep while others post: each job is taken, and no shard
//! sleeps on one.

use loom::sync::atomic::{self, AtomicBool, AtomicUsize, Ordering};
use loom::sync::{Arc, Notify};
use loom::thread;

#[path = "../../../dataplane/shard/src/mailbox/sleep_flag.rs"]
mod sleep_flag;

/// Whether the shard sleeps.
trait Sleep: Default + 'static {
    fn begin(&self);
    fn end(&self);
    fn must_ring(&self) -> bool;
}

impl Sleep for sleep_flag::SleepFlag {
    fn begin(&self) {
        sleep_flag::SleepFlag::begin(self);
    }

    fn end(&self) {
        sleep_flag::SleepFlag::end(self);
    }

    fn must_ring(&self) -> bool {
        sleep_flag::SleepFlag::must_ring(self)
    }
}

/// The same without fences: both sides may see what was before.
#[derive(Default)]
struct Unfenced(AtomicBool);

impl Sleep for Unfenced {
    fn begin(&self) {
        self.0.store(true, Ordering::Release);
    }

    fn end(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    fn must_ring(&self) -> bool {
        self.0.load(Ordering::Acquire) && self.0.swap(false, Ordering::AcqRel)
    }
}

/// The second one is posted by a sender that may just have rung for the first.
const JOBS: usize = 2;
/// Times that a thread loses its core within one play: with all of them the plays take minutes.
const PREEMPTIONS: usize = 4;

/// A thread posts jobs; the shard sleeps as long as it sees too few. A wake-up that is lost is a
/// deadlock.
fn play<S: Sleep + Send + Sync>() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(PREEMPTIONS);
    builder.check(|| {
        let sleep = Arc::new(S::default());
        let bell = Arc::new(Notify::new());
        // The weakest queue there could be: nothing but its own order helps the two sides to see
        // each other.
        let posted = Arc::new(AtomicUsize::new(0));
        let poster = {
            let (sleep, bell, posted) = (sleep.clone(), bell.clone(), posted.clone());
            move || {
                for _ in 0..JOBS {
                    posted.fetch_add(1, Ordering::Relaxed);
                    if sleep.must_ring() {
                        bell.notify();
                    }
                }
            }
        };
        thread::spawn(poster);
        while posted.load(Ordering::Relaxed) < JOBS {
            sleep.begin();
            if posted.load(Ordering::Relaxed) < JOBS {
                bell.wait();
            }
            sleep.end();
        }
    });
}

#[test]
fn no_wake_up_is_lost() {
    play::<sleep_flag::SleepFlag>();
}

#[test]
#[should_panic(expected = "deadlock")]
fn without_fences_a_wake_up_is_lost() {
    play::<Unfenced>();
}
