//! Listening ports and the connections that wait there. Invariant: a kernel accepts, even while its
//! process stands still.

use super::Core;
use super::host::HostId;
use crate::slot::Slot;
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;

/// One of the listeners on an address: shards share a port.
pub(crate) type PortId = (SocketAddr, u64);

/// A port that is listened on.
pub(crate) struct Listening {
    pub(crate) host: HostId,
    is_shared: bool,
    pub(crate) backlog: VecDeque<u64>,
    waiting: VecDeque<Slot<io::Result<u64>>>,
}

impl Core {
    /// Listens; port 0 chooses one.
    pub(crate) fn listen(
        &mut self,
        host: HostId,
        address: SocketAddr,
        is_shared: bool,
    ) -> io::Result<PortId> {
        if address.ip() != self.hosts[host].address {
            return Err(io::ErrorKind::AddrNotAvailable.into());
        }
        let address = if address.port() == 0 { self.free_address(host) } else { address };
        let may_join = |port: &PortId| is_shared && self.listeners[port].is_shared;
        if !self.ports_of(address).iter().all(may_join) {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        let listening =
            Listening { host, is_shared, backlog: VecDeque::new(), waiting: VecDeque::new() };
        let port = (address, self.number());
        self.listeners.insert(port, listening);
        self.note("listens", host as u64, u64::from(address.port()));
        Ok(port)
    }

    fn ports_of(&self, address: SocketAddr) -> Vec<PortId> {
        let all = (address, 0)..=(address, u64::MAX);
        self.listeners.range(all).map(|(port, _)| *port).collect()
    }

    /// The listener that gets the next connection to an address, if there is one.
    pub(super) fn port_of(&self, address: SocketAddr) -> Option<PortId> {
        match &self.ports_of(address)[..] {
            [] => None,
            [port] => Some(*port),
            ports => Some(*self.random.pick(ports)),
        }
    }

    pub(crate) fn accept(&mut self, port: PortId) -> Slot<io::Result<u64>> {
        let slot = Slot::default();
        match self.listeners.get_mut(&port) {
            None => slot.give(Err(io::ErrorKind::InvalidInput.into())),
            Some(listening) => match listening.backlog.pop_front() {
                Some(connection) => slot.give(Ok(connection)),
                None => listening.waiting.push_back(slot.clone()),
            },
        }
        slot
    }

    /// A connection to accept.
    pub(super) fn offer(&mut self, port: PortId, connection: u64) {
        let Some(listening) = self.listeners.get_mut(&port) else {
            return;
        };
        while let Some(slot) = listening.waiting.pop_front() {
            if slot.is_shared() {
                return slot.give(Ok(connection));
            }
        }
        listening.backlog.push_back(connection);
    }

    /// Ends a port: waits on it fail, connections that wait there are reset.
    pub(crate) fn close_port(&mut self, port: PortId) {
        let Some(listening) = self.listeners.remove(&port) else {
            return;
        };
        for slot in listening.waiting {
            slot.give(Err(io::ErrorKind::InvalidInput.into()));
        }
        for connection in listening.backlog {
            self.release((connection, 1));
        }
    }
}
