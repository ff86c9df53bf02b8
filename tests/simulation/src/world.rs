//! A run: virtual time, the tasks of all hosts, and the machine below them.
//!
//! Time jumps to the next event as soon as no task can run; each turn of a task costs a little, so
//! that what happens at one moment can happen in any order. Invariant: the whole run is a function
//! of its seed and of what its director does.

use crate::disk::DiskBehaviour;
use crate::environment::SimulatedEnvironment;
use crate::events::{Event, EventKey};
use crate::limits::{POLL_COST_NS_MAX, STEPS_MAX, STEPS_PER_INSPECTION};
use crate::network::{Core, Host, HostId, LinkConditions};
use crate::random::Random;
use crate::tasks::Tasks;
use std::cell::{Cell, RefCell, RefMut};
use std::future::Future;
use std::net::{IpAddr, Ipv4Addr};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// What is left when everything was closed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leftovers {
    /// Tasks of hosts.
    pub tasks: usize,
    /// Ends of connections.
    pub connections: usize,
    /// Listening ports.
    pub listeners: usize,
    /// Sleeps.
    pub sleeps: usize,
}

type Condition = Rc<dyn Fn() -> bool>;
type Inspection = Rc<dyn Fn()>;

/// A simulated world.
pub struct World {
    core: RefCell<Core>,
    tasks: Tasks,
    /// Conditions that tasks wait for.
    watched: RefCell<Vec<(Condition, Waker)>>,
    /// What is looked at between two steps.
    inspection: RefCell<Option<Inspection>>,
    violation: RefCell<Option<String>>,
    /// Whether tasks are being dropped, not ended.
    is_killing: Cell<bool>,
    steps: Cell<u64>,
}

impl World {
    /// An empty world that begins at a seed.
    pub fn new(seed: u64) -> Rc<Self> {
        Rc::new(Self {
            core: RefCell::new(Core::new(seed)),
            tasks: Tasks::default(),
            watched: RefCell::default(),
            inspection: RefCell::default(),
            violation: RefCell::default(),
            is_killing: Cell::new(false),
            steps: Cell::new(0),
        })
    }

    pub(crate) fn core(&self) -> RefMut<'_, Core> {
        self.core.borrow_mut()
    }

    pub(crate) fn is_killing(&self) -> bool {
        self.is_killing.get()
    }

    /// Time of the run.
    pub fn now(&self) -> Duration {
        self.core().now
    }

    /// A source of chance of its own, which others do not disturb.
    pub fn fork_random(&self) -> Random {
        Random::new(self.core().random.next())
    }

    /// A new host; its process can begin at once.
    pub fn add_host(&self) -> HostId {
        let mut core = self.core();
        let number = core.hosts.len();
        core.hosts.push(Host {
            // Addresses that are set aside for tests of networks, so that no real interface has
            // one.
            address: IpAddr::V4(Ipv4Addr::new(198, 18, 0, number as u8 + 1)),
            life: 0,
            is_up: true,
            is_frozen: false,
            frozen_at: Duration::ZERO,
            frozen_time: Duration::ZERO,
            next_port: crate::limits::FIRST_PORT,
        });
        number
    }

    /// What a new shard of the present process of a host sees.
    pub fn environment(self: &Rc<Self>, host: HostId) -> SimulatedEnvironment {
        let (life, address) = {
            let core = self.core();
            (core.hosts[host].life, core.hosts[host].address)
        };
        SimulatedEnvironment::new(self.clone(), host, life, address)
    }

    /// Runs a task that is on no host: it directs or watches.
    pub fn direct(&self, task: impl Future<Output = ()> + 'static) {
        self.tasks.spawn((None, true), task);
    }

    pub(crate) fn spawn(&self, host: HostId, life: u64, task: impl Future<Output = ()> + 'static) {
        if self.core().hosts[host].life == life {
            self.tasks.spawn((Some(host), true), task);
        }
    }

    /// Runs a task for as long as a process; it is not looked for when everything has to be closed.
    pub(crate) fn spawn_for_life(
        &self,
        (host, life): (HostId, u64),
        task: impl Future<Output = ()> + 'static,
    ) {
        if self.core().hosts[host].life == life {
            self.tasks.spawn((Some(host), false), task);
        }
    }

    /// Ends a host's process in the middle of whatever it does. Without power its peers see
    /// nothing.
    pub fn kill(&self, host: HostId, power_stays: bool) {
        self.core().end_process(host, power_stays);
        self.is_killing.set(true);
        self.tasks.kill(Some(host));
        self.is_killing.set(false);
    }

    /// Lets a new process begin where one has died.
    pub fn revive(&self, host: HostId) {
        self.core().begin_process(host);
    }

    /// Stops a host's process, or lets it go on. Its kernel goes on anyway.
    pub fn set_frozen(&self, host: HostId, is_frozen: bool) {
        self.core().set_frozen(host, is_frozen);
    }

    /// How long a host's process has stood still in all.
    pub fn frozen_time(&self, host: HostId) -> Duration {
        let core = self.core();
        let host = &core.hosts[host];
        let present = if host.is_frozen { core.now - host.frozen_at } else { Duration::ZERO };
        host.frozen_time + present
    }

    /// Lets nothing pass from one host to another, or lets it.
    pub fn set_blocked(&self, from: HostId, to: HostId, is_blocked: bool) {
        let mut core = self.core();
        core.note("blocked", (from * 1000 + to) as u64, u64::from(is_blocked));
        if is_blocked {
            core.blocked.insert((from, to));
        } else {
            core.blocked.remove(&(from, to));
        }
    }

    /// Changes all links.
    pub fn set_link_conditions(&self, conditions: LinkConditions) {
        self.core().link_conditions = conditions;
    }

    /// Changes how the disk of a host behaves.
    pub fn set_disk_behaviour(&self, host: HostId, behaviour: DiskBehaviour) {
        self.core().disk(host).behaviour = behaviour;
    }

    /// Syncs of a host's disk that have failed so far.
    pub fn failed_syncs(&self, host: HostId) -> u64 {
        self.core().disk(host).failed_syncs
    }

    /// Flips one bit of what the disk of a host has stored.
    pub fn flip_a_bit(&self, host: HostId) {
        self.core().flip_a_bit(host);
    }

    /// Breaks one of the connections there are.
    pub fn break_some_connection(&self) {
        let mut core = self.core();
        let numbers: Vec<u64> = core.connections.keys().copied().collect();
        if !numbers.is_empty() {
            let number = *core.random.pick(&numbers);
            core.break_connection(number);
        }
    }

    /// Adds a step of a scenario to the trace.
    pub fn note(&self, what: &'static str, subject: u64, detail: u64) {
        self.core().note(what, subject, detail);
    }

    /// A promise was broken: the run ends here. Only the first one counts.
    pub fn violate(&self, what: impl Into<String>) {
        self.violation.borrow_mut().get_or_insert_with(|| what.into());
    }

    /// Ends the run unless the condition holds.
    pub fn check(&self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.violate(what());
        }
    }

    /// Ends the run unless everything is closed.
    pub fn check_nothing_left(&self) {
        let left = self.leftovers();
        self.check(left == Leftovers::default(), || format!("Left behind: {left:?}"));
    }

    /// Calls `look` now and then, between two steps. It panics, or ends the run, if records of the
    /// code under test disagree.
    pub fn inspect(&self, look: impl Fn() + 'static) {
        *self.inspection.borrow_mut() = Some(Rc::new(look));
    }

    /// Resolves after a length of the run's time.
    pub fn sleep(self: &Rc<Self>, length: Duration) -> Sleep {
        let due = self.now() + length;
        Sleep { world: self.clone(), due, key: None }
    }

    /// Resolves as soon as a condition holds.
    pub fn until(self: &Rc<Self>, condition: impl Fn() -> bool + 'static) -> Until {
        Until { world: self.clone(), condition: Rc::new(condition) }
    }

    /// Resolves as soon as a condition holds, or after a length of the run's time.
    pub async fn until_at_most(
        self: &Rc<Self>,
        length: Duration,
        condition: impl Fn() -> bool + 'static,
    ) {
        let late = async {
            self.sleep(length).await;
        };
        futures_lite::future::or(self.until(condition), late).await;
    }

    /// Runs until `done`, which must come before `limit` of the run's time.
    ///
    /// # Errors
    /// A promise was broken, nothing can go on, or the run takes too long; the text says which.
    pub fn run(&self, limit: Duration, done: impl Fn() -> bool) -> Result<(), String> {
        while !done() {
            let progressed = self.step();
            if self.steps.get().is_multiple_of(STEPS_PER_INSPECTION) {
                self.look();
            }
            if let Some(violation) = self.violation.take() {
                return Err(violation);
            }
            if !progressed {
                return Err("Nothing can go on, and the run is not over".to_owned());
            }
            if self.now() > limit {
                return Err(format!("The run is not over after {limit:?}"));
            }
            self.steps.set(self.steps.get() + 1);
            if self.steps.get() > STEPS_MAX {
                return Err(format!("The run goes round in circles: {STEPS_MAX} steps"));
            }
        }
        Ok(())
    }

    /// What hosts have left open. What no host can notice, such as the peer of a host without
    /// power, counts too.
    pub fn leftovers(&self) -> Leftovers {
        let core = self.core();
        Leftovers {
            tasks: self.tasks.on_hosts(),
            connections: core.connections.values().map(|found| found.open_ends()).sum(),
            listeners: core.listeners.len(),
            sleeps: core.events.sleeps(),
        }
    }

    /// Ends everything. The world cannot be used afterwards.
    pub fn end(&self) {
        self.is_killing.set(true);
        self.tasks.kill(None);
        self.watched.take();
        self.inspection.take();
        let (events, connections) = {
            let mut core = self.core();
            (core.events.clear(), std::mem::take(&mut core.connections))
        };
        drop((events, connections));
    }

    /// Hash over all steps so far, and their number.
    pub fn trace_hash(&self) -> (u64, u64) {
        let core = self.core();
        (core.trace.hash(), core.trace.steps())
    }

    /// The last steps, one a line.
    pub fn last_steps(&self) -> String {
        self.core().trace.to_string()
    }

    /// One turn of a task, or one event; false if there is neither.
    fn step(&self) -> bool {
        let due = {
            let core = self.core();
            core.events.next_at().is_some_and(|at| at <= core.now)
        };
        let drawn = if due && self.core().random.one_in(2) { None } else { self.draw() };
        if let Some(task) = drawn {
            {
                let mut core = self.core();
                let cost = core.random.below(POLL_COST_NS_MAX);
                core.now += Duration::from_nanos(cost);
                core.note("task", task, 0);
            }
            self.tasks.poll(task);
        } else if !self.happen() {
            return false;
        }
        self.wake_watchers();
        true
    }

    fn draw(&self) -> Option<u64> {
        let core = self.core();
        self.tasks.draw(&core.random, |host| core.hosts[host].is_frozen)
    }

    /// The next event happens, at its time or now if that has passed.
    fn happen(&self) -> bool {
        let mut core = self.core();
        let Some(at) = core.events.next_at() else {
            return false;
        };
        core.now = core.now.max(at);
        match core.events.pop() {
            Some(Event::Arrive(arrival)) => core.arrive(arrival),
            Some(Event::Disk(host, task)) => core.disk_task_ends(host, task),
            Some(Event::Wake(waker)) => {
                drop(core);
                waker.wake();
            }
            None => {}
        }
        true
    }

    fn look(&self) {
        let inspection = self.inspection.borrow().clone();
        if let Some(look) = inspection {
            look();
        }
    }

    fn wake_watchers(&self) {
        let mut watched = self.watched.take();
        let mut woken = Vec::new();
        watched.retain(|(condition, waker)| {
            let holds = condition();
            if holds {
                woken.push(waker.clone());
            }
            !holds
        });
        self.watched.borrow_mut().append(&mut watched);
        woken.into_iter().for_each(Waker::wake);
    }
}

/// A wait for a moment.
pub struct Sleep {
    world: Rc<World>,
    due: Duration,
    key: Option<EventKey>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let world = self.world.clone();
        let mut core = world.core();
        let earlier = self.key.take().and_then(|key| core.events.take_back(key));
        if core.now < self.due {
            let wake = Event::Wake(context.waker().clone());
            self.key = Some(core.events.plan(self.due, wake));
        }
        drop((core, earlier));
        if self.key.is_some() { Poll::Pending } else { Poll::Ready(()) }
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(key) = self.key.take() {
            let event = self.world.core().events.take_back(key);
            drop(event);
        }
    }
}

/// A wait for a condition.
pub struct Until {
    world: Rc<World>,
    condition: Condition,
}

impl Future for Until {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if (self.condition)() {
            return Poll::Ready(());
        }
        let watch = (self.condition.clone(), context.waker().clone());
        self.world.watched.borrow_mut().push(watch);
        Poll::Pending
    }
}
