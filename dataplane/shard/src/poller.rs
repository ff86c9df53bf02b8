//! Sources of work beside the ring, such as completion queues of NICs: the driver looks at them
//! each turn.
//!
//! A poller is asked on the shard's thread only, and never while it is being asked already.

use std::cell::RefCell;
use std::rc::{Rc, Weak};
use std::time::Duration;

/// Something that a shard's driver looks at each turn.
pub trait Poller {
    /// One look; true if anything happened.
    fn turn(&self, now: Duration) -> bool;

    /// Whether a device works for it: the driver then looks again at once, even if another thread
    /// gets the core first.
    fn is_busy(&self) -> bool;

    /// The shard is about to sleep: whatever should wake it has to be armed now. The driver looks
    /// once more afterwards. Returns when it wants to be looked at again at the latest.
    fn before_sleep(&self) -> Option<Duration>;
}

/// The pollers of one shard. They belong to the code that registered them.
#[derive(Default)]
pub(crate) struct Pollers {
    list: RefCell<Vec<Weak<dyn Poller>>>,
}

impl Pollers {
    pub(crate) fn add(&self, poller: &Rc<dyn Poller>) {
        let mut list = self.list.borrow_mut();
        list.retain(|known| known.strong_count() > 0);
        list.push(Rc::downgrade(poller));
    }

    pub(crate) fn turn(&self, now: Duration) -> bool {
        self.any(|poller| poller.turn(now))
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.any(|poller| poller.is_busy())
    }

    pub(crate) fn before_sleep(&self) -> Option<Duration> {
        let list = self.list.borrow();
        let pollers = list.iter().filter_map(Weak::upgrade);
        pollers.filter_map(|poller| poller.before_sleep()).min()
    }

    /// Asks all of them, whatever the first one says.
    fn any(&self, ask: impl Fn(&dyn Poller) -> bool) -> bool {
        let list = self.list.borrow();
        let pollers = list.iter().filter_map(Weak::upgrade);
        pollers.fold(false, |any, poller| ask(poller.as_ref()) | any)
    }
}

#[cfg(test)]
mod tests {
    use crate::{Environment, Poller, Shard, ShardOptions};
    use std::cell::Cell;
    use std::rc::Rc;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    struct Ticker {
        turns: Cell<u32>,
        slept: Cell<u32>,
        next: Cell<Duration>,
    }

    impl Poller for Ticker {
        fn turn(&self, now: Duration) -> bool {
            let due = now >= self.next.get();
            if due {
                self.turns.set(self.turns.get() + 1);
                self.next.set(now + Duration::from_millis(1));
            }
            due
        }

        fn is_busy(&self) -> bool {
            false
        }

        fn before_sleep(&self) -> Option<Duration> {
            self.slept.set(self.slept.get() + 1);
            Some(self.next.get())
        }
    }

    #[test]
    fn a_sleeping_shard_wakes_for_its_poller_and_forgets_one_that_is_gone() {
        let (send, receive) = channel();
        let shard = Shard::start(ShardOptions::named("test-poller"), |environment| async move {
            let ticker = Rc::new(Ticker {
                turns: Cell::new(0),
                slept: Cell::new(0),
                next: Cell::new(Duration::ZERO),
            });
            environment.poll_with(&(ticker.clone() as Rc<dyn Poller>));
            while ticker.turns.get() < 5 || ticker.slept.get() < 5 {
                environment.sleep(Duration::from_millis(20)).await;
            }
            let weak = Rc::downgrade(&ticker);
            drop(ticker);
            send.send(weak.upgrade().is_none()).unwrap();
        })
        .unwrap();
        assert!(receive.recv_timeout(Duration::from_secs(20)).unwrap());
        shard.join(Duration::from_secs(20)).unwrap();
    }
}
