//! Where the publisher listens, in ZeroMQ's words.
//! Invariant: an endpoint that was parsed can be bound, if the system lets it.

use crate::error::EventsError;
use std::fmt::{Display, Formatter};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, ToSocketAddrs};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// An address to listen on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// Host and port; the host `*` is every IPv4 address.
    Tcp(String, u16),
    /// The path of a Unix socket.
    Ipc(PathBuf),
}

/// A bound endpoint; its socket does not block.
#[derive(Debug)]
pub(crate) enum BoundEndpoint {
    Tcp(TcpListener),
    Ipc(UnixListener),
}

impl FromStr for Endpoint {
    type Err = EventsError;

    fn from_str(text: &str) -> Result<Self, EventsError> {
        let refused = || EventsError::Endpoint(text.to_owned());
        if let Some(path) = text.strip_prefix("ipc://") {
            return if path.is_empty() { Err(refused()) } else { Ok(Self::Ipc(path.into())) };
        }
        let address = text.strip_prefix("tcp://").ok_or_else(refused)?;
        let (host, port) = address.rsplit_once(':').ok_or_else(refused)?;
        let port = if port == "*" { 0 } else { port.parse().map_err(|_| refused())? };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() { Err(refused()) } else { Ok(Self::Tcp(host.to_owned(), port)) }
    }
}

impl Display for Endpoint {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tcp(host, port) if host.contains(':') => {
                write!(formatter, "tcp://[{host}]:{port}")
            }
            Self::Tcp(host, port) => write!(formatter, "tcp://{host}:{port}"),
            Self::Ipc(path) => write!(formatter, "ipc://{}", path.display()),
        }
    }
}

impl Endpoint {
    /// Listens there. The socket file of a master that died is replaced.
    pub(crate) fn bind(&self) -> Result<BoundEndpoint, EventsError> {
        let bound = match self {
            Self::Tcp(host, port) => bind_tcp(host, *port).map(BoundEndpoint::Tcp),
            Self::Ipc(path) => bind_ipc(path).map(BoundEndpoint::Ipc),
        };
        bound.map_err(|cause| EventsError::Listen { endpoint: self.to_string(), cause })
    }
}

impl BoundEndpoint {
    /// Where it really is: the system may have chosen the port.
    pub(crate) fn endpoint(&self) -> io::Result<Endpoint> {
        match self {
            Self::Tcp(listener) => {
                let address: SocketAddr = listener.local_addr()?;
                Ok(Endpoint::Tcp(address.ip().to_string(), address.port()))
            }
            Self::Ipc(listener) => {
                let address = listener.local_addr()?;
                Ok(Endpoint::Ipc(address.as_pathname().unwrap_or(Path::new("")).to_owned()))
            }
        }
    }
}

fn bind_tcp(host: &str, port: u16) -> io::Result<TcpListener> {
    let listener = match host {
        "*" => TcpListener::bind((Ipv4Addr::UNSPECIFIED, port))?,
        host => TcpListener::bind((host, port).to_socket_addrs()?.collect::<Vec<_>>().as_slice())?,
    };
    listener.set_nonblocking(true)?;
    Ok(listener)
}

fn bind_ipc(path: &Path) -> io::Result<UnixListener> {
    let listener = match UnixListener::bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse && is_abandoned(path) => {
            std::fs::remove_file(path)?;
            UnixListener::bind(path)?
        }
        other => other?,
    };
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Whether no process listens on a socket file.
fn is_abandoned(path: &Path) -> bool {
    use std::os::unix::net::UnixStream;
    UnixStream::connect(path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_read_as_zeromq_writes_them() {
        for text in ["tcp://*:5557", "tcp://10.0.0.1:5557", "tcp://[::1]:5557", "ipc:///run/kv"] {
            assert_eq!(text.parse::<Endpoint>().unwrap().to_string(), text);
        }
        for text in
            ["", "5557", "tcp://", "tcp://host", "tcp://:1", "tcp://h:x", "ipc://", "udp://h:1"]
        {
            let error = text.parse::<Endpoint>().unwrap_err().to_string();
            assert!(error.contains("tcp://HOST:PORT"), "{error}");
        }
    }

    #[test]
    fn only_the_socket_file_of_a_dead_process_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let endpoint = Endpoint::Ipc(folder.path().join("events"));
        let first = endpoint.bind().unwrap();
        let refused = endpoint.bind().unwrap_err().to_string();
        assert!(refused.contains("choose another"), "{refused}");
        drop(first);
        assert!(endpoint.bind().is_ok());
    }

    #[test]
    fn a_port_that_is_taken_is_an_error_that_names_it() {
        let Ok(Endpoint::Tcp(host, port)) =
            Endpoint::Tcp("127.0.0.1".to_owned(), 0).bind().unwrap().endpoint()
        else {
            unreachable!("it is a TCP port");
        };
        let held = Endpoint::Tcp(host, port);
        let _bound = held.bind().unwrap();
        let refused = held.bind().unwrap_err().to_string();
        assert!(refused.contains(&held.to_string()), "{refused}");
    }
}
