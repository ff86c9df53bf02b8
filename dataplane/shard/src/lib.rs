//! Thread-per-core executors behind one seam; the only crate that knows glommio.
//!
//! [`Environment`] is what the data plane sees of the machine: clock, tasks, timers, sockets, randomness.
//! [`Shard`] runs code on an executor thread that drives its own ring and polls adaptively. The invariant: everything
//! that belongs to a shard stays on its thread; other threads only post jobs to its mailbox.

mod admission;
mod call;
mod clock;
mod deadline;
mod discipline;
mod driver;
mod environment;
mod executor;
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
mod timer;
mod watchdog;

pub use admission::{Admission, Admitted};
pub use call::Call;
pub use clock::{monotonic, monotonic_ms};
pub use deadline::{at_most, connect_within, within};
pub use discipline::{ClockDiscipline, clock_discipline};
pub use environment::{Environment, Listener, Stream};
pub use executor::{ExecutorError, check_memlock};
pub use limits::{ACCEPT_PAUSE, MEMLOCK_BYTES_MIN, POLL_DEFAULT};
pub use local::Local;
pub use mailbox::{Job, Mailbox};
pub use patience::Patience;
pub use perigee_ring::{Congestion, Guard, Message, SocketError, connect_blocking};
pub use poller::Poller;
pub use shard::{Shard, ShardOptions, StopError};
pub use shard_of::{ShardOf, StartError};
pub use stream::{RingListener, RingStream, ShardEnvironment};
pub use watchdog::Watchdog;
