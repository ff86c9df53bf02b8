//! The production environment: sockets on the shard's reactor, tasks on its executor, timers in the
//! driver.
#![expect(unsafe_code, reason = "it takes over a descriptor of the kernel")]

use crate::clock::monotonic;
use crate::core_waits::CoreWaits;
use crate::environment::{Environment, Listener, Stream};
use crate::local::Locals;
use crate::mailbox::Mailbox;
use crate::poller::{Poller, Pollers};
use crate::shard_files::ShardFiles;
use crate::tasks::TaskExecutor;
use crate::timer::Timers;
use crate::wake_count::WakeCount;
use perigee_reactor::{
    Completion, Congestion, Finished, Message, Operation, Reactor, SocketError, SocketHandle,
    connect_socket, is_quiet, listen_socket, shutdown, suit_accepted,
};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::rc::Rc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// One shard as its tasks see it.
#[derive(Clone)]
pub struct ShardEnvironment {
    pub(crate) reactor: Rc<Reactor>,
    pub(crate) timers: Rc<Timers>,
    pub(crate) pollers: Rc<Pollers>,
    pub(crate) runnable: WakeCount,
    tasks: TaskExecutor,
    congestion: Rc<RefCell<Congestion>>,
    random: Rc<Cell<u64>>,
    core_waits: Rc<CoreWaits>,
    locals: Rc<Locals>,
    mailbox: Mailbox,
}

impl ShardEnvironment {
    pub(crate) fn new(
        reactor: Rc<Reactor>,
        tasks: TaskExecutor,
        seed: u64,
        mailbox: Mailbox,
    ) -> Self {
        Self {
            reactor,
            tasks,
            timers: Rc::default(),
            pollers: Rc::default(),
            runnable: WakeCount::default(),
            congestion: Rc::default(),
            random: Rc::new(Cell::new(seed | 1)),
            core_waits: Rc::default(),
            locals: Rc::default(),
            mailbox,
        }
    }

    /// Sets the congestion control of listeners and connections made from now on; what is accepted
    /// inherits its listener's, or gets that of this host.
    pub fn set_congestion(&self, congestion: Congestion) {
        *self.congestion.borrow_mut() = congestion;
    }

    /// Has the driver look at `poller` each turn, until its last other holder drops it.
    pub fn poll_with(&self, poller: &Rc<dyn Poller>) {
        self.pollers.add(poller);
    }

    /// Resolves when a descriptor is readable. Dropping the future takes the kernel's interest in
    /// it back.
    ///
    /// # Errors
    /// The descriptor cannot be waited for.
    pub async fn readable(&self, descriptor: BorrowedFd<'_>) -> io::Result<()> {
        let operation = Operation::Readable(descriptor.as_raw_fd());
        Completion::begin(&self.reactor, operation).await.result.map(drop)
    }

    fn stream(&self, fd: SocketHandle) -> ShardStream {
        ShardStream { reactor: self.reactor.clone(), fd }
    }
}

impl std::fmt::Debug for ShardEnvironment {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("ShardEnvironment")
            .field("reactor", &self.reactor)
            .finish_non_exhaustive()
    }
}

impl Environment for ShardEnvironment {
    type Stream = ShardStream;
    type Listener = ShardListener;
    type Files = ShardFiles;
    type Mailbox = Mailbox;

    fn now(&self) -> Duration {
        monotonic()
    }

    fn wall_ms(&self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(0))
    }

    fn core_wait(&self, now: Duration) -> Duration {
        self.core_waits.typical(now)
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
        self.tasks.spawn(self.runnable.counted(task));
    }

    async fn sleep(&self, length: Duration) {
        self.timers.until(monotonic() + length).await;
    }

    async fn connect(&self, address: SocketAddr) -> io::Result<ShardStream> {
        let made = connect_socket(address, &self.congestion.borrow());
        let (fd, operation) = made?;
        self.reactor.prepare(fd.as_fd())?;
        Completion::begin(&self.reactor, operation).await.result?;
        Ok(self.stream(fd))
    }

    fn listen(&self, address: SocketAddr, shared: bool) -> Result<ShardListener, SocketError> {
        let fd = listen_socket(address, shared, &self.congestion.borrow())?;
        self.reactor.prepare(fd.as_fd()).map_err(SocketError::Create)?;
        Ok(ShardListener { environment: self.clone(), fd: SocketHandle::new(fd) })
    }

    fn files(&self) -> ShardFiles {
        ShardFiles::new(self)
    }

    fn mailbox(&self) -> &Mailbox {
        &self.mailbox
    }

    fn locals(&self) -> &Locals {
        &self.locals
    }
}

/// A TCP connection of a shard.
#[derive(Clone, Debug)]
pub struct ShardStream {
    reactor: Rc<Reactor>,
    fd: SocketHandle,
}

impl Stream for ShardStream {
    async fn receive_up_to(&self, buffer: Vec<u8>, limit: usize) -> (io::Result<usize>, Vec<u8>) {
        let finished =
            Completion::begin(&self.reactor, Operation::Receive(self.fd.clone(), buffer, limit))
                .await;
        match finished.operation {
            Operation::Receive(_, buffer, _) => (finished.result, buffer),
            _ => (finished.result, Vec::new()),
        }
    }

    async fn receive_message(&self, message: Message) -> io::Result<()> {
        let operation = Operation::ReceiveMessage(self.fd.clone(), Box::new(message));
        whole(Completion::begin(&self.reactor, operation).await)
    }

    async fn send_message(&self, message: Message) -> io::Result<()> {
        let operation = Operation::SendMessage(self.fd.clone(), Box::new(message));
        whole(Completion::begin(&self.reactor, operation).await)
    }

    fn shutdown(&self) {
        shutdown(self.fd.as_fd());
    }

    fn is_quiet(&self) -> bool {
        is_quiet(self.fd.as_fd())
    }

    fn local_address(&self) -> io::Result<SocketAddr> {
        std::net::TcpStream::from(self.fd.try_clone()?).local_addr()
    }

    fn socket(&self) -> Option<BorrowedFd<'_>> {
        Some(self.fd.as_fd())
    }
}

/// A message is through only when nothing of it is left; the reactor has already continued partial
/// steps.
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

/// A listening TCP socket of a shard.
#[derive(Debug)]
pub struct ShardListener {
    environment: ShardEnvironment,
    fd: SocketHandle,
}

impl Listener for ShardListener {
    type Stream = ShardStream;

    async fn accept(&self) -> io::Result<ShardStream> {
        let finished =
            Completion::begin(&self.environment.reactor, Operation::Accept(self.fd.clone())).await;
        let number = finished.result? as i32;
        // SAFETY: the kernel just returned this descriptor for us alone.
        let fd = unsafe { OwnedFd::from_raw_fd(number) };
        suit_accepted(fd.as_fd(), &self.environment.congestion.borrow());
        Ok(self.environment.stream(SocketHandle::new(fd)))
    }

    fn close(&self) {
        shutdown(self.fd.as_fd());
    }

    fn local_address(&self) -> io::Result<SocketAddr> {
        std::net::TcpListener::from(self.fd.try_clone()?).local_addr()
    }
}
