//! Connecting: a request that travels to the target, and its answer. Invariant: an abandoned
//! attempt leaves no connection behind.

use super::connection::Connection;
use super::host::HostId;
use super::{Arrival, Core};
use crate::limits::{BACKLOG_MAX, RETRANSMISSIONS_MAX, SYN_RETRANSMIT};
use crate::slot::Slot;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// A task that wants to connect.
pub(crate) struct Attempt {
    pub(crate) host: HostId,
    from: SocketAddr,
    to: SocketAddr,
    tries: u32,
    slot: Slot<io::Result<u64>>,
}

impl Core {
    /// Begins to connect; the slot gets the number of the connection.
    pub(crate) fn connect(&mut self, host: HostId, to: SocketAddr) -> (u64, Slot<io::Result<u64>>) {
        let number = self.number();
        let slot = Slot::default();
        let from = self.free_address(host);
        let attempt = Attempt { host, from, to, tries: 0, slot: slot.clone() };
        self.attempts.insert(number, attempt);
        let latency = self.link_conditions.latency(&self.random);
        self.plan(latency, Arrival::Wish(number));
        (number, slot)
    }

    /// An attempt is abandoned.
    pub(crate) fn give_up_connecting(&mut self, attempt: u64, slot: &Slot<io::Result<u64>>) {
        self.attempts.remove(&attempt);
        if let Some(Ok(connection)) = slot.take() {
            self.release((connection, 0));
        }
    }

    pub(super) fn wish_arrives(&mut self, number: u64) {
        let Some(attempt) = self.attempts.get(&number) else {
            return;
        };
        let (from, host, to) = (attempt.from, attempt.host, attempt.to);
        let Some(target) = self.host_of(to.ip()) else {
            return self.plan(Duration::ZERO, Arrival::Answer(number, None));
        };
        let full = |backlog: usize| backlog >= BACKLOG_MAX;
        let port = self.port_of(to);
        let queued = port
            .and_then(|port| self.listeners.get(&port))
            .map(|listening| listening.backlog.len());
        if !self.passes(host, target) || !self.passes(target, host) || queued.is_some_and(full) {
            return self.wish_again(number);
        }
        let latency = self.link_conditions.latency(&self.random);
        let Some(port) = port else {
            return self.plan(latency, Arrival::Answer(number, None));
        };
        let connection = self.number();
        let hosts = [host, target];
        let made = Connection::new(hosts, [from, to], self.link_conditions.window_bytes);
        self.connections.insert(connection, made);
        self.note("connection", connection, host as u64 * 1000 + target as u64);
        self.offer(port, connection);
        self.plan(latency, Arrival::Answer(number, Some(connection)));
    }

    fn wish_again(&mut self, number: u64) {
        let Some(attempt) = self.attempts.get_mut(&number) else {
            return;
        };
        attempt.tries += 1;
        if attempt.tries > RETRANSMISSIONS_MAX.min(6) {
            attempt.slot.give(Err(io::ErrorKind::TimedOut.into()));
            self.attempts.remove(&number);
            return;
        }
        let wait = SYN_RETRANSMIT * (1 << (attempt.tries - 1));
        self.plan(wait, Arrival::Wish(number));
    }

    pub(super) fn answer_arrives(&mut self, number: u64, connection: Option<u64>) {
        let Some(attempt) = self.attempts.remove(&number) else {
            if let Some(connection) = connection {
                self.release((connection, 0));
            }
            return;
        };
        let result = connection.ok_or_else(|| io::ErrorKind::ConnectionRefused.into());
        self.note("connected", number, u64::from(result.is_ok()));
        attempt.slot.give(result);
    }

    pub(super) fn free_address(&mut self, host: HostId) -> SocketAddr {
        let host = &mut self.hosts[host];
        let port = host.next_port;
        host.next_port = port.wrapping_add(1).max(crate::limits::FIRST_PORT);
        SocketAddr::new(host.address, port)
    }
}
