//! The argument forms of `setup`: seven positions with optional extras, or one dict of texts.
//! Invariant: a `TypeError` names exactly the keywords that are not known, because clients retry
//! without the keywords they find in its text.

mod mapping;
mod positional;

use crate::arguments::Count;
use crate::engine::EngineSession;
use crate::limits::{DEFAULT_SETUP_BYTES, INTRODUCTION_DEADLINE};
use perigee_schemas::Status;
use perigee_store::api::StoreConfig;
use perigee_store::ask_node;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use std::env;
use std::sync::Arc;

const DEFAULT_MASTER: &str = "127.0.0.1:50051";
const DEFAULT_METADATA: &str = "P2PHANDSHAKE";
const DEFAULT_PROTOCOL: &str = "tcp";
const DEFAULT_TENANT: &str = "default";
const MASTER_VARIABLE: &str = "MOONCAKE_MASTER";

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

/// Notices for features that are asked for and not there.
fn notices(ssd: bool, ssd_path: &str) -> Vec<String> {
    let asked = match (ssd, ssd_path) {
        (true, _) => "enable_ssd_offload",
        (false, "") => return Vec::new(),
        (false, _) => "ssd_offload_path",
    };
    vec![format!("setup({asked}=...): the SSD tier is not built yet; objects stay in memory")]
}

/// A client that lends nothing, on the host of `server_address`. Without a master in the
/// environment the node daemon on this host is asked for its own, which may take a moment.
pub(crate) fn pure_client(
    server_address: &str,
    local_buffer: Count,
) -> Result<StoreConfig, (Status, String)> {
    let parts = server_address
        .rsplit_once(':')
        .and_then(|(host, port)| Some((host, port.parse::<u16>().ok()?)));
    let Some((host, port)) = parts.filter(|(host, _)| !host.is_empty()) else {
        let message = format!("setup_dummy(): {server_address:?} is no host:port address");
        return Err((Status::InvalidParams, message));
    };
    let named = env::var(MASTER_VARIABLE).ok();
    let master = match named.filter(|master| !master.is_empty()) {
        Some(master) => master,
        None => ask_node(port, INTRODUCTION_DEADLINE).map_err(|error| {
            let message = format!(
                "setup_dummy(): no mooncake_client with port {port} on this host names its master \
                 ({error}); start one as this user, or set {MASTER_VARIABLE}=host:port"
            );
            (Status::RpcFail, message)
        })?,
    };
    Ok(StoreConfig {
        local_hostname: host.to_owned(),
        master_server_address: master,
        local_buffer_bytes: local_buffer.0,
        ..blank()
    })
}

/// A client on this host with the defaults of every program.
pub(crate) fn one_host(protocol: String, device_name: String, segment: Count) -> StoreConfig {
    let master = env::var(MASTER_VARIABLE).unwrap_or_default();
    StoreConfig {
        local_hostname: "localhost".to_owned(),
        global_segment_bytes: segment.0,
        protocol,
        device_name,
        master_server_address: Some(master)
            .filter(|master| !master.is_empty())
            .unwrap_or_else(|| DEFAULT_MASTER.to_owned()),
        ..blank()
    }
}

fn blank() -> StoreConfig {
    StoreConfig {
        local_hostname: String::new(),
        metadata_server: DEFAULT_METADATA.to_owned(),
        global_segment_bytes: 0,
        local_buffer_bytes: DEFAULT_SETUP_BYTES,
        protocol: DEFAULT_PROTOCOL.to_owned(),
        device_name: String::new(),
        master_server_address: DEFAULT_MASTER.to_owned(),
        tenant_id: DEFAULT_TENANT.to_owned(),
        http_port: None,
    }
}
