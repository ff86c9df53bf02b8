//! `setup` with one dict; all values may be texts. Invariant: an unknown key is logged by name,
//! because a misspelt setting must not silently mean the default; it is no error, because clients
//! hand on whatever they were given.

use super::{ParsedSetup, SetupError, disks, invalid};
use crate::limits::{DEFAULT_HTTP_PORT, DEFAULT_SETUP_BYTES};
use perigee_memory::size::parse_bytes;
use perigee_settings::SETUP_KEYS;
use perigee_store::api::StoreConfig;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::collections::BTreeMap;

/// The key that Mooncake does not have.
const OWN_KEY: &[&str] = &["ssd_key_file"];

/// Known keys; those after the first of a row are other spellings of it.
fn rows() -> impl Iterator<Item = &'static [&'static str]> {
    SETUP_KEYS.iter().map(|(names, _)| *names).chain([OWN_KEY])
}

/// Keys that have an effect, in their first spelling.
fn effective() -> impl Iterator<Item = &'static str> {
    let of_mooncake = SETUP_KEYS.iter().filter(|(names, effect)| effect.line(names[0]).is_none());
    of_mooncake.map(|(names, _)| names[0]).chain([OWN_KEY[0]])
}

struct Texts {
    known: BTreeMap<&'static str, String>,
    notices: Vec<String>,
}

impl Texts {
    fn read(config: &Bound<'_, PyDict>) -> Result<Self, SetupError> {
        let mut texts = Self { known: BTreeMap::new(), notices: Vec::new() };
        for (key, value) in config.iter() {
            let key = key.str()?.to_str()?.to_owned();
            let Some(row) = rows().find(|row| row.contains(&key.as_str())) else {
                let known: Vec<&str> = effective().collect();
                texts.notices.push(format!(
                    "setup(): unknown key {key:?} has no effect; the known ones are {}",
                    known.join(", ")
                ));
                continue;
            };
            if !value.is_none() {
                let text = value.str()?.to_str()?.trim().to_owned();
                texts.known.insert(row[0], text);
            }
        }
        Ok(texts)
    }

    /// The lines about keys that are given and have no effect.
    fn without_effect(&self) -> impl Iterator<Item = String> {
        let is_given = |key: &str| self.known.get(key).is_some_and(|text| !text.is_empty());
        let rows = SETUP_KEYS.iter().filter(move |(names, _)| is_given(names[0]));
        rows.filter_map(|(names, effect)| Some(format!("setup(): {}", effect.line(names[0])?)))
    }

    fn text(&self, key: &str, default: &str) -> String {
        self.known.get(key).map_or(default, String::as_str).to_owned()
    }

    fn required(&self, key: &str) -> Result<String, SetupError> {
        Some(self.text(key, ""))
            .filter(|text| !text.is_empty())
            .ok_or_else(|| invalid(format!("setup(): the dict must have {key}")))
    }

    fn bytes(&self, key: &str) -> Result<u64, SetupError> {
        match self.known.get(key) {
            None => Ok(DEFAULT_SETUP_BYTES),
            Some(text) => {
                parse_bytes(text).map_err(|error| invalid(format!("setup(): {key}: {error}")))
            }
        }
    }

    fn flag(&self, key: &str) -> Result<bool, SetupError> {
        match self.text(key, "").to_ascii_lowercase().as_str() {
            "true" | "1" | "yes" | "on" | "enable" => Ok(true),
            "" | "false" | "0" | "no" | "off" | "disable" => Ok(false),
            other => Err(invalid(format!("setup(): {key} is {other:?}; write true or false"))),
        }
    }

    fn port(&self, key: &str) -> Result<u16, SetupError> {
        match self.known.get(key) {
            None => Ok(DEFAULT_HTTP_PORT),
            Some(text) => text.parse().map_err(|_| {
                invalid(format!("setup(): {key} is {text:?}; write a port up to 65535"))
            }),
        }
    }
}

/// Reads the form.
pub(super) fn parse(config: &Bound<'_, PyDict>) -> Result<ParsedSetup, SetupError> {
    let mut texts = Texts::read(config)?;
    let mut logged = std::mem::take(&mut texts.notices);
    let (path, key_file) = (texts.text("ssd_offload_path", ""), texts.text("ssd_key_file", ""));
    let (disks, notices) = disks(texts.flag("enable_ssd_offload")?, &path, &key_file)?;
    logged.extend(notices);
    logged.extend(texts.without_effect());
    let http_port = texts.port("client_http_port")?;
    let usual = StoreConfig::default();
    let serve_http = texts.flag("enable_client_http_server")?;
    Ok(ParsedSetup {
        engine: None,
        notices: logged,
        config: StoreConfig {
            local_hostname: texts.required("local_hostname")?,
            metadata_server: texts.required("metadata_server")?,
            global_segment_bytes: texts.bytes("global_segment_size")?,
            local_buffer_bytes: texts.bytes("local_buffer_size")?,
            protocol: texts.text("protocol", &usual.protocol),
            device_name: texts.text("rdma_devices", ""),
            master_server_address: texts.text("master_server_addr", &usual.master_server_address),
            tenant_id: StoreConfig::tenant_or_environment(&texts.text("tenant_id", "")),
            http_port: serve_http.then_some(http_port),
            disks,
        },
    })
}
