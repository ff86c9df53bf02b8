//! Hosts: processes that die, power that fails, processes that stand still.
//! Invariant: nothing of an earlier life of a host acts in a later one.

use super::{Core, EndId};
use std::net::IpAddr;
use std::time::Duration;

/// Number of a host.
pub type HostId = usize;

/// A host with one process.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) address: IpAddr,
    /// Counts the lives of its process.
    pub(crate) life: u64,
    /// Whether its kernel answers.
    pub(crate) is_up: bool,
    /// Whether its process stands still while its kernel goes on.
    pub(crate) is_frozen: bool,
    /// Since when it stands still, and how long it has before.
    pub(crate) frozen_at: Duration,
    pub(crate) frozen_time: Duration,
    pub(crate) next_port: u16,
}

impl Core {
    /// Ends the process of a host. With the power on, its kernel resets all connections; without,
    /// peers see nothing.
    pub(crate) fn end_process(&mut self, host: HostId, power_stays: bool) {
        self.note(if power_stays { "process dies" } else { "power fails" }, host as u64, 0);
        self.hosts[host].life += 1;
        self.hosts[host].is_up = power_stays;
        self.set_frozen(host, false);
        self.attempts.retain(|_, attempt| attempt.host != host);
        self.listeners.retain(|_, listening| listening.host != host);
        for end in self.ends_of(host) {
            self.end_dies(end, power_stays);
        }
        self.disk_is_left(host, power_stays);
    }

    /// Stops a process, or lets it go on.
    pub(crate) fn set_frozen(&mut self, host: HostId, is_frozen: bool) {
        let now = self.now;
        let found = &mut self.hosts[host];
        if found.is_frozen == is_frozen {
            return;
        }
        if is_frozen {
            found.frozen_at = now;
        } else {
            found.frozen_time += now - found.frozen_at;
        }
        found.is_frozen = is_frozen;
        self.note("frozen", host as u64, u64::from(is_frozen));
    }

    /// Power is back, or a process begins where one has died.
    pub(crate) fn begin_process(&mut self, host: HostId) {
        self.note("process begins", host as u64, self.hosts[host].life);
        self.hosts[host].is_up = true;
    }

    fn ends_of(&self, host: HostId) -> Vec<EndId> {
        let ends = |(number, connection): (&u64, &super::Connection)| {
            let mine = |side: &usize| connection.ends[*side].host == host;
            (0..2).filter(mine).map(|side| (*number, side)).collect::<Vec<_>>()
        };
        self.connections.iter().flat_map(ends).collect()
    }
}
