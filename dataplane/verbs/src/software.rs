//! A fabric in this process: many hosts, devices and wires, whose faults are chosen by the test.
//! Invariant: with the manual clock the same calls give the same completions in the same order; no
//! thread, time or randomness of its own is involved.
//!
//! Bytes really move: a write copies from the registered memory of one side to that of the other,
//! after the checks of keys, bounds and rights that a device makes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::device::Fabric;
use crate::error::VerbsError;
use crate::gid::{GidKind, PortGid};
use crate::limits::DEVICES_MAX;
use crate::queue::{ConnectOptions, EndpointAddress, QueuePairOptions};

mod carrier;
mod device;
mod faults;
mod port;
mod queue;
mod region;
mod signal;
mod state;
mod stray;
mod transfer;

pub use faults::Faults;
pub use port::DevicePlan;

use carrier::CarrierThread;
use port::SoftwarePort;
use state::FabricState;

/// Where a software fabric takes its time from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// From [`SoftwareNetwork::advance`] only; work is done while polling and advancing.
    Manual,
    /// From the host; a thread does what falls due, so that sleepers on descriptors are woken.
    Real,
}

/// One end of a connection, as its device has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SoftwareConnection {
    /// What the queue pair was made with.
    pub made: QueuePairOptions,
    /// How it was connected.
    pub connected: ConnectOptions,
    /// The other end.
    pub remote: EndpointAddress,
}

/// All hosts, devices and wires. Clones are the same network.
#[derive(Clone, Debug)]
pub struct SoftwareNetwork {
    shared: Arc<SharedFabric>,
    /// Ends the thread with the last handle of the network.
    _carrier: Option<Arc<CarrierThread>>,
}

#[derive(Debug)]
pub(crate) struct SharedFabric {
    state: Mutex<FabricState>,
    started: Option<Instant>,
    wake: std::sync::Condvar,
}

impl SharedFabric {
    /// The state, with the clock brought up to date.
    pub(crate) fn lock(&self) -> MutexGuard<'_, FabricState> {
        // A panic while the lock was held comes from a test's assertion; the state itself is whole.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(started) = self.started {
            state.set_now(started.elapsed());
        }
        state
    }

    fn is_real(&self) -> bool {
        self.started.is_some()
    }

    /// Does at once what is due, and lets the carrier know of what will be. Only with a real clock.
    pub(crate) fn settle(&self, state: &mut FabricState) {
        if self.is_real() {
            state.run_due();
            self.wake.notify_all();
        }
    }
}

impl SoftwareNetwork {
    /// An empty network.
    pub fn new(clock: Clock) -> Result<SoftwareNetwork, VerbsError> {
        let shared = Arc::new(SharedFabric {
            state: Mutex::new(FabricState::default()),
            started: (clock == Clock::Real).then(Instant::now),
            wake: std::sync::Condvar::new(),
        });
        let carrier = match clock {
            Clock::Manual => None,
            Clock::Real => Some(Arc::new(CarrierThread::start(Arc::clone(&shared))?)),
        };
        Ok(SoftwareNetwork { shared, _carrier: carrier })
    }

    /// Adds a host with its devices, all wired to all others, and returns what a process on it
    /// sees. A host that exists already gets the devices in addition.
    pub fn host(&self, host: &str, plans: &[DevicePlan]) -> Result<Arc<dyn Fabric>, VerbsError> {
        let mut state = self.shared.lock();
        for plan in plans {
            let number = state.ports.len();
            if number >= DEVICES_MAX {
                return Err(VerbsError::TooMuch {
                    device: plan.name.clone(),
                    what: "Number of software devices",
                    asked: number as u64 + 1,
                    limit: DEVICES_MAX as u64,
                });
            }
            let port = SoftwarePort::new(host, plan, number)?;
            state.ports.push(port);
        }
        Ok(Arc::new(device::HostFabric::new(self.clone(), host)))
    }

    /// The faults of one device. An unknown device is a mistake of the test and shows as
    /// [`VerbsError::UnknownDevice`].
    pub fn faults(&self, host: &str, device: &str) -> Result<Faults, VerbsError> {
        let port = self.shared.lock().find_port(host, device)?;
        Ok(Faults::new(self.clone(), port))
    }

    /// The connected queue pairs of one device, by number.
    ///
    /// # Errors
    /// As [`SoftwareNetwork::faults`].
    pub fn connections(
        &self,
        host: &str,
        device: &str,
    ) -> Result<Vec<SoftwareConnection>, VerbsError> {
        let state = self.shared.lock();
        let port = state.find_port(host, device)?;
        let own = state.pairs.values().filter(|pair| pair.port == port);
        let connected = own.filter_map(|pair| {
            let (remote, connected) = pair.peer?;
            Some(SoftwareConnection { made: pair.options, connected, remote })
        });
        Ok(connected.collect())
    }

    /// Moves the manual clock and does what falls due on the way, in order of time.
    pub fn advance(&self, by: Duration) {
        let mut state = self.shared.lock();
        let until = state.now() + by;
        state.run_until(until);
    }

    /// Lets every poll move the manual clock by `step` first; zero, the default, lets it stand.
    pub fn set_poll_step(&self, step: Duration) {
        self.shared.lock().poll_step = step;
    }

    /// Time since the network was made.
    pub fn now(&self) -> Duration {
        self.shared.lock().now()
    }

    /// When the next thing falls due, to jump there with [`SoftwareNetwork::advance`].
    pub fn next_due(&self) -> Option<Duration> {
        self.shared.lock().next_due()
    }

    /// All processes on the host end and start again: their queue pairs and regions are gone, and
    /// calls on what they had opened fail with [`VerbsError::DeviceLost`].
    pub fn restart(&self, host: &str) {
        let mut state = self.shared.lock();
        state.restart(host);
        self.shared.settle(&mut state);
    }

    /// Cuts the wire between two devices, each given as host and name, in both directions.
    pub fn cut(&self, a: (&str, &str), b: (&str, &str)) -> Result<(), VerbsError> {
        self.rewire(a, b, true)
    }

    /// Mends what [`SoftwareNetwork::cut`] cut.
    pub fn mend(&self, a: (&str, &str), b: (&str, &str)) -> Result<(), VerbsError> {
        self.rewire(a, b, false)
    }

    fn rewire(&self, a: (&str, &str), b: (&str, &str), cut: bool) -> Result<(), VerbsError> {
        let mut state = self.shared.lock();
        let (a, b) = (state.find_port(a.0, a.1)?, state.find_port(b.0, b.1)?);
        state.set_wire(a, b, cut);
        Ok(())
    }

    pub(crate) fn shared(&self) -> &SharedFabric {
        &self.shared
    }
}

/// The address that a software device gets when its plan names none: `10.77.N.1`, RoCE v2.
fn default_gid(number: usize) -> PortGid {
    let number = u8::try_from(number % 256).unwrap_or(u8::MAX);
    PortGid {
        index: 0,
        address: std::net::Ipv4Addr::new(10, 77, number, 1).to_ipv6_mapped().octets(),
        kind: GidKind::RoceV2,
        interface: None,
    }
}

#[cfg(test)]
mod tests;
