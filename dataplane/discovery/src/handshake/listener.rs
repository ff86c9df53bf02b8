//! The port of the handshake server. Invariant: it is bound before the engine says its name,
//! because the port is part of the name; no request is served before the engine is ready.

use crate::error::DiscoveryError;
use crate::limits::HANDLERS_MAX;
use crate::settings::DiscoverySettings;
use std::io;
use std::net::{IpAddr, SocketAddr};
use tokio::net::{TcpListener, TcpSocket};
use tokio::runtime::{Builder, Runtime};

/// A server that has its port but does not answer yet.
#[derive(Debug)]
pub struct BoundServer {
    pub(super) runtime: Runtime,
    pub(super) listener: TcpListener,
    pub(super) port: u16,
    pub(super) frame_bytes_max: usize,
}

impl BoundServer {
    pub(super) fn bind(
        port: Option<u16>,
        settings: &DiscoverySettings,
    ) -> Result<Self, DiscoveryError> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(HANDLERS_MAX)
            .thread_name("perigee-answer")
            .build()
            .map_err(|error| DiscoveryError::System {
                what: "starting the handshake server",
                reason: error.to_string(),
            })?;
        let entered = runtime.enter();
        let host = settings.listen_address();
        let listener = match port {
            Some(port) => {
                listen(host, port, settings.backlog).map_err(|error| DiscoveryError::Port {
                    address: SocketAddr::new(host, port).to_string(),
                    reason: error.to_string(),
                })?
            }
            None => listen_anywhere(host, settings)?,
        };
        drop(entered);
        let port = listener.local_addr().map_or(0, |address| address.port());
        Ok(Self { runtime, listener, port, frame_bytes_max: settings.frame_bytes_max })
    }

    /// The port peers connect to.
    pub fn port(&self) -> u16 {
        self.port
    }
}

/// The first free port of the range, from a random one on.
fn listen_anywhere(
    host: IpAddr,
    settings: &DiscoverySettings,
) -> Result<TcpListener, DiscoveryError> {
    let (first, last) = (*settings.ports.start(), *settings.ports.end());
    let count = u32::from(last - first) + 1;
    // Without random numbers all engines begin at the same port, which only costs more attempts.
    let start = getrandom::u32().unwrap_or(0) % count;
    for step in 0..count {
        let port = first + ((start + step) % count) as u16;
        match listen(host, port, settings.backlog) {
            Ok(listener) => return Ok(listener),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            Err(error) => {
                return Err(DiscoveryError::Port {
                    address: SocketAddr::new(host, port).to_string(),
                    reason: error.to_string(),
                });
            }
        }
    }
    Err(DiscoveryError::NoFreePort { address: host.to_string(), first, last })
}

fn listen(host: IpAddr, port: u16, backlog: u32) -> io::Result<TcpListener> {
    let socket = if host.is_ipv6() { TcpSocket::new_v6()? } else { TcpSocket::new_v4()? };
    // A restarted engine must get its port back while old connections linger.
    socket.set_reuseaddr(true)?;
    socket.bind(SocketAddr::new(host, port))?;
    socket.listen(backlog)
}
