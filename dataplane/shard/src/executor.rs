//! One executor thread: a loop that runs tasks and steps our driver between them.

pub(crate) mod error;
mod glommio_loop;
mod local_loop;

use crate::descriptors::check_descriptors;
use crate::driver::Driver;
use crate::limits::{EXECUTOR_DESCRIPTORS, START_DEADLINE};
use crate::mailbox::{Inbox, Mailbox, mailbox};
use crate::stream::ShardEnvironment;
use crate::tasks::TaskExecutor;
use error::ExecutorError;
use perigee_reactor::{Backend, Reactor, choice, note_shard};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Where and how an executor runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExecutorOptions {
    pub(crate) name: String,
    pub(crate) cpu: Option<usize>,
    pub(crate) poll: Duration,
}

/// What an executor thread starts with.
struct ExecutorStart {
    options: ExecutorOptions,
    inbox: Inbox,
    own: Mailbox,
    seed: u64,
    ready: Sender<Result<(), ExecutorError>>,
}

/// Starts an executor thread and waits until it takes jobs. The thread serves until the process
/// ends: glommio leaks a descriptor per ended executor, so ended shards give theirs back to the
/// pool instead.
pub(crate) fn start(options: &ExecutorOptions) -> Result<Mailbox, ExecutorError> {
    check_descriptors(EXECUTOR_DESCRIPTORS)?;
    let choice = choice()?;
    match start_on(choice.backend, options) {
        Err(error) if error.is_of_io_uring() && !choice.is_asked_for => {
            tracing::warn!(shard = options.name, %error, "io_uring is refused to this shard, it runs on epoll");
            start_on(Backend::Epoll, options)
        }
        started => started,
    }
}

fn start_on(backend: Backend, options: &ExecutorOptions) -> Result<Mailbox, ExecutorError> {
    let (outbox, inbox) = mailbox().map_err(ExecutorError::Thread)?;
    let (ready, started) = channel();
    let start = ExecutorStart {
        options: options.clone(),
        inbox,
        own: outbox.clone(),
        seed: getrandom::u64().map_err(|error| ExecutorError::Thread(error.into()))?,
        ready,
    };
    let serve = match backend {
        Backend::IoUring => glommio_loop::serve,
        Backend::Epoll => local_loop::serve,
    };
    std::thread::Builder::new()
        .name(options.name.clone())
        .spawn(move || serve(start))
        .map_err(ExecutorError::Thread)?;
    match started.recv_timeout(START_DEADLINE) {
        Ok(result) => {
            result?;
            note_shard(backend);
            Ok(outbox)
        }
        Err(RecvTimeoutError::Timeout) => Err(ExecutorError::Late(START_DEADLINE)),
        Err(RecvTimeoutError::Disconnected) => Err(ExecutorError::Ended),
    }
}

impl ExecutorStart {
    /// The driver of this thread's shard; the starter already knows that the thread takes jobs.
    fn driver(self, backend: Backend, tasks: TaskExecutor) -> Option<Driver> {
        match Reactor::new(backend, self.inbox.bell.descriptor()) {
            Err(error) => {
                let _ = self.ready.send(Err(error.into()));
                None
            }
            Ok(reactor) => {
                let environment = ShardEnvironment::new(reactor, tasks, self.seed, self.own);
                let _ = self.ready.send(Ok(()));
                Some(Driver::new(environment, self.inbox, self.options.poll))
            }
        }
    }
}
