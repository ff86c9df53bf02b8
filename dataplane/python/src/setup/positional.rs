//! `setup` with seven positions and optional extras, any of them by keyword. Invariant: unknown
//! keywords are reported before anything else, all at once and nothing beside them.

use super::{ParsedSetup, SetupError, disks, mismatch};
use crate::arguments::{Count, type_name};
use crate::engine::{EngineClient, EngineHandle, EngineSession};
use crate::limits::DEFAULT_HTTP_PORT;
use perigee_settings::SETUP_KEYWORDS;
use perigee_store::api::StoreConfig;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyString, PyTuple};
use std::sync::Arc;

/// Mooncake's names in their order, and the one that Mooncake does not have.
const NAMES: [&str; SETUP_KEYWORDS.len() + 1] = {
    let mut names = ["ssd_key_file"; SETUP_KEYWORDS.len() + 1];
    let mut at = 0;
    while at < SETUP_KEYWORDS.len() {
        names[at] = SETUP_KEYWORDS[at].0[0];
        at += 1;
    }
    names
};
const REQUIRED: usize = 7;

/// The values of a call by the index of their name.
struct Bindings<'py>([Option<Bound<'py, PyAny>>; NAMES.len()]);

impl<'py> Bindings<'py> {
    fn bind(
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> Result<Self, SetupError> {
        if let Some(unknown) = unknown_keywords(kwargs)? {
            return Err(mismatch(&format!("kwargs: {unknown}")).into());
        }
        if args.len() > NAMES.len() {
            let detail = format!("{} positional values, at most {}", args.len(), NAMES.len());
            return Err(mismatch(&detail).into());
        }
        let mut values: [Option<Bound<'py, PyAny>>; NAMES.len()] = Default::default();
        for (slot, value) in values.iter_mut().zip(args.iter()) {
            *slot = Some(value);
        }
        for (name, slot) in NAMES.iter().zip(values.iter_mut()) {
            let keyword = kwargs.map_or(Ok(None), |kwargs| kwargs.get_item(name))?;
            match (keyword, &slot) {
                (Some(_), Some(_)) => {
                    return Err(mismatch(&format!("two values for {name}")).into());
                }
                (Some(value), None) => *slot = Some(value),
                (None, _) => {}
            }
        }
        for (name, value) in NAMES.iter().zip(&values).take(REQUIRED) {
            if value.as_ref().is_none_or(|value| value.is_none()) {
                return Err(mismatch(&format!("no value for {name}")).into());
            }
        }
        Ok(Self(values))
    }

    /// The value of a name, if it was given and is not None.
    fn get(&self, name: &str) -> Option<&Bound<'py, PyAny>> {
        let index = NAMES.iter().position(|known| *known == name)?;
        self.0[index].as_ref().filter(|value| !value.is_none())
    }

    fn text(&self, name: &str, default: &str) -> Result<String, SetupError> {
        match self.get(name) {
            None => Ok(default.to_owned()),
            Some(value) => match value.cast::<PyString>() {
                Ok(text) => Ok(text.to_str()?.to_owned()),
                Err(_) => Err(wrong(name, "a str", value)),
            },
        }
    }

    fn count(&self, name: &str) -> Result<u64, SetupError> {
        let value = self.get(name).ok_or_else(|| mismatch(&format!("no value for {name}")))?;
        match value.extract::<Count>() {
            Ok(count) => Ok(count.0),
            Err(_) => Err(wrong(name, "an int that is not negative", value)),
        }
    }

    fn flag(&self, name: &str) -> Result<bool, SetupError> {
        match self.get(name) {
            None => Ok(false),
            Some(value) => match value.cast::<PyBool>() {
                Ok(flag) => Ok(flag.is_true()),
                Err(_) => Err(wrong(name, "a bool", value)),
            },
        }
    }

    /// The running engine of `TransferEngine.get_engine()`, or of the `TransferEngine` itself. The
    /// store moves bytes over its own connections; it only sees to it that the engine goes on.
    fn engine(&self) -> Result<Option<Arc<EngineSession>>, SetupError> {
        let Some(value) = self.get("engine") else {
            return Ok(None);
        };
        if let Ok(handle) = value.cast::<EngineHandle>() {
            return Ok(handle.get().session());
        }
        match value.cast::<EngineClient>() {
            Ok(client) => Ok(client.get().session(value.py())),
            Err(_) => Err(wrong("engine", "a TransferEngine.get_engine() or None", value)),
        }
    }

    fn port(&self, name: &str) -> Result<u16, SetupError> {
        match self.get(name) {
            None => Ok(DEFAULT_HTTP_PORT),
            Some(value) => {
                value.extract::<u16>().map_err(|_| wrong(name, "a port from 0 to 65535", value))
            }
        }
    }
}

fn wrong(name: &str, wanted: &str, value: &Bound<'_, PyAny>) -> SetupError {
    mismatch(&format!("{name} must be {wanted}, not {}", type_name(value))).into()
}

/// The unknown keywords as `name=value`, or None.
fn unknown_keywords(kwargs: Option<&Bound<'_, PyDict>>) -> PyResult<Option<String>> {
    let mut unknown = Vec::new();
    for (name, value) in kwargs.into_iter().flat_map(|kwargs| kwargs.iter()) {
        let name = name.cast::<PyString>()?.to_str()?.to_owned();
        if !NAMES.contains(&name.as_str()) {
            unknown.push(format!("{name}={}", value.repr()?));
        }
    }
    Ok(Some(unknown.join(", ")).filter(|text| !text.is_empty()))
}

/// Reads the form.
pub(super) fn parse(
    args: &Bound<'_, PyTuple>,
    kwargs: Option<&Bound<'_, PyDict>>,
) -> Result<ParsedSetup, SetupError> {
    let values = Bindings::bind(args, kwargs)?;
    let http_port = values.port("client_http_port")?;
    let serve_http = values.flag("enable_client_http_server")?;
    let ssd_path = values.text("ssd_offload_path", "")?;
    let key_file = values.text("ssd_key_file", "")?;
    let (disks, notices) = disks(values.flag("enable_ssd_offload")?, &ssd_path, &key_file)?;
    Ok(ParsedSetup {
        engine: values.engine()?,
        notices,
        config: StoreConfig {
            local_hostname: values.text("local_hostname", "")?,
            metadata_server: values.text("metadata_server", "")?,
            global_segment_bytes: values.count("global_segment_size")?,
            local_buffer_bytes: values.count("local_buffer_size")?,
            protocol: values.text("protocol", "")?,
            device_name: values.text("rdma_devices", "")?,
            master_server_address: values.text("master_server_addr", "")?,
            tenant_id: StoreConfig::tenant_or_environment(&values.text("tenant_id", "")?),
            http_port: serve_http.then_some(http_port),
            disks,
        },
    })
}
