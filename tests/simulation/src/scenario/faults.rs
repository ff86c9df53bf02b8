//! Faults while clients work: hosts that die, stand still or cannot be reached, connections that
//! break, links that change.
//! Invariant: every fault is undone before the trouble is over, so that what must work afterwards
//! can be asked for.

use crate::network::{HostId, LinkConditions};
use crate::random::Random;
use crate::world::World;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

/// Time in which all kernels have heard of connections whose other end is gone.
pub(super) const HEARD: Duration = Duration::from_secs(8);
/// How long a host is without a process, at most...
const DEAD_MAX: Duration = Duration::from_secs(20);
/// ... and where a supervisor starts it again at once.
const AT_ONCE: Duration = Duration::from_millis(30);
/// Longest until a process dies that is due.
const SOON: Duration = Duration::from_secs(1);

/// Trouble for a set of hosts.
pub(super) struct Trouble {
    world: Rc<World>,
    random: Random,
    hosts: Vec<HostId>,
    /// Puts a new process on a host whose process has died.
    begin: Box<dyn Fn(HostId)>,
    /// Called before a process dies.
    end: Box<dyn Fn(HostId)>,
    /// A host whose process is to die soon, because the moment is a bad one.
    due: Rc<dyn Fn() -> Option<HostId>>,
    /// Whether links may change bits.
    flips: bool,
    /// Hosts without a process.
    dead: RefCell<BTreeSet<HostId>>,
    faults: Cell<u64>,
}

impl Trouble {
    pub(super) fn new(
        world: &Rc<World>,
        hosts: Vec<HostId>,
        flips: bool,
        begin: impl Fn(HostId) + 'static,
    ) -> Self {
        Self {
            world: world.clone(),
            random: world.fork_random(),
            hosts,
            begin: Box::new(begin),
            end: Box::new(|_| ()),
            due: Rc::new(|| None),
            flips,
            dead: RefCell::default(),
            faults: Cell::new(0),
        }
    }

    /// The same, with something to be called before a process dies.
    pub(super) fn with_end(self, end: impl Fn(HostId) + 'static) -> Self {
        Self { end: Box::new(end), ..self }
    }

    /// The same, with hosts whose processes are to die soon.
    pub(super) fn with_due(self, due: impl Fn() -> Option<HostId> + 'static) -> Self {
        Self { due: Rc::new(due), ..self }
    }

    /// How many faults there were.
    pub(super) fn faults(&self) -> u64 {
        self.faults.get()
    }

    /// Makes trouble until a condition holds, then leaves everything whole, with sound links.
    pub(super) async fn make(&self, is_over: impl Fn() -> bool) {
        self.world.set_link_conditions(LinkConditions::faulty(&self.random, self.flips));
        while !is_over() {
            let pause = self.random.length(Duration::from_micros(100), Duration::from_secs(2));
            self.world.sleep(pause).await;
            self.faults.set(self.faults.get() + 1);
            match self.random.below(8) {
                0 | 1 => {
                    let host = *self.random.pick(&self.hosts);
                    self.die(host, self.random.one_in(2), DEAD_MAX).await;
                }
                2 => self.freeze().await,
                3 | 4 => self.part().await,
                5 => {
                    self.world
                        .set_link_conditions(LinkConditions::faulty(&self.random, self.flips));
                }
                _ => self.world.break_some_connection(),
            }
        }
        self.world.set_link_conditions(LinkConditions::sound(&self.random));
    }

    /// Ends the process of any of the hosts again and again until a condition holds; nothing else
    /// goes wrong.
    pub(super) async fn restart(&self, is_over: impl Fn() -> bool) {
        while !is_over() {
            let pause = self.random.length(Duration::from_micros(100), Duration::from_secs(10));
            let due = self.due.clone();
            self.world.until_at_most(pause, move || due().is_some()).await;
            let due = (self.due)();
            if due.is_some() {
                let more = self.random.length(Duration::from_micros(100), SOON);
                self.world.sleep(more).await;
            }
            self.faults.set(self.faults.get() + 1);
            let longest = *self.random.pick(&[AT_ONCE, DEAD_MAX]);
            let host = due.unwrap_or_else(|| *self.random.pick(&self.hosts));
            self.die(host, true, longest).await;
        }
    }

    async fn die(&self, host: HostId, power_stays: bool, longest: Duration) {
        if !self.dead.borrow_mut().insert(host) {
            return;
        }
        (self.end)(host);
        self.world.kill(host, power_stays);
        let pause = self.random.length(Duration::from_millis(1), longest);
        self.world.sleep(pause).await;
        self.world.revive(host);
        self.dead.borrow_mut().remove(&host);
        (self.begin)(host);
    }

    async fn freeze(&self) {
        let host = *self.random.pick(&self.hosts);
        self.world.set_frozen(host, true);
        self.hold().await;
        self.world.set_frozen(host, false);
    }

    /// Cuts the way between two hosts, at times in one direction only.
    async fn part(&self) {
        let (one, other) = (*self.random.pick(&self.hosts), *self.random.pick(&self.hosts));
        let back = self.random.one_in(2);
        let set = |is_blocked| {
            self.world.set_blocked(one, other, is_blocked);
            if back {
                self.world.set_blocked(other, one, is_blocked);
            }
        };
        set(true);
        self.hold().await;
        set(false);
    }

    async fn hold(&self) {
        let length = self.random.length(Duration::from_millis(1), Duration::from_secs(40));
        self.world.sleep(length).await;
    }
}
