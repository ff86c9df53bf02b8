//! The production environment: sockets on our ring, tasks on glommio, timers in the driver.

use crate::clock::monotonic;
use crate::environment::{Environment, Listener, Stream};
use crate::local::{Local, Locals};
use crate::mailbox::Mailbox;
use crate::poller::{Poller, Pollers};
use crate::runnable::Runnable;
use crate::timer::Timers;
use perigee_ring::{
    Congestion, Finished, Message, Operation, Ring, SocketError, connect_socket, listen_socket,
    shutdown,
};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::rc::Rc;
use std::time::Duration;

/// One shard as its tasks see it.
#[derive(Clone)]
pub struct ShardEnvironment {
    pub(crate) ring: Rc<Ring>,
    pub(crate) timers: Rc<Timers>,
    pub(crate) pollers: Rc<Pollers>,
    pub(crate) runnable: Runnable,
    pub(crate) congestion: Rc<RefCell<Congestion>>,
    random: Rc<Cell<u64>>,
    locals: Rc<Locals>,
    mailbox: Mailbox,
}

impl ShardEnvironment {
    pub(crate) fn new(ring: Rc<Ring>, seed: u64, mailbox: Mailbox) -> Self {
        Self {
            ring,
            timers: Rc::default(),
            pollers: Rc::default(),
            runnable: Runnable::default(),
            congestion: Rc::default(),
            random: Rc::new(Cell::new(seed | 1)),
            locals: Rc::default(),
            mailbox,
        }
    }

    /// Sets the congestion control of listeners and connections made from now on; what is accepted inherits its listener's.
    pub fn set_congestion(&self, congestion: Congestion) {
        *self.congestion.borrow_mut() = congestion;
    }

    /// The way other threads reach this shard.
    pub fn mailbox(&self) -> &Mailbox {
        &self.mailbox
    }

    /// Keeps a value on this shard; the returned name finds it again from any job.
    pub fn keep<T: 'static>(&self, value: Rc<T>) -> Local<T> {
        self.locals.keep(value)
    }

    /// The value of a name, unless it was given up.
    pub fn local<T: 'static>(&self, name: Local<T>) -> Option<Rc<T>> {
        self.locals.get(name)
    }

    /// Has the driver look at `poller` each turn, for as long as anybody keeps it.
    pub fn poll_with(&self, poller: &Rc<dyn Poller>) {
        self.pollers.add(poller);
    }

    /// Resolves when a descriptor is readable. Dropping the future takes the kernel's interest in it back.
    ///
    /// # Errors
    /// The descriptor cannot be waited for.
    pub async fn readable(&self, descriptor: BorrowedFd<'_>) -> io::Result<()> {
        let operation = Operation::Readable(descriptor.as_raw_fd());
        self.ring.submit(operation).await.result.map(drop)
    }

    /// Gives a kept value up.
    pub fn give_up<T>(&self, name: Local<T>) {
        self.locals.give_up(name);
    }

    fn adopt(&self, fd: OwnedFd) -> RingStream {
        RingStream {
            ring: self.ring.clone(),
            fd: Rc::new(fd),
        }
    }
}

impl std::fmt::Debug for ShardEnvironment {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("ShardEnvironment")
            .field("ring", &self.ring)
            .finish_non_exhaustive()
    }
}

impl Environment for ShardEnvironment {
    type Stream = RingStream;
    type Listener = RingListener;

    fn now(&self) -> Duration {
        monotonic()
    }

    fn random(&self) -> u64 {
        let mut state = self.random.get();
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        self.random.set(state);
        state.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        glommio::spawn_local(self.runnable.counted(task)).detach();
    }

    async fn sleep(&self, length: Duration) {
        self.timers.until(monotonic() + length).await;
    }

    async fn connect(&self, address: SocketAddr) -> io::Result<RingStream> {
        let (fd, operation) = connect_socket(address, &self.congestion.borrow()).map_err(io::Error::other)?;
        self.ring.submit(operation).await.result?;
        Ok(self.adopt(fd))
    }

    fn listen(&self, address: SocketAddr, shared: bool) -> Result<RingListener, SocketError> {
        let fd = listen_socket(address, shared, &self.congestion.borrow())?;
        Ok(RingListener {
            environment: self.clone(),
            fd,
        })
    }
}

/// A TCP connection on a shard's ring.
#[derive(Clone, Debug)]
pub struct RingStream {
    ring: Rc<Ring>,
    fd: Rc<OwnedFd>,
}

impl Stream for RingStream {
    async fn receive_up_to(&self, buffer: Vec<u8>, limit: usize) -> (io::Result<usize>, Vec<u8>) {
        let finished = self
            .ring
            .submit(Operation::Receive(self.fd.as_raw_fd(), buffer, limit))
            .await;
        match finished.operation {
            Operation::Receive(_, buffer, _) => (finished.result, buffer),
            _ => (finished.result, Vec::new()),
        }
    }

    async fn receive_message(&self, message: Message) -> io::Result<()> {
        let operation = Operation::ReceiveMessage(self.fd.as_raw_fd(), Box::new(message));
        whole(self.ring.submit(operation).await)
    }

    async fn send_message(&self, message: Message) -> io::Result<()> {
        let operation = Operation::SendMessage(self.fd.as_raw_fd(), Box::new(message));
        whole(self.ring.submit(operation).await)
    }

    fn shutdown(&self) {
        shutdown(self.fd.as_fd());
    }

    fn local_address(&self) -> io::Result<SocketAddr> {
        std::net::TcpStream::from(self.fd.try_clone()?).local_addr()
    }

    fn socket(&self) -> Option<BorrowedFd<'_>> {
        Some(self.fd.as_fd())
    }
}

/// A message is through only when nothing of it is left; the ring has already continued partial steps.
fn whole(finished: Finished) -> io::Result<()> {
    finished.result?;
    match finished.operation {
        Operation::ReceiveMessage(_, message) | Operation::SendMessage(_, message)
            if message.bytes() > 0 =>
        {
            Err(io::ErrorKind::UnexpectedEof.into())
        }
        _ => Ok(()),
    }
}

/// A listening TCP socket on a shard's ring.
#[derive(Debug)]
pub struct RingListener {
    environment: ShardEnvironment,
    fd: OwnedFd,
}

impl Listener for RingListener {
    type Stream = RingStream;

    async fn accept(&self) -> io::Result<RingStream> {
        let finished = self
            .environment
            .ring
            .submit(Operation::Accept(self.fd.as_raw_fd()))
            .await;
        let number = finished.result? as i32;
        // SAFETY: the kernel just returned this descriptor for us alone.
        let fd = unsafe { OwnedFd::from_raw_fd(number) };
        Ok(self.environment.adopt(fd))
    }

    fn close(&self) {
        shutdown(self.fd.as_fd());
    }

    fn local_address(&self) -> io::Result<SocketAddr> {
        std::net::TcpListener::from(self.fd.try_clone()?).local_addr()
    }
}
