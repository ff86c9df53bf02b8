//! Counts by route and NIC: a row comes into being when something first goes that way.
//! Invariant: a route and NIC have one row as long as the ledger lives.

use super::counters::RouteCounters;
use perigee_activity::{device_of_socket, device_towards};
use perigee_schemas::Route;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, PoisonError, RwLock};

/// What stands for the NIC where there is none.
const MEMORY: &str = "memory";
/// The NIC's name where it is unknown.
const UNKNOWN: &str = "unknown";

/// The rows of a process, or of one engine in it.
#[derive(Debug, Default)]
pub struct CounterTable {
    rows: RwLock<BTreeMap<(Route, String), Arc<RouteCounters>>>,
}

impl CounterTable {
    /// The row of sockets to a peer.
    pub fn towards(&self, peer: SocketAddr) -> Arc<RouteCounters> {
        self.row(Route::Tcp, &device_towards(peer))
    }

    /// The row of a socket of a peer that has come to us.
    pub fn arriving_over(&self, socket: Option<BorrowedFd<'_>>) -> Arc<RouteCounters> {
        self.row(Route::Tcp, &device_of_socket(socket))
    }

    /// The row of copies through shared memory.
    pub fn copies(&self) -> Arc<RouteCounters> {
        self.row(Route::SharedMemory, "")
    }

    /// Its rows: route, name of the NIC or what stands for it, and counts.
    pub fn rows(&self) -> Vec<(Route, String, Arc<RouteCounters>)> {
        let rows = self.rows.read().unwrap_or_else(PoisonError::into_inner);
        let row = |((route, name), counters): (&(Route, String), &Arc<RouteCounters>)| {
            (*route, name.clone(), counters.clone())
        };
        rows.iter().map(row).collect()
    }

    fn row(&self, route: Route, device: &str) -> Arc<RouteCounters> {
        debug_assert_ne!(route, Route::SameProcess, "rows are of peers");
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
        row.or_default().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    #[test]
    fn each_nic_has_one_row_for_all_callers() {
        let ledger = CounterTable::default();
        let there = ledger.towards("127.0.0.1:9".parse().unwrap());
        let nowhere = ledger.arriving_over(None);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert!(!Arc::ptr_eq(&there, &nowhere));
        assert!(Arc::ptr_eq(&there, &ledger.arriving_over(Some(peer.as_fd()))));
        ledger.copies();
        let names: Vec<String> = ledger.rows().into_iter().map(|row| row.1).collect();
        assert_eq!(names, ["memory", "lo", "unknown"]);
    }
}
