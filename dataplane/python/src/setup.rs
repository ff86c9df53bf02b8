//! The argument forms of `setup`: seven positions with optional extras, or one dict of texts.
//! Invariant: a `TypeError` names exactly the keywords that are not known, because clients retry
//! without the keywords they find in its text.

mod mapping;
mod positional;

use crate::arguments::Count;
use crate::engine::EngineSession;
use crate::limits::INTRODUCTION_DEADLINE;
use perigee_schemas::Status;
use perigee_settings::Variables;
use perigee_store::api::{DiskSettings, MASTER_VARIABLE, StoreConfig};
use perigee_store::{NodeAnswer, ask_node, ask_node_at};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// A set-up that was understood.
pub(crate) struct ParsedSetup {
    /// What the store is opened with.
    pub(crate) config: StoreConfig,
    /// A running engine that must not end before the store.
    pub(crate) engine: Option<Arc<EngineSession>>,
    /// What the caller asked for and does not get.
    pub(crate) notices: Vec<String>,
}

impl From<StoreConfig> for ParsedSetup {
    fn from(config: StoreConfig) -> Self {
        Self { config, engine: None, notices: Vec::new() }
    }
}

/// Why a set-up was not understood.
pub(crate) enum SetupError {
    /// An exception for the caller.
    Raise(PyErr),
    /// A code for the caller and a message for the log.
    Code(Status, String),
}

impl From<PyErr> for SetupError {
    fn from(error: PyErr) -> Self {
        Self::Raise(error)
    }
}

/// A refusal with code -600.
fn invalid(message: impl Into<String>) -> SetupError {
    SetupError::Code(Status::InvalidParams, message.into())
}

/// Reads either form.
pub(crate) fn parse(
    args: &Bound<'_, PyTuple>,
    kwargs: Option<&Bound<'_, PyDict>>,
) -> Result<ParsedSetup, SetupError> {
    let named = kwargs.map_or(0, |kwargs| kwargs.len());
    if let (1, 0, Ok(first)) = (args.len(), named, args.get_item(0))
        && let Ok(config) = first.cast::<PyDict>()
    {
        return mapping::parse(config);
    }
    if let (0, 1, Some(kwargs)) = (args.len(), named, kwargs)
        && let Some(config) = kwargs.get_item("config")?
    {
        return match config.cast::<PyDict>() {
            Ok(config) => mapping::parse(config),
            Err(_) => Err(mismatch("argument 'config' must be a dict").into()),
        };
    }
    positional::parse(args, kwargs)
}

/// The `TypeError` of arguments that fit neither form.
fn mismatch(detail: &str) -> PyErr {
    PyTypeError::new_err(format!(
        "setup(): incompatible function arguments. Pass seven values and optional keywords, or one \
         dict. Invoked with: {detail}"
    ))
}

/// The disks that are asked for, or else the directory that all hosts share, and a notice of what
/// has no effect.
fn disks(
    is_wanted: bool,
    path: &str,
    key_file: &str,
) -> Result<(Option<DiskSettings>, Vec<String>), SetupError> {
    let variables = Variables::new(&Variables::of_process);
    let mut notices = DiskSettings::notices(&variables);
    if is_wanted {
        let read = DiskSettings::read(path, key_file, &variables);
        let settings = read.map_err(|error| invalid(format!("setup(): {error}")))?;
        return Ok((Some(settings), notices));
    }
    if !path.is_empty() {
        notices.push(
            "setup(ssd_offload_path=...) has no effect without enable_ssd_offload=True".to_owned(),
        );
    }
    let shared = DiskSettings::read_shared(key_file, &variables);
    if let (Err(error), false) = (&shared, key_file.trim().is_empty()) {
        return Err(invalid(format!("setup(): {error}")));
    }
    // A master without a shared directory needs none of it.
    let shared = shared.inspect_err(|error| {
        notices.push(format!(
            "setup(): no directory that all hosts share is used, if the master has one: {error}"
        ));
    });
    Ok((shared.ok(), notices))
}

/// A client that lends nothing, on the host of `server_address`, of the tenant and on the rails of
/// the node daemon there, and with its master unless the environment names one.
pub(crate) fn pure_client(
    server_address: &str,
    local_buffer: Count,
) -> Result<StoreConfig, (Status, String)> {
    let Some(door) = NodeDoor::parse(server_address) else {
        let message = format!(
            "setup_dummy(): {server_address:?} is no host:port address, and no unix:/PATH of a \
             node's socket"
        );
        return Err((Status::InvalidParams, message));
    };
    let answered = door.ask();
    let answer = match (StoreConfig::master_of_environment(), answered) {
        (Some(master), Ok(node)) => NodeAnswer { master, ..node },
        (Some(master), Err(_)) => {
            NodeAnswer::of_environment(master, StoreConfig::tenant_of_environment())
        }
        (None, answered) => answered.map_err(|error| {
            (Status::RpcFail, format!("setup_dummy(): {}", door.silent(&error)))
        })?,
    };
    Ok(StoreConfig {
        local_hostname: door.host().to_owned(),
        master_server_address: answer.master,
        tenant_id: answer.tenant_id,
        protocol: answer.protocol,
        device_name: answer.device_names,
        local_buffer_bytes: local_buffer.0,
        ..StoreConfig::default()
    })
}

/// Where a node daemon of this host is asked.
enum NodeDoor<'a> {
    /// By the port of its name.
    Port(&'a str, u16),
    /// At the file of its socket.
    File(&'a Path),
}

impl<'a> NodeDoor<'a> {
    fn parse(address: &'a str) -> Option<Self> {
        if let Some(path) = address.strip_prefix("unix:") {
            // As a URL it has two more slashes.
            let path = Path::new(path.strip_prefix("//").unwrap_or(path));
            return path.is_absolute().then_some(Self::File(path));
        }
        let (host, port) = address.rsplit_once(':')?;
        let port = port.parse().ok()?;
        (!host.is_empty()).then_some(Self::Port(host, port))
    }

    fn host(&self) -> &str {
        match self {
            Self::Port(host, _) => host,
            Self::File(_) => "localhost",
        }
    }

    fn ask(&self) -> io::Result<NodeAnswer> {
        match self {
            Self::Port(_, port) => ask_node(*port, INTRODUCTION_DEADLINE),
            Self::File(path) => ask_node_at(path, INTRODUCTION_DEADLINE),
        }
    }

    /// What to do where no node answers.
    fn silent(&self, error: &io::Error) -> String {
        match self {
            Self::Port(_, port) => format!(
                "no mooncake_client with port {port} on this host names its master ({error}); start \
                 one as this user, connect to the --ipc_socket_path of another user's with \
                 unix:/PATH, or set {MASTER_VARIABLE}=host:port"
            ),
            Self::File(path) => format!(
                "no mooncake_client answers at {} ({error}); its --ipc_socket_path must name this \
                 file, and --ipc_socket_mode let this user write to it",
                path.display()
            ),
        }
    }
}
