//! Loopback ports and the descriptor limit.
//! Invariant: ports come from the system, so tests of several checkouts can run at once.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// `N` distinct ports of 127.0.0.1 that were free a moment ago.
pub fn free_ports<const N: usize>() -> [u16; N] {
    let listeners: [TcpListener; N] = std::array::from_fn(|_| {
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback has a free port")
    });
    listeners
        .each_ref()
        .map(|listener| listener.local_addr().expect("a bound socket has an address").port())
}

/// 127.0.0.1 with a port.
pub fn loopback(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

/// Raises this process's descriptor limit (children inherit it) towards `wanted`; returns what
/// it is now.
pub fn raise_descriptor_limit(wanted: u64) -> u64 {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).expect("the limit can be read");
    if soft >= wanted {
        return soft;
    }
    let reachable = [(wanted, hard.max(wanted)), (wanted.min(hard), hard)];
    for (new_soft, new_hard) in reachable {
        if setrlimit(Resource::RLIMIT_NOFILE, new_soft, new_hard).is_ok() {
            return new_soft;
        }
    }
    soft
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_ports_are_distinct() {
        let mut ports = free_ports::<20>().to_vec();
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), 20);
    }
}
