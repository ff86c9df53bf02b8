//! Learning the master's address from the node daemon of this host. Invariant: only a daemon of the
//! same user is believed, and it has a bounded time to answer.

use crate::limits::MASTER_ADDRESS_BYTES_MAX;
use perigee_memory::rendezvous::connect;
use std::io::{self, BufRead, BufReader, Read};
use std::time::{Duration, Instant};

/// Name of the abstract Unix socket on which the node daemon with `port` tells its master's address
/// as one line.
pub fn introduction_name(port: u16) -> String {
    format!("perigee-node-{port}")
}

/// `host:port` of the master of the node daemon with `port` on this host; waits at most `wait` for
/// each step.
///
/// # Errors
/// No such daemon of this user runs, or it did not answer in time.
pub fn ask_node(port: u16, wait: Duration) -> io::Result<String> {
    let name = introduction_name(port);
    let stream = connect(&name, Instant::now() + wait).map_err(io::Error::other)?;
    stream.set_read_timeout(Some(wait))?;
    let mut line = String::new();
    BufReader::new(stream.take(MASTER_ADDRESS_BYTES_MAX)).read_line(&mut line)?;
    match line.strip_suffix('\n') {
        Some(address) if !address.is_empty() => Ok(address.to_owned()),
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "the node named no address")),
    }
}
