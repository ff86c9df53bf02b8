//! Listening ports and the connections that wait there. Invariant: a kernel accepts, even while its process stands still.

use super::{Core, HostId};
use crate::slot::Slot;
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;

/// A port that is listened on.
pub(crate) struct Listening {
    pub(crate) host: HostId,
    pub(crate) backlog: VecDeque<u64>,
    waiting: VecDeque<Slot<io::Result<u64>>>,
}

impl Core {
    /// Listens; port 0 chooses one.
    pub(crate) fn listen(&mut self, host: HostId, address: SocketAddr) -> io::Result<SocketAddr> {
        if address.ip() != self.hosts[host].address {
            return Err(io::ErrorKind::AddrNotAvailable.into());
        }
        let address = if address.port() == 0 {
            self.free_address(host)
        } else {
            address
        };
        if self.listeners.contains_key(&address) {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        let listening = Listening {
            host,
            backlog: VecDeque::new(),
            waiting: VecDeque::new(),
        };
        self.listeners.insert(address, listening);
        self.note("listens", host as u64, u64::from(address.port()));
        Ok(address)
    }

    pub(crate) fn accept(&mut self, address: SocketAddr) -> Slot<io::Result<u64>> {
        let slot = Slot::default();
        match self.listeners.get_mut(&address) {
            None => slot.give(Err(io::ErrorKind::InvalidInput.into())),
            Some(listening) => match listening.backlog.pop_front() {
                Some(connection) => slot.give(Ok(connection)),
                None => listening.waiting.push_back(slot.clone()),
            },
        }
        slot
    }

    /// A connection for whoever accepts.
    pub(super) fn offer(&mut self, address: SocketAddr, connection: u64) {
        let Some(listening) = self.listeners.get_mut(&address) else {
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
    pub(crate) fn close_port(&mut self, address: SocketAddr) {
        let Some(listening) = self.listeners.remove(&address) else {
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
