//! Thread-per-core executors behind one seam; the only crate that knows glommio.
//!
//! [`Environment`] is what a shard sees of the machine: clock, tasks, timers, sockets, files,
//! randomness, other shards. [`Shard`] runs code on an executor thread that drives its own reactor,
//! io_uring or epoll, and polls adaptively. The invariant: everything that belongs to a shard stays
//! on its thread; other threads only post jobs to its mailbox.
#![deny(unsafe_code)]

mod admission;
mod call;
mod clock;
mod clock_sync;
mod core_waits;
mod deadline;
mod descriptors;
mod driver;
mod environment;
mod executor;
mod files;
pub mod heap;
mod interruption;
mod limits;
mod local;
mod lock_reach;
mod mailbox;
mod measured_sleep;
mod own_process;
mod periodic;
mod poller;
mod pool;
mod shard;
mod shard_files;
mod shard_of;
mod spin;
mod stream;
mod tasks;
mod timer;
mod wake_count;
mod watchdog;

pub use admission::{Admission, Admitted};
pub use call::{Call, CallReply};
pub use clock::{monotonic, monotonic_ms};
pub use clock_sync::{ClockDiscipline, clock_discipline};
pub use deadline::{at_most, connect_within, within};
pub use descriptors::check_descriptors;
pub use environment::{Environment, Listener, Post, Stream};
pub use executor::error::ExecutorError;
pub use files::{File, FileOptions, Files};
pub use interruption::{
    INTERRUPTION_PAUSE, Interruptible, interruptible, is_interrupted, is_interruptible,
    poll_interruption, wait_step,
};
pub use limits::{ACCEPT_PAUSE, POLL_DEFAULT};
pub use local::{Local, Locals};
pub use mailbox::{Job, Mailbox};
pub use measured_sleep::MeasuredSleep;
pub use own_process::OwnProcess;
pub use perigee_reactor::{
    Backend, BackendChoice, ChoiceError, Congestion, Guard, MEMLOCK_BYTES_MIN, Message,
    RingRegistration, SocketError, UringUnavailable, choice, connect_blocking, has_vanished,
    is_quiet, probe, reactor_name,
};
pub use periodic::Periodic;
pub use poller::Poller;
pub use shard::{Shard, ShardOptions, StopError};
pub use shard_files::{ShardFile, ShardFiles};
pub use shard_of::{ShardOf, ShardStartError};
pub use spin::SpinWait;
pub use stream::{ShardEnvironment, ShardListener, ShardStream};
pub use watchdog::Watchdog;
