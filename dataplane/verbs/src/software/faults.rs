//! What a test can do to a software device.
//! Invariant: faults that count strike the next work in the order of posting, then are over.

use std::time::Duration;

use crate::device::DeviceEvent;

use super::SoftwareNetwork;
use super::port::{Planned, SoftwarePort};

/// The faults of one device. Those of a work request strike at the device that posted it.
#[derive(Clone, Debug)]
pub struct Faults {
    network: SoftwareNetwork,
    port: usize,
}

impl Faults {
    pub(super) fn new(network: SoftwareNetwork, port: usize) -> Faults {
        Faults { network, port }
    }

    fn change(&self, change: impl FnOnce(&mut SoftwarePort)) {
        let mut state = self.network.shared().lock();
        change(&mut state.ports[self.port]);
        self.network.shared().settle(&mut state);
    }

    fn plan(&self, plan: impl FnOnce(&mut Planned)) {
        self.change(|port| plan(&mut port.planned));
    }

    /// The next `count` work requests vanish: they end as no answer, after all retries.
    pub fn drop_next(&self, count: u64) {
        self.plan(|planned| planned.drop_requests = count);
    }

    /// From now on what is sent is held up in the network: its sender hears nothing, and gives up.
    /// Writes arrive `delay` after they were posted all the same, even if their sender is gone by
    /// then, unless the queue pair that they were meant for is. `None` ends it for what is posted
    /// later.
    pub fn strand(&self, delay: Option<Duration>) {
        self.plan(|planned| planned.strand = delay);
    }

    /// All work requests vanish, or no more.
    pub fn drop_all(&self, on: bool) {
        self.plan(|planned| planned.drop_all = on);
    }

    /// The next `count` attempts are lost; the retry after them succeeds.
    pub fn drop_attempts(&self, count: u64) {
        self.plan(|planned| planned.drop_attempts = count);
    }

    /// The next `count` signalled successes are reported twice.
    pub fn duplicate_next(&self, count: u64) {
        self.plan(|planned| planned.duplicate = count);
    }

    /// The next `count` work requests end as flushed, and their queue pairs fail.
    pub fn flush_next(&self, count: u64) {
        self.plan(|planned| planned.flush = count);
    }

    /// The remote key of the next `count` work requests is wrong when it arrives.
    pub fn corrupt_keys(&self, count: u64) {
        self.plan(|planned| planned.corrupt_keys = count);
    }

    /// The next `count` registrations find no memory.
    pub fn refuse_registrations(&self, count: u64) {
        self.plan(|planned| planned.refuse_registrations = count);
    }

    /// The next `count` queue pairs find no memory.
    pub fn refuse_queue_pairs(&self, count: u64) {
        self.plan(|planned| planned.refuse_queue_pairs = count);
    }

    /// The next `count` work requests are refused when they are posted, as by a device that is
    /// broken.
    pub fn refuse_posts(&self, count: u64) {
        self.plan(|planned| planned.refuse_posts = count);
    }

    /// The next `count` work requests are refused when they are posted: the device says that their
    /// queue is full.
    pub fn report_full(&self, count: u64) {
        self.plan(|planned| planned.report_full = count);
    }

    /// Takes the link down. Work under way is retried, and fails unless the link returns in time.
    pub fn down(&self) {
        self.change(|port| {
            if std::mem::replace(&mut port.up, false) {
                port.announce(DeviceEvent::PortDown { port: 1 });
            }
        });
    }

    /// Brings the link up.
    pub fn up(&self) {
        self.change(|port| {
            if !std::mem::replace(&mut port.up, true) {
                port.announce(DeviceEvent::PortUp { port: 1 });
            }
        });
    }

    /// Gives the device another address and says so.
    pub fn change_gids(&self, gids: &[crate::gid::PortGid]) {
        self.change(|port| {
            port.gids = gids.to_vec();
            port.announce(DeviceEvent::GidChange { port: 1 });
        });
    }

    /// Makes each work request take longer by `delay`, from now on.
    pub fn delay(&self, delay: Duration) {
        self.change(|port| port.delay = delay);
    }

    /// Sets the speed of the link, 0 for infinite. What the device says of itself stays.
    pub fn bits_per_second(&self, bits_per_second: u64) {
        self.change(|port| port.bits_per_second = bits_per_second);
    }

    /// The device is gone: queue pairs fail, calls fail, opening fails.
    pub fn lose(&self) {
        let mut state = self.network.shared().lock();
        state.ports[self.port].announce(DeviceEvent::DeviceFatal);
        state.ports[self.port].lost = true;
        state.fail_port(self.port);
        self.network.shared().settle(&mut state);
    }

    /// A lost device is back, empty: what was opened before stays useless.
    pub fn restore(&self) {
        let mut state = self.network.shared().lock();
        state.ports[self.port].lost = false;
        state.new_epoch(self.port);
    }

    /// Fails one queue pair with an event and no completion of its own kind.
    pub fn fail_queue_pair(&self, queue_pair: u32) {
        let mut state = self.network.shared().lock();
        state.fail_queue_pair(queue_pair);
        state.ports[self.port].announce(DeviceEvent::QueuePairFatal { queue_pair });
        self.network.shared().settle(&mut state);
    }
}
