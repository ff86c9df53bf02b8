//! What a shard sees of the machine. Production implements it on io_uring or epoll, simulation with
//! a seed.

use crate::call::{Call, CallReply};
use crate::files::Files;
use crate::local::{Local, Locals};
use crate::mailbox::Job;
use perigee_reactor::Message;
use std::fmt::Debug;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::time::Duration;

/// Clock, tasks, timers, sockets, files and randomness of one shard, and the way to other shards.
pub trait Environment: Clone + 'static {
    /// A connected byte stream.
    type Stream: Stream;
    /// A listening socket.
    type Listener: Listener<Stream = Self::Stream>;
    /// The files of its host.
    type Files: Files;
    /// The way to a shard.
    type Mailbox: Post<Self>;

    /// Monotonic time since an arbitrary start.
    fn now(&self) -> Duration;

    /// [`Environment::now`] in whole milliseconds.
    fn now_ms(&self) -> u64 {
        self.now().as_millis() as u64
    }

    /// Milliseconds since 1970, for people to read. Nothing is decided by it.
    fn wall_ms(&self) -> u64;

    /// How long this shard's thread waited lately for a core, for each time it got one; zero where
    /// that is not counted. It is now `now`.
    fn core_wait(&self, _now: Duration) -> Duration {
        Duration::ZERO
    }

    /// A random number.
    fn random(&self) -> u64;

    /// Runs a task on this shard, beside the others.
    fn spawn(&self, task: impl Future<Output = ()> + 'static);

    /// Resolves after `length`.
    fn sleep(&self, length: Duration) -> impl Future<Output = ()>;

    /// Connects to a peer, tuned for data. The caller bounds the wait.
    fn connect(&self, address: SocketAddr) -> impl Future<Output = io::Result<Self::Stream>>;

    /// Listens on an address; `shared` allows several shards on one port.
    ///
    /// # Errors
    /// The port is taken or the address is not of this host.
    fn listen(
        &self,
        address: SocketAddr,
        shared: bool,
    ) -> Result<Self::Listener, perigee_reactor::SocketError>;

    /// The files of this host.
    fn files(&self) -> Self::Files;

    /// The way other shards and threads reach this one.
    fn mailbox(&self) -> &Self::Mailbox;

    /// The values kept on this shard.
    fn locals(&self) -> &Locals;

    /// Keeps a value on this shard; the returned name finds it again from any job.
    fn keep<T: 'static>(&self, value: Rc<T>) -> Local<T> {
        self.locals().keep(value)
    }

    /// The value of a name, unless it was given up.
    fn local<T: 'static>(&self, name: Local<T>) -> Option<Rc<T>> {
        self.locals().get(name)
    }

    /// Gives a kept value up.
    fn give_up<T>(&self, name: Local<T>) {
        self.locals().give_up(name);
    }

    /// Runs `work` on the shard of `to`. The job is on its way before the call is first polled, so
    /// several shards can work at once.
    fn call<R: Send + 'static>(
        &self,
        to: &Self::Mailbox,
        work: impl FnOnce(&Self) -> R + Send + 'static,
    ) -> Call<Self, R> {
        Call::post(self, to, work)
    }

    /// As [`Environment::call`], for work that answers later.
    fn call_later<R: Send + 'static>(
        &self,
        to: &Self::Mailbox,
        work: impl FnOnce(&Self, CallReply<Self, R>) + Send + 'static,
    ) -> Call<Self, R> {
        let (call, reply) = self.ask();
        to.post(Box::new(move |theirs: &Self| work(theirs, reply)));
        call
    }

    /// A question that any thread can answer, and the way back for its answer.
    fn ask<R: Send + 'static>(&self) -> (Call<Self, R>, CallReply<Self, R>) {
        Call::new(self)
    }
}

/// The way to a shard from other shards: jobs run there one after the other, in the order in which
/// they were posted.
pub trait Post<E>: Clone + Debug + Send + Sync + 'static {
    /// Posts a job; false if the shard is gone.
    fn post(&self, job: Job<E>) -> bool;
}

/// A connected byte stream. Clones share the connection.
pub trait Stream: Clone + 'static {
    /// Receives some bytes behind the contents of `buffer`, up to its capacity; 0 bytes mean the
    /// peer has finished.
    fn receive(&self, buffer: Vec<u8>) -> impl Future<Output = (io::Result<usize>, Vec<u8>)> {
        self.receive_up_to(buffer, usize::MAX)
    }

    /// As [`Stream::receive`], but never more than `limit` bytes: a vector may have more capacity
    /// than was asked for.
    fn receive_up_to(
        &self,
        buffer: Vec<u8>,
        limit: usize,
    ) -> impl Future<Output = (io::Result<usize>, Vec<u8>)>;

    /// Fills the whole message or fails.
    fn receive_message(&self, message: Message) -> impl Future<Output = io::Result<()>>;

    /// Sends the whole message or fails.
    fn send_message(&self, message: Message) -> impl Future<Output = io::Result<()>>;

    /// Breaks the connection: all waits on it end.
    fn shutdown(&self);

    /// Whether a connection on which nothing is awaited is still open: the peer has neither ended
    /// it nor sent anything. What the kernel has not heard of yet does not show.
    fn is_quiet(&self) -> bool;

    /// Whether the host of the peer is gone without a word. A simulated kernel breaks the
    /// connection by itself.
    fn has_vanished(&self) -> bool {
        self.socket().is_some_and(perigee_reactor::has_vanished)
    }

    /// The address of this side, which tells the NIC.
    ///
    /// # Errors
    /// The connection is gone.
    fn local_address(&self) -> io::Result<SocketAddr>;

    /// The socket behind it, for those who ask the kernel how the connection does; `None` in a
    /// simulation.
    fn socket(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// A listening socket.
pub trait Listener: 'static {
    /// What it accepts.
    type Stream: Stream;

    /// Waits for the next connection.
    fn accept(&self) -> impl Future<Output = io::Result<Self::Stream>>;

    /// Stops listening: a waiting [`Listener::accept`] fails.
    fn close(&self);

    /// The address it listens on, with the port that was chosen.
    ///
    /// # Errors
    /// The socket is gone.
    fn local_address(&self) -> io::Result<SocketAddr>;
}
