//! One executor thread: a loop that runs tasks and steps our driver between them.

mod glommio_loop;
mod local_loop;

use crate::descriptors::check_descriptors;
use crate::driver::Driver;
use crate::limits::{EXECUTOR_DESCRIPTORS, START_DEADLINE};
use crate::mailbox::{Inbox, Mailbox, mailbox};
use crate::stream::ShardEnvironment;
use crate::tasks::Tasks;
use perigee_reactor::{Backend, ChoiceError, Reactor, ReactorError, choice};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Why an executor could not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExecutorError {
    /// The limit of open files is too small.
    #[error(
        "The limit of open files is {limit}, {open} are open, and {needed} more are needed to start: raise it with \
         `ulimit -n 65536`, LimitNOFILE= in the systemd unit, or a container's nofile ulimit"
    )]
    Descriptors {
        /// The present soft limit.
        limit: u64,
        /// Open descriptors.
        open: u64,
        /// Descriptors that are needed besides.
        needed: u64,
    },
    /// No reactor was chosen.
    #[error(transparent)]
    Choice(#[from] ChoiceError),
    /// The kernel's ring or epoll set is not to be had.
    #[error(transparent)]
    Reactor(#[from] ReactorError),
    /// The thread or its wake-up descriptor could not be made.
    #[error("Cannot start an executor thread: {0}")]
    Thread(std::io::Error),
    /// glommio refused.
    #[error("Cannot start an executor: {0}")]
    Glommio(String),
    /// The thread ended before it took jobs.
    #[error("The executor thread ended while it started; the log says why")]
    Ended,
    /// The thread did not come up in time.
    #[error("The executor thread did not start within {0:?}")]
    Late(Duration),
}

/// Where and how an executor runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExecutorOptions {
    pub(crate) name: String,
    pub(crate) cpu: Option<usize>,
    pub(crate) poll: Duration,
}

/// What an executor thread starts with.
struct Start {
    options: ExecutorOptions,
    inbox: Inbox,
    own: Mailbox,
    seed: u64,
    ready: Sender<Result<(), ExecutorError>>,
}

/// Starts an executor thread and waits until it takes jobs. The thread serves until the process ends: glommio leaks a
/// descriptor per ended executor, so ended shards give theirs back to the pool instead.
pub(crate) fn start(options: &ExecutorOptions) -> Result<Mailbox, ExecutorError> {
    check_descriptors(EXECUTOR_DESCRIPTORS)?;
    let backend = choice()?.backend;
    let (outbox, inbox) = mailbox().map_err(ExecutorError::Thread)?;
    let (ready, started) = channel();
    let start = Start {
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
        Ok(result) => result.map(|()| outbox),
        Err(RecvTimeoutError::Timeout) => Err(ExecutorError::Late(START_DEADLINE)),
        Err(RecvTimeoutError::Disconnected) => Err(ExecutorError::Ended),
    }
}

impl Start {
    /// The driver of this thread's shard, once it is told that the thread takes jobs.
    fn driver(self, backend: Backend, tasks: Tasks) -> Option<Driver> {
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
