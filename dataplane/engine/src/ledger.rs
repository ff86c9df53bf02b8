//! Counts by route and NIC: a row comes into being when something first goes that way.
//! Invariant: a route and NIC have one row as long as the engine lives.

use crate::counters::Counters;
use crate::observer::Route;
use crate::report::RailReport;
use perigee_activity::{device_of_socket, device_towards};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, PoisonError, RwLock};

/// What stands for the NIC where there is none.
const MEMORY: &str = "memory";
/// What stands for the NIC where it cannot be told.
const UNKNOWN: &str = "unknown";

/// The rows of an engine.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    rows: RwLock<BTreeMap<(Route, String), Arc<Counters>>>,
}

impl Ledger {
    /// The row of sockets to a peer.
    pub(crate) fn towards(&self, peer: SocketAddr) -> Arc<Counters> {
        self.row(Route::Tcp, &device_towards(peer))
    }

    /// The row of a socket of a peer that has come to us.
    pub(crate) fn arriving_over(&self, socket: Option<BorrowedFd<'_>>) -> Arc<Counters> {
        self.row(Route::Tcp, &device_of_socket(socket))
    }

    /// The row of copies through shared memory.
    pub(crate) fn copies(&self) -> Arc<Counters> {
        self.row(Route::SharedMemory, "")
    }

    /// One report per row.
    pub(crate) fn reports(&self) -> Vec<RailReport> {
        let rows = self.rows.read().unwrap_or_else(PoisonError::into_inner);
        let report = |((route, name), counters): (&(Route, String), &Arc<Counters>)| {
            RailReport::of(name, *route, counters)
        };
        rows.iter().map(report).collect()
    }

    fn row(&self, route: Route, device: &str) -> Arc<Counters> {
        let name = match (route, device) {
            (Route::SharedMemory, _) => MEMORY,
            (_, "") => UNKNOWN,
            (_, device) => device,
        };
        let key = (route, name.to_owned());
        let rows = self.rows.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(row) = rows.get(&key) {
            return row.clone();
        }
        drop(rows);
        let mut rows = self.rows.write().unwrap_or_else(PoisonError::into_inner);
        let row = rows.entry(key);
        row.or_insert_with(|| Arc::new(Counters::new(route, device)))
            .clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    #[test]
    fn each_nic_has_one_row_whoever_asks() {
        let ledger = Ledger::default();
        let there = ledger.towards("127.0.0.1:9".parse().unwrap());
        let nowhere = ledger.arriving_over(None);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert!(!Arc::ptr_eq(&there, &nowhere));
        assert!(Arc::ptr_eq(
            &there,
            &ledger.arriving_over(Some(peer.as_fd()))
        ));
        ledger.copies();
        let names: Vec<String> = ledger.reports().into_iter().map(|row| row.name).collect();
        assert_eq!(names, ["memory", "lo", "unknown"]);
    }
}
