//! The loop of a shard on epoll: steps our driver, then runs each task that can run once.

use super::ExecutorStart;
use super::error::ExecutorError;
use crate::tasks::TaskExecutor;
use async_executor::LocalExecutor;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use perigee_reactor::Backend;
use std::rc::Rc;

pub(super) fn serve(start: ExecutorStart) {
    if let Some(cpu) = start.options.cpu
        && let Err(error) = pin(cpu)
    {
        let _ = start.ready.send(Err(ExecutorError::Thread(error.into())));
        return;
    }
    let executor = Rc::new(LocalExecutor::new());
    let Some(mut driver) = start.driver(Backend::Epoll, TaskExecutor::Local(executor.clone()))
    else {
        return;
    };
    loop {
        for _ in 0..driver.step() {
            executor.try_tick();
        }
    }
}

fn pin(cpu: usize) -> nix::Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu)?;
    sched_setaffinity(Pid::from_raw(0), &set)
}
