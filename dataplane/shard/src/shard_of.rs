//! A shard with one value of its own: made on its thread, reached by its name, given up at its end.
//! All shards that work for other threads are started this way.

use crate::environment::Environment;
use crate::executor::error::ExecutorError;
use crate::local::Local;
use crate::mailbox::Mailbox;
use crate::shard::{Shard, ShardOptions, StopError};
use crate::stream::ShardEnvironment;
use std::rc::Rc;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

/// Why a shard did not start.
#[derive(Debug, thiserror::Error)]
pub enum ShardStartError<E> {
    /// The executor cannot be started.
    #[error(transparent)]
    Executor(ExecutorError),
    /// The value could not be made.
    #[error(transparent)]
    Value(E),
    /// The shard did not report in time.
    #[error("A shard did not come up within {0:?}")]
    Late(Duration),
}

/// A shard and the value that lives on it.
pub struct ShardOf<T> {
    shard: Shard,
    value: Local<T>,
}

impl<T: 'static> ShardOf<T> {
    /// Starts a shard: `make` makes its value, with a report for the caller, and `run` is its main
    /// task, whose end is the shard's. Waits at most `deadline` for the report.
    ///
    /// # Errors
    /// The executor cannot be started, the value could not be made, or it took too long.
    pub fn start<R, E>(
        options: ShardOptions,
        deadline: Duration,
        make: impl AsyncFnOnce(&ShardEnvironment) -> Result<(Rc<T>, R), E> + Send + 'static,
        run: impl AsyncFnOnce(Rc<T>) + Send + 'static,
    ) -> Result<(Self, R), ShardStartError<E>>
    where
        R: Send + 'static,
        E: Send + 'static,
    {
        let (sender, receiver) = sync_channel(1);
        let shard = Shard::start(options, move |environment| async move {
            let (value, report) = match make(&environment).await {
                Ok(made) => made,
                Err(error) => {
                    let _ = sender.send(Err(error));
                    return;
                }
            };
            let name = environment.keep(value.clone());
            if sender.send(Ok((name, report))).is_ok() {
                run(value).await;
            }
            environment.give_up(name);
        })
        .map_err(ShardStartError::Executor)?;
        match receiver.recv_timeout(deadline) {
            Ok(Ok((value, report))) => Ok((Self { shard, value }, report)),
            Ok(Err(error)) => {
                // Its main task has ended: the executor is free again.
                let _ = shard.join(deadline);
                Err(ShardStartError::Value(error))
            }
            Err(_) => Err(ShardStartError::Late(deadline)),
        }
    }

    /// Has the shard do something with its value; false if it is gone. A job that finds no value is
    /// dropped.
    pub fn with(&self, work: impl FnOnce(&Rc<T>) + Send + 'static) -> bool {
        let name = self.value;
        self.shard.post(Box::new(move |environment| {
            if let Some(value) = environment.local(name) {
                work(&value);
            }
        }))
    }

    /// The name of the value, for jobs of others.
    pub fn name(&self) -> Local<T> {
        self.value
    }

    /// The way to post jobs from any thread.
    pub fn mailbox(&self) -> Mailbox {
        self.shard.mailbox()
    }

    /// Waits until the main task has ended and gives the executor back.
    ///
    /// # Errors
    /// The main task is still running when `deadline` has passed.
    pub fn join(self, deadline: Duration) -> Result<(), StopError> {
        self.shard.join(deadline)
    }
}

impl<T> std::fmt::Debug for ShardOf<T> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("ShardOf").field("shard", &self.shard).finish_non_exhaustive()
    }
}
