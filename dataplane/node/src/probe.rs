//! Whether a service is there yet. Invariant: an attempt ends within its deadline.

use crate::limits::PROBE_DEADLINE;
use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};

/// Whether a process accepts connections at `address` (`host:port`).
pub(crate) fn probe(address: &str) -> io::Result<()> {
    TcpStream::connect_timeout(&resolve(address)?, PROBE_DEADLINE).map(drop)
}

fn resolve(address: &str) -> io::Result<SocketAddr> {
    let missing = || io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    address.to_socket_addrs()?.next().ok_or_else(missing)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn a_name_without_address_is_an_error() {
        assert!(probe("no-such-host.invalid:1").is_err());
    }

    #[test]
    fn only_a_port_that_is_listened_on_answers_a_probe() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        assert!(probe(&address).is_ok());
        drop(listener);
        assert!(probe(&address).is_err());
    }
}
