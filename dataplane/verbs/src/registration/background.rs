//! Registration off the caller's thread, so that a store serves while gigabytes are being pinned.
//! Invariant: one waiting line with a bound; every accepted registration ends, and its result is kept
//! until taken. A result nobody takes is revoked when its handle is dropped.

use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TrySendError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::device::Device;
use crate::error::VerbsError;
use crate::limits::REGISTRATIONS_WAITING_MAX;

use super::{RegisteredBuffer, RegistrationOptions, check_range, populate, register_populated};

type Outcome = Result<Vec<RegisteredBuffer>, VerbsError>;

/// One registration that waits for the thread.
struct Order {
    devices: Vec<Arc<dyn Device>>,
    address: u64,
    bytes: u64,
    options: RegistrationOptions,
    reply: SyncSender<Outcome>,
}

/// A thread that registers buffers, one after the other. Dropping it finishes what waits.
pub struct Registrar {
    orders: Option<SyncSender<Order>>,
    thread: Option<JoinHandle<()>>,
}

impl fmt::Debug for Registrar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registrar").finish_non_exhaustive()
    }
}

impl Registrar {
    /// Starts the thread.
    pub fn start() -> Result<Registrar, VerbsError> {
        let (orders, waiting) = mpsc::sync_channel::<Order>(REGISTRATIONS_WAITING_MAX);
        let thread = std::thread::Builder::new()
            .name("registrar".to_owned())
            .spawn(move || waiting.into_iter().for_each(Order::run))
            .map_err(|error| VerbsError::Background {
                detail: error.to_string(),
            })?;
        Ok(Registrar {
            orders: Some(orders),
            thread: Some(thread),
        })
    }

    /// Registers `bytes` at `address` with every one of `devices`, later.
    ///
    /// # Safety
    /// As for [`Device::register`], from now on and until the pending registration, and the buffers
    /// taken from it, are dropped.
    pub unsafe fn submit(
        &self,
        devices: Vec<Arc<dyn Device>>,
        address: u64,
        bytes: u64,
        options: RegistrationOptions,
    ) -> Result<PendingRegistration, VerbsError> {
        let (reply, outcome) = mpsc::sync_channel(1);
        let order = Order {
            devices,
            address,
            bytes,
            options,
            reply,
        };
        let sent = self.orders.as_ref().map(|orders| orders.try_send(order));
        match sent {
            Some(Ok(())) => Ok(PendingRegistration { outcome }),
            Some(Err(TrySendError::Full(_))) => Err(VerbsError::Background {
                detail: format!("{REGISTRATIONS_WAITING_MAX} registrations are waiting already"),
            }),
            Some(Err(TrySendError::Disconnected(_))) | None => Err(ended()),
        }
    }
}

impl Drop for Registrar {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            // The thread does not panic; if it did, there would be nothing to do about it here.
            let _ = thread.join();
        }
    }
}

impl Order {
    fn run(self) {
        let outcome = self.register_all();
        // A failure means that nobody waits any more; the buffers in it are revoked by dropping.
        let _ = self.reply.send(outcome);
    }

    /// Faults the pages in once, then registers with all devices at the same time.
    fn register_all(&self) -> Outcome {
        for device in &self.devices {
            check_range(&device.info().name, self.address, self.bytes)?;
        }
        if self.options.populate {
            populate(self.address, self.bytes, self.options.access.local_write);
        }
        std::thread::scope(|scope| {
            let running: Vec<_> = self
                .devices
                .iter()
                .map(|device| {
                    std::thread::Builder::new()
                        .name("register".to_owned())
                        .spawn_scoped(scope, || self.register_one(device.as_ref()))
                })
                .collect();
            let results = running.into_iter().map(|thread| match thread {
                Ok(thread) => thread.join().unwrap_or_else(|_| Err(ended())),
                Err(error) => Err(VerbsError::Background {
                    detail: error.to_string(),
                }),
            });
            results.collect()
        })
    }

    fn register_one(&self, device: &dyn Device) -> Result<RegisteredBuffer, VerbsError> {
        // SAFETY: whoever submitted the order promised it for as long as the result lives.
        unsafe { register_populated(device, self.address, self.bytes, &self.options) }
    }
}

/// A registration under way. Dropping it before the end makes the result revoke itself.
#[derive(Debug)]
pub struct PendingRegistration {
    outcome: Receiver<Outcome>,
}

impl PendingRegistration {
    /// The buffers, one for each device in the order given, if it is over; `None` before that.
    pub fn try_take(&self) -> Option<Result<Vec<RegisteredBuffer>, VerbsError>> {
        match self.outcome.try_recv() {
            Ok(outcome) => Some(outcome),
            Err(mpsc::TryRecvError::Empty) => None,
            Err(mpsc::TryRecvError::Disconnected) => Some(Err(ended())),
        }
    }

    /// Waits for the buffers, at most for `limit`.
    pub fn wait(&self, limit: Duration) -> Result<Vec<RegisteredBuffer>, VerbsError> {
        match self.outcome.recv_timeout(limit) {
            Ok(outcome) => outcome,
            Err(RecvTimeoutError::Timeout) => Err(VerbsError::Deadline {
                what: "Registration",
                waited_ms: u64::try_from(limit.as_millis()).unwrap_or(u64::MAX),
            }),
            Err(RecvTimeoutError::Disconnected) => Err(ended()),
        }
    }
}

fn ended() -> VerbsError {
    VerbsError::Background {
        detail: "its thread has ended".to_owned(),
    }
}
