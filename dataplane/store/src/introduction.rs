//! Learning the master's address, the tenant and the rails from the node daemon of this host.
//! Invariant: only a daemon of the same user is believed, or one whose socket the caller has named,
//! and it has a bounded time to answer.

use crate::limits::NODE_ANSWER_BYTES_MAX;
use perigee_memory::rendezvous::connect;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// What a node daemon tells programs of its host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeAnswer {
    /// `host:port` of its master.
    pub master: String,
    /// Its tenant; empty is the default one.
    pub tenant_id: String,
    /// `tcp` or `rdma`.
    pub protocol: String,
    /// Names of its RDMA devices; empty for all.
    pub device_names: String,
}

impl NodeAnswer {
    /// Of a program that finds no node: over TCP.
    #[must_use]
    pub fn of_environment(master: String, tenant_id: String) -> Self {
        Self { master, tenant_id, protocol: "tcp".to_owned(), device_names: String::new() }
    }

    /// As a node writes it: a line for each part, in the order in which versions have added them.
    #[must_use]
    pub fn to_lines(&self) -> String {
        let parts = [&self.master, &self.tenant_id, &self.protocol, &self.device_names];
        parts.iter().flat_map(|part| [part.as_str(), "\n"]).collect()
    }

    fn read(lines: &mut impl BufRead) -> io::Result<Self> {
        let mut next = || -> io::Result<String> {
            let mut line = String::new();
            lines.read_line(&mut line)?;
            Ok(line)
        };
        let master = next()?;
        // Older nodes have fewer parts, and say nothing more.
        let [tenant_id, protocol, device_names] = [next()?, next()?, next()?];
        let part = |line: String| line.trim_end_matches('\n').to_owned();
        match master.strip_suffix('\n') {
            Some(address) if !address.is_empty() => Ok(Self {
                master: address.to_owned(),
                tenant_id: part(tenant_id),
                protocol: Some(part(protocol)).filter(|it| !it.is_empty()).unwrap_or("tcp".into()),
                device_names: part(device_names),
            }),
            _ => Err(io::Error::new(io::ErrorKind::InvalidData, "the node named no address")),
        }
    }
}

/// Name of the abstract Unix socket on which the node daemon with `port` tells its master's address
/// as one line, and each further part as another one.
pub fn introduction_name(port: u16) -> String {
    format!("perigee-node-{port}")
}

/// Asks the node daemon with `port` on this host; waits at most `wait` for each step.
///
/// # Errors
/// No such daemon of this user runs, or it did not answer in time.
pub fn ask_node(port: u16, wait: Duration) -> io::Result<NodeAnswer> {
    let name = introduction_name(port);
    answer_of(connect(&name, Instant::now() + wait).map_err(io::Error::other)?, wait)
}

/// Asks the node daemon whose socket is this file, of whichever user; waits at most `wait`.
///
/// # Errors
/// No daemon listens there, this user may not connect, or there was no answer in time.
pub fn ask_node_at(path: &Path, wait: Duration) -> io::Result<NodeAnswer> {
    answer_of(UnixStream::connect(path)?, wait)
}

fn answer_of(stream: UnixStream, wait: Duration) -> io::Result<NodeAnswer> {
    stream.set_read_timeout(Some(wait))?;
    NodeAnswer::read(&mut BufReader::new(stream.take(NODE_ANSWER_BYTES_MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_older_nodes_have_fewer_parts() {
        let whole = NodeAnswer {
            master: "10.1.2.3:50051".to_owned(),
            tenant_id: "red".to_owned(),
            protocol: "rdma".to_owned(),
            device_names: "mlx5_0,mlx5_1".to_owned(),
        };
        let read = |text: &str| NodeAnswer::read(&mut text.as_bytes());
        assert_eq!(read(&whole.to_lines()).unwrap(), whole);
        let master = || whole.master.clone();
        let older = NodeAnswer::of_environment(master(), "red".to_owned());
        assert_eq!(read("10.1.2.3:50051\nred\n").unwrap(), older);
        let oldest = NodeAnswer::of_environment(master(), String::new());
        assert_eq!(read("10.1.2.3:50051\n").unwrap(), oldest);
        assert!(read("").is_err() && read("\n").is_err() && read("10.1.2").is_err());
    }
}
