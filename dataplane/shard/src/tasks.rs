//! Where tasks of a shard are spawned: on the executor of its thread.

use async_executor::LocalExecutor;
use std::future::Future;
use std::rc::Rc;

/// The executor of a shard's thread.
#[derive(Clone)]
pub(crate) enum TaskExecutor {
    Glommio,
    Local(Rc<LocalExecutor<'static>>),
}

impl TaskExecutor {
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        match self {
            TaskExecutor::Glommio => drop(glommio::spawn_local(task).detach()),
            TaskExecutor::Local(executor) => executor.spawn(task).detach(),
        }
    }
}
