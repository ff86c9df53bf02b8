//! The tasks of all hosts on one thread. Invariant: which of the ready ones runs next is drawn from
//! the seed, never from the order in which they were woken.

use crate::network::HostId;
use crate::random::Random;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Wake, Waker};

type Work = Pin<Box<dyn Future<Output = ()>>>;

/// Numbers of tasks that want to run. The lock makes wakers sendable; only one thread ever takes
/// it.
#[derive(Default)]
struct Ready(Mutex<BTreeSet<u64>>);

impl Ready {
    fn lock(&self) -> MutexGuard<'_, BTreeSet<u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Alarm {
    task: u64,
    ready: Arc<Ready>,
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.ready.lock().insert(self.task);
    }
}

struct Task {
    /// `None` for the director of the run, who is on no host.
    host: Option<HostId>,
    /// Whether it ends by itself; others run for as long as their process.
    ends: bool,
    /// Absent while it runs.
    work: Option<Work>,
    waker: Waker,
}

/// All tasks.
#[derive(Default)]
pub(crate) struct Tasks {
    tasks: RefCell<BTreeMap<u64, Task>>,
    ready: Arc<Ready>,
    spawned: Cell<u64>,
}

impl Tasks {
    pub(crate) fn spawn(
        &self,
        (host, ends): (Option<HostId>, bool),
        work: impl Future<Output = ()> + 'static,
    ) {
        let number = self.spawned.get();
        self.spawned.set(number + 1);
        let alarm = Alarm { task: number, ready: self.ready.clone() };
        let task =
            Task { host, ends, work: Some(Box::pin(work)), waker: Waker::from(Arc::new(alarm)) };
        self.tasks.borrow_mut().insert(number, task);
        self.ready.lock().insert(number);
    }

    /// Draws one of the tasks that can run.
    pub(crate) fn draw(&self, random: &Random, is_frozen: impl Fn(HostId) -> bool) -> Option<u64> {
        let tasks = self.tasks.borrow();
        let mut ready = self.ready.lock();
        ready.retain(|number| tasks.contains_key(number));
        let can_run = |number: &&u64| {
            let host = tasks.get(number).and_then(|task| task.host);
            !host.is_some_and(&is_frozen)
        };
        let count = ready.iter().filter(can_run).count() as u64;
        if count == 0 {
            return None;
        }
        let drawn = ready.iter().filter(can_run).nth(random.below(count) as usize).copied();
        drawn.inspect(|number| {
            ready.remove(number);
        })
    }

    /// Runs a task until its next wait.
    pub(crate) fn poll(&self, number: u64) {
        let taken = self
            .tasks
            .borrow_mut()
            .get_mut(&number)
            .and_then(|task| Some((task.work.take()?, task.waker.clone())));
        let Some((mut work, waker)) = taken else {
            return;
        };
        let ended = work.as_mut().poll(&mut Context::from_waker(&waker)).is_ready();
        let mut tasks = self.tasks.borrow_mut();
        if ended {
            tasks.remove(&number);
        } else if let Some(task) = tasks.get_mut(&number) {
            task.work = Some(work);
            return;
        }
        // What it held is dropped when nothing is borrowed: drops come back here.
        drop(tasks);
        drop(work);
    }

    /// Drops the tasks of a host, or all.
    pub(crate) fn kill(&self, host: Option<HostId>) {
        let dies = |task: &Task| host.is_none() || task.host == host;
        let mut tasks = self.tasks.borrow_mut();
        let numbers: Vec<u64> =
            tasks.iter().filter(|(_, task)| dies(task)).map(|(number, _)| *number).collect();
        let dead: Vec<_> = numbers.iter().filter_map(|number| tasks.remove(number)).collect();
        drop(tasks);
        drop(dead);
    }

    /// How many tasks hosts have, without those that run for as long as their process.
    pub(crate) fn on_hosts(&self) -> usize {
        self.tasks.borrow().values().filter(|task| task.host.is_some() && task.ends).count()
    }
}
