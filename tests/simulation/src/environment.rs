//! The seam of the data plane over a simulated world.
//! Invariant: an operation on memory that its caller keeps is never given up before the simulated
//! kernel is done with it; a caller who does so has broken the promise that production relies on,
//! and the run says so.

use crate::files::SimulatedFiles;
use crate::mailbox::{SimulatedMailbox, mailbox};
use crate::network::{EndId, HostId, PortId, Received, Wanted};
use crate::slot::Slot;
use crate::world::World;
use perigee_shard::{Environment, Listener, Locals, Message, SocketError, Stream};
use std::cell::OnceCell;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

/// Milliseconds between 1970 and the beginning of every run.
const BEGINNING_MS: u64 = 1_800_000_000_000;

/// A shard in one life of a process on a host.
#[derive(Clone)]
pub struct SimulatedEnvironment {
    world: Rc<World>,
    host: HostId,
    life: u64,
    address: IpAddr,
    locals: Rc<Locals>,
    /// Made when it is asked for.
    mailbox: Rc<OnceCell<SimulatedMailbox>>,
}

impl SimulatedEnvironment {
    pub(crate) fn new(world: Rc<World>, host: HostId, life: u64, address: IpAddr) -> Self {
        Self { world, host, life, address, locals: Rc::default(), mailbox: Rc::default() }
    }

    /// Address of the host.
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// The world around it.
    pub fn world(&self) -> &Rc<World> {
        &self.world
    }

    fn stream(&self, end: EndId) -> SimulatedStream {
        SimulatedStream(Rc::new(End { world: self.world.clone(), end }))
    }
}

impl Environment for SimulatedEnvironment {
    type Stream = SimulatedStream;
    type Listener = SimulatedListener;
    type Files = SimulatedFiles;
    type Mailbox = SimulatedMailbox;

    fn now(&self) -> Duration {
        self.world.now()
    }

    fn wall_ms(&self) -> u64 {
        BEGINNING_MS + self.now_ms()
    }

    fn random(&self) -> u64 {
        self.world.core().random.next()
    }

    fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        self.world.spawn(self.host, self.life, task);
    }

    fn sleep(&self, length: Duration) -> impl Future<Output = ()> {
        self.world.sleep(length)
    }

    async fn connect(&self, address: SocketAddr) -> io::Result<SimulatedStream> {
        let (number, slot) = self.world.core().connect(self.host, address);
        let connecting = Connecting { world: self.world.clone(), number, slot };
        Ok(self.stream((connecting.await?, 0)))
    }

    fn listen(&self, address: SocketAddr, shared: bool) -> Result<SimulatedListener, SocketError> {
        let listening = self.world.core().listen(self.host, address, shared);
        match listening {
            Ok(port) => Ok(SimulatedListener { environment: self.clone(), port }),
            Err(source) => Err(SocketError::Listen { address, source }),
        }
    }

    fn files(&self) -> SimulatedFiles {
        SimulatedFiles::new(self.world.clone(), self.host, self.life)
    }

    fn mailbox(&self) -> &SimulatedMailbox {
        self.mailbox.get_or_init(|| {
            let (mailbox, inbox) = mailbox(&self.locals);
            let life = (self.host, self.life);
            self.world.spawn_for_life(life, inbox.serve(self.clone()));
            mailbox
        })
    }

    fn locals(&self) -> &Locals {
        &self.locals
    }
}

struct Connecting {
    world: Rc<World>,
    number: u64,
    slot: Slot<io::Result<u64>>,
}

impl Future for Connecting {
    type Output = io::Result<u64>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.slot.poll(context)
    }
}

impl Drop for Connecting {
    fn drop(&mut self) {
        self.world.core().give_up_connecting(self.number, &self.slot);
    }
}

/// One end of a simulated connection; closed when the last clone is dropped.
#[derive(Clone)]
pub struct SimulatedStream(Rc<End>);

struct End {
    world: Rc<World>,
    end: EndId,
}

impl Drop for End {
    fn drop(&mut self) {
        self.world.core().release(self.end);
    }
}

impl Stream for SimulatedStream {
    async fn receive_up_to(&self, buffer: Vec<u8>, limit: usize) -> (io::Result<usize>, Vec<u8>) {
        self.operation(Wanted::Some(buffer, limit), false).await
    }

    async fn receive_message(&self, message: Message) -> io::Result<()> {
        let must_end = !message.keeps_its_memory();
        self.operation(Wanted::All(message), must_end).await.0.map(drop)
    }

    async fn send_message(&self, message: Message) -> io::Result<()> {
        let must_end = !message.keeps_its_memory();
        let slot = self.0.world.core().send(self.0.end, message);
        let world = self.0.world.clone();
        Operation { world, slot, must_end, what: "send" }.await
    }

    fn shutdown(&self) {
        self.0.world.core().shut(self.0.end);
    }

    fn is_quiet(&self) -> bool {
        self.0.world.core().is_quiet(self.0.end)
    }

    fn local_address(&self) -> io::Result<SocketAddr> {
        let address = self.0.world.core().address_of(self.0.end);
        address.ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

impl SimulatedStream {
    fn operation(&self, wanted: Wanted, must_end: bool) -> Operation<Received> {
        let slot = self.0.world.core().receive(self.0.end, wanted);
        let world = self.0.world.clone();
        Operation { world, slot, must_end, what: "receive" }
    }
}

/// An operation that the simulated kernel carries out, waited for or not.
pub(crate) struct Operation<T> {
    pub(crate) world: Rc<World>,
    pub(crate) slot: Slot<T>,
    /// Whether it uses memory that nothing but its caller keeps.
    pub(crate) must_end: bool,
    pub(crate) what: &'static str,
}

impl<T> Future for Operation<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let result = self.slot.poll(context);
        self.must_end &= result.is_pending();
        result
    }
}

impl<T> Drop for Operation<T> {
    fn drop(&mut self) {
        let is_under_way = self.slot.is_shared() && self.slot.take().is_none();
        if self.must_end && is_under_way && !self.world.is_killing() {
            let what = self.what;
            self.world.violate(format!("A {what} was given up while it used its caller's memory"));
        }
    }
}

/// A simulated port.
pub struct SimulatedListener {
    environment: SimulatedEnvironment,
    port: PortId,
}

impl Listener for SimulatedListener {
    type Stream = SimulatedStream;

    async fn accept(&self) -> io::Result<SimulatedStream> {
        let slot = self.environment.world.core().accept(self.port);
        let accepting = Accepting { world: self.environment.world.clone(), slot };
        Ok(self.environment.stream((accepting.await?, 1)))
    }

    fn close(&self) {
        self.environment.world.core().close_port(self.port);
    }

    fn local_address(&self) -> io::Result<SocketAddr> {
        Ok(self.port.0)
    }
}

impl Drop for SimulatedListener {
    fn drop(&mut self) {
        self.close();
    }
}

struct Accepting {
    world: Rc<World>,
    slot: Slot<io::Result<u64>>,
}

impl Future for Accepting {
    type Output = io::Result<u64>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.slot.poll(context)
    }
}

impl Drop for Accepting {
    fn drop(&mut self) {
        if let Some(Ok(connection)) = self.slot.take() {
            self.world.core().release((connection, 1));
        }
    }
}
