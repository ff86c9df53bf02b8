//! The node's typed configuration. Invariant: every value here has passed its check, so the daemon
//! never validates settings again.

pub(crate) mod build;
pub mod table;

use perigee_flags::{FlagError, LogSettings, ProcessEnvironment, ProgramStart};
use perigee_schemas::TenantId;
use perigee_store::{DiskSettings, StoreEnvironment};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Everything a node needs to know to start.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeConfig {
    /// The name other hosts know it by.
    pub name: NodeName,
    /// The name's port is the default: if another node of this host has it, the next one may be
    /// taken.
    pub may_take_next_port: bool,
    /// `host:port` of the master.
    pub master: String,
    /// Where to register.
    pub metadata: Metadata,
    /// Memory to donate, in bytes.
    pub segment_bytes: u64,
    /// How clients may reach the memory: `tcp` or `rdma`.
    pub protocol: String,
    /// Names of RDMA devices; empty for all.
    pub device_names: String,
    /// Disks for objects that memory has no room for.
    pub disks: Option<DiskSettings>,
    /// Tenant of the programs of this host that find their master through the node.
    pub tenant: TenantId,
    /// Where programs of other users of this host find the node.
    pub client_socket: Option<ClientSocket>,
    /// How long a start waits for the master.
    pub max_wait: Duration,
    /// How long a stop moves objects away first, and the master's HTTP port; `None` drops them.
    pub drain: Option<StopDrain>,
    /// Whether and where the HTTP routes are served.
    pub http: HttpPage,
    /// Settings of the data path.
    pub environment: StoreEnvironment,
    /// Log switches.
    pub log: LogSettings,
    /// `name=value` of every setting that differs from its default.
    pub changed: Vec<String>,
    /// What the operator should know about these settings; log each once.
    pub warnings: Vec<String>,
}

/// What a stop does about the objects of the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StopDrain {
    /// Longest time for moving them to other nodes.
    pub patience: Duration,
    /// HTTP port of the master.
    pub master_port: u16,
    /// Whether the time was asked for: then all of it is used, and by SIGINT, too.
    pub is_asked: bool,
}

/// A socket with a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientSocket {
    /// The file.
    pub path: PathBuf,
    /// Its mode bits: who may write may connect.
    pub mode: u32,
}

/// How the node is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeName {
    /// This name, with or without a port.
    Given(String),
    /// The address that peers connect to, with this port; 0 chooses one. The node listens on all
    /// addresses.
    OfRoute(u16),
}

impl NodeName {
    /// The port of the name; none if one is to be chosen.
    pub(crate) fn port(&self) -> Option<u16> {
        let port = match self {
            NodeName::Given(name) => build::port_of(name)?,
            NodeName::OfRoute(port) => *port,
        };
        (port > 0).then_some(port)
    }

    /// The name with another port.
    pub(crate) fn at_port(&self, port: u16) -> Self {
        match self {
            NodeName::Given(name) => {
                let host = name.rsplit_once(':').map_or(name.as_str(), |(host, _)| host);
                NodeName::Given(format!("{host}:{port}"))
            }
            NodeName::OfRoute(_) => NodeName::OfRoute(port),
        }
    }
}

/// Whether the node serves HTTP routes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HttpPage {
    /// They were switched off.
    Off,
    /// At this address, unless another program has it: nothing was said, and scrapers look there.
    IfFree(SocketAddr),
    /// At this address, which must be free.
    Required(SocketAddr),
}

/// Where the node registers its segment besides the master.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Metadata {
    /// At this place (a URL or `P2PHANDSHAKE`), which must work.
    Required(String),
    /// At this URL if a service answers there; it is the default, not a request.
    IfThere(String),
}

/// What a start of the node should do.
#[derive(Debug)]
pub enum NodeStart {
    /// Serve with this configuration.
    Serve(Box<NodeConfig>),
    /// Print this text on standard output and exit with 0.
    Print(String),
}

impl NodeConfig {
    /// Reads the configuration of a start; `arguments` is without the program name.
    ///
    /// # Errors
    /// Any setting that is unknown, unreadable, out of range, or contradicts another one.
    pub fn load(
        arguments: &[String],
        environment: &ProcessEnvironment,
    ) -> Result<NodeStart, FlagError> {
        match table::NODE.load(arguments, environment)? {
            ProgramStart::Print(text) => Ok(NodeStart::Print(text)),
            ProgramStart::Run(settings) => build::node_config(&settings, environment)
                .map(|config| NodeStart::Serve(Box::new(config))),
        }
    }
}

#[cfg(test)]
mod tests;
