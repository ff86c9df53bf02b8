//! One executor thread: glommio's loop with our driver in it.

use crate::driver::Driver;
use crate::limits::{
    GLOMMIO_MEMORY_BYTES, GLOMMIO_RING_ENTRIES, MEMLOCK_BYTES_MIN, START_DEADLINE,
};
use crate::mailbox::{Mailbox, mailbox};
use crate::stream::ShardEnvironment;
use glommio::{LocalExecutorBuilder, Placement};
use nix::sys::resource::{Resource, getrlimit};
use perigee_ring::{Ring, RingError};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// When glommio's loop takes the tasks' turn away from them. It must not: if its timer has run out before the first task
/// has run, because the thread lost its core for that long, it parks as if there were no task, and nothing ends that. For
/// the same reason there are no latency queues. Our driver never ends its turn, and does what the loop would do.
const NEVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// Why an executor could not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExecutorError {
    /// The limit of locked memory is too small for io_uring.
    #[error(
        "The limit of locked memory is {limit} bytes and an executor needs {MEMLOCK_BYTES_MIN}: raise it with \
         `ulimit -l unlimited`, LimitMEMLOCK=infinity in the systemd unit, or a container's memlock ulimit"
    )]
    Memlock {
        /// The present soft limit in bytes.
        limit: u64,
    },
    /// The kernel's ring is not to be had.
    #[error(transparent)]
    Ring(#[from] RingError),
    /// The thread or its wake-up descriptor could not be made.
    #[error("Cannot start an executor thread: {0}")]
    Thread(std::io::Error),
    /// glommio refused.
    #[error("Cannot start an executor: {0}")]
    Glommio(String),
    /// The thread did not come up in time.
    #[error("The executor thread did not start within {0:?}")]
    Late(Duration),
}

/// Checks the limit of locked memory before anything is started.
///
/// # Errors
/// The limit is too small; the message says how to raise it.
pub fn check_memlock() -> Result<(), ExecutorError> {
    let (soft, _) =
        getrlimit(Resource::RLIMIT_MEMLOCK).map_err(|errno| ExecutorError::Thread(errno.into()))?;
    if soft < MEMLOCK_BYTES_MIN {
        return Err(ExecutorError::Memlock { limit: soft });
    }
    Ok(())
}

/// Where and how an executor runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExecutorOptions {
    pub(crate) name: String,
    pub(crate) cpu: Option<usize>,
    pub(crate) poll: Duration,
}

/// Starts an executor thread and waits until it takes jobs. The thread serves until the process ends: glommio leaks a
/// descriptor per ended executor, so ended shards give theirs back to the pool instead.
pub(crate) fn start(options: &ExecutorOptions) -> Result<Mailbox, ExecutorError> {
    check_memlock()?;
    let (outbox, inbox) = mailbox().map_err(ExecutorError::Thread)?;
    let (ready, started) = channel();
    let wanted = options.clone();
    let own = outbox.clone();
    let seed = getrandom::u64().map_err(|error| ExecutorError::Thread(error.into()))?;
    std::thread::Builder::new()
        .name(options.name.clone())
        .spawn(move || serve(&wanted, inbox, own, seed, &ready))
        .map_err(ExecutorError::Thread)?;
    match started.recv_timeout(START_DEADLINE) {
        Ok(result) => result.map(|()| outbox),
        Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
            Err(ExecutorError::Late(START_DEADLINE))
        }
    }
}

fn serve(
    options: &ExecutorOptions,
    inbox: crate::mailbox::Inbox,
    own: Mailbox,
    seed: u64,
    ready: &Sender<Result<(), ExecutorError>>,
) {
    let placement = options.cpu.map_or(Placement::Unbound, Placement::Fixed);
    let executor = LocalExecutorBuilder::new(placement)
        .name(&options.name)
        .preempt_timer(NEVER)
        .io_memory(GLOMMIO_MEMORY_BYTES)
        .ring_depth(GLOMMIO_RING_ENTRIES)
        .make();
    let executor = match executor {
        Ok(executor) => executor,
        Err(error) => {
            let _ = ready.send(Err(ExecutorError::Glommio(error.to_string())));
            return;
        }
    };
    let poll = options.poll;
    executor.run(async move {
        match Ring::new(inbox.bell.descriptor()) {
            Err(error) => {
                let _ = ready.send(Err(error.into()));
            }
            Ok(ring) => {
                let environment = ShardEnvironment::new(ring, seed, own);
                let _ = ready.send(Ok(()));
                Driver::new(environment, inbox, poll).run().await;
            }
        }
    });
}
