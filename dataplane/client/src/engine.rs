//! Moves bytes between exposed memory of two processes. Invariant: memory of a call is borrowed
//! until the call has returned, and exposed memory is kept until peers have let go of it.
#![expect(unsafe_code, reason = "it lends memory to the engine")]

use crate::background::PendingCall;
use crate::home::Home;
use crate::memory::CacheMemory;
use crate::registration::{MemoryRegistration, RegistrationHolder};
use crate::transfer::PeerTransfer;
use perigee_engine::{
    EngineError, EngineOptions, Notify, SubmitOptions, TransferEngine, TransferRequest,
};
use std::sync::Arc;

/// A transfer engine: reads and writes memory that peers expose. Clones are the same engine; all
/// methods may be called from any thread.
#[derive(Clone, Debug)]
pub struct PeerEngine(Arc<Home<TransferEngine>>);

impl PeerEngine {
    /// Starts an engine: ports, rails, its entry at the metadata service.
    ///
    /// ```no_run
    /// # use perigee_client::{EngineOptions, PeerEngine};
    /// let options = EngineOptions::new("10.0.0.7", "P2PHANDSHAKE", "tcp", "")?;
    /// println!("peers find it as {}", PeerEngine::open(options)?.name());
    /// # Ok::<(), perigee_client::EngineError>(())
    /// ```
    ///
    /// # Errors
    /// A setting cannot be used, a port is taken, or the metadata service does not answer; the
    /// message says what to change.
    pub fn open(options: EngineOptions) -> Result<Self, EngineError> {
        let engine = TransferEngine::start(options)?;
        Ok(Self(Arc::new(Home::new(engine))))
    }

    /// What peers pass as the segment to reach this engine.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.local_name()
    }

    /// Makes memory known to the RDMA devices of this host; peers cannot reach it.
    ///
    /// # Errors
    /// It overlaps registered memory, or is not memory of this process.
    pub fn register(&self, memory: &CacheMemory) -> Result<MemoryRegistration, EngineError> {
        let (address, bytes) = (memory.address(), memory.len() as u64);
        // SAFETY: the registration keeps the memory until the engine has let go of it.
        unsafe { self.0.register_private(address, bytes, "*") }?;
        Ok(self.registered(memory))
    }

    /// Lets peers read and write memory, until the registration is dropped. `location` is where it
    /// lies: `cpu:0`, `cuda:0`, or `*`.
    ///
    /// # Safety
    /// Peers write at any time. While a part is lent here, no peer writes to it, and none reads it
    /// while its [`MemorySlice`](crate::MemorySlice) changes it: agree with them, for example by
    /// notifies.
    ///
    /// # Errors
    /// As [`PeerEngine::register`].
    pub unsafe fn expose(
        &self,
        memory: &CacheMemory,
        location: &str,
    ) -> Result<MemoryRegistration, EngineError> {
        let engine = &self.0;
        match memory.segment() {
            Some(segment) => engine.register_segment(segment, location)?,
            None => {
                let (address, bytes) = (memory.address(), memory.len() as u64);
                // SAFETY: as in `register`; the rest is the caller's promise.
                unsafe { engine.register(address, bytes, location) }?;
            }
        }
        Ok(self.registered(memory))
    }

    fn registered(&self, memory: &CacheMemory) -> MemoryRegistration {
        MemoryRegistration::new(memory, RegistrationHolder::Engine(self.0.clone()))
    }

    /// Address of the first memory that a peer exposes.
    ///
    /// # Errors
    /// The peer cannot be found, or exposes nothing.
    pub fn first_address(&self, segment: &str) -> Result<u64, EngineError> {
        self.0.first_buffer(segment)
    }

    /// Moves a batch between this process and a peer, and waits for its end. Its deadline, its
    /// route and a message that follows its last byte are in `options`.
    ///
    /// # Errors
    /// What went wrong with the first transfer that failed; others may have been done.
    pub fn transfer(
        &self,
        segment: &str,
        transfers: &mut [PeerTransfer<'_>],
        options: &SubmitOptions,
    ) -> Result<(), EngineError> {
        let requests = transfers.iter().map(|transfer| transfer.request);
        let requests: Vec<TransferRequest> = requests.collect();
        // SAFETY: the transfers borrow their memory, and they are borrowed until the call returns.
        unsafe { self.0.transfer(segment, &requests, options) }
    }

    /// Starts a call on a thread of its own, for async programs; see [`PendingCall`].
    pub fn start<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> PendingCall<T> {
        let engine = self.clone();
        PendingCall::start(move || work(&engine))
    }

    /// Sends a message to a peer and waits until it has it.
    ///
    /// # Errors
    /// The peer cannot be found or reached, or its queue is full.
    pub fn notify(&self, segment: &str, notify: Notify) -> Result<(), EngineError> {
        self.0.notify(segment, notify)
    }

    /// Takes the messages that peers have sent, oldest first.
    #[must_use]
    pub fn take_notifies(&self) -> Vec<Notify> {
        self.0.take_notifies()
    }

    /// Asks a peer whether it lives.
    ///
    /// # Errors
    /// It cannot be found or does not answer.
    pub fn probe(&self, segment: &str) -> Result<(), EngineError> {
        self.0.probe(segment)
    }

    /// Ends the engine: what is under way fails, ports close. The last clone does it when it is
    /// dropped.
    pub fn close(&self) {
        self.0.close();
    }
}
