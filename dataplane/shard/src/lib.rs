//! Thread-per-core executors behind one seam; the only crate that knows glommio.
//!
//! [`Environment`] is what a shard sees of the machine: clock, tasks, timers, sockets, randomness, other shards.
//! [`Shard`] runs code on an executor thread that drives its own reactor, io_uring or epoll, and polls adaptively. The
//! invariant: everything that belongs to a shard stays on its thread; other threads only post jobs to its mailbox.
#![deny(unsafe_code)]

mod admission;
mod call;
mod clock;
mod deadline;
mod descriptors;
mod discipline;
mod driver;
mod environment;
mod executor;
pub mod heap;
mod interruption;
mod limits;
mod local;
mod mailbox;
mod patience;
mod poller;
mod pool;
mod runnable;
mod shard;
mod shard_of;
mod stream;
mod tasks;
mod timer;
mod watchdog;

pub use admission::{Admission, Admitted};
pub use call::Call;
pub use clock::{monotonic, monotonic_ms};
pub use deadline::{at_most, connect_within, within};
pub use descriptors::check_descriptors;
pub use discipline::{ClockDiscipline, clock_discipline};
pub use environment::{Environment, Listener, Post, Stream};
pub use executor::ExecutorError;
pub use interruption::{
    INTERRUPTION_PAUSE, Interruptible, interruptible, is_interrupted, poll_interruption, wait_step,
};
pub use limits::{ACCEPT_PAUSE, POLL_DEFAULT};
pub use local::{Local, Locals};
pub use mailbox::{Job, Mailbox};
pub use patience::Patience;
pub use perigee_reactor::{
    Backend, Choice, ChoiceError, Congestion, Guard, MEMLOCK_BYTES_MIN, Message, Refusal,
    SocketError, choice, connect_blocking, probe, reactor_name,
};
pub use poller::Poller;
pub use shard::{Shard, ShardOptions, StopError};
pub use shard_of::{ShardOf, StartError};
pub use stream::{ShardEnvironment, ShardListener, ShardStream};
pub use watchdog::Watchdog;
