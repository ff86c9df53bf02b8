//! Learning the master's address and the tenant from the node daemon of this host.
//! Invariant: only a daemon of the same user is believed, and it has a bounded time to answer.

use crate::limits::NODE_ANSWER_BYTES_MAX;
use perigee_memory::rendezvous::connect;
use std::io::{self, BufRead, BufReader, Read};
use std::time::{Duration, Instant};

/// What a node daemon tells programs of its host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeAnswer {
    /// `host:port` of its master.
    pub master: String,
    /// Its tenant; empty is the default one.
    pub tenant_id: String,
}

/// Name of the abstract Unix socket on which the node daemon with `port` tells its master's address
/// as one line, and its tenant as another one.
pub fn introduction_name(port: u16) -> String {
    format!("perigee-node-{port}")
}

/// Asks the node daemon with `port` on this host; waits at most `wait` for each step.
///
/// # Errors
/// No such daemon of this user runs, or it did not answer in time.
pub fn ask_node(port: u16, wait: Duration) -> io::Result<NodeAnswer> {
    let name = introduction_name(port);
    let stream = connect(&name, Instant::now() + wait).map_err(io::Error::other)?;
    stream.set_read_timeout(Some(wait))?;
    let mut lines = BufReader::new(stream.take(NODE_ANSWER_BYTES_MAX));
    let (mut master, mut tenant_id) = (String::new(), String::new());
    lines.read_line(&mut master)?;
    // Older nodes have no tenant and say nothing more.
    lines.read_line(&mut tenant_id)?;
    match master.strip_suffix('\n') {
        Some(address) if !address.is_empty() => Ok(NodeAnswer {
            master: address.to_owned(),
            tenant_id: tenant_id.trim_end_matches('\n').to_owned(),
        }),
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "the node named no address")),
    }
}
