//! `ReplicateConfig`: how a put places and keeps its objects.
//! Invariant: it has no `session_ids`; clients decide by its absence that they must not use them.

use crate::arguments::{Count, Switch};
use crate::enumeration::{ObjectDataType, SoftPinAction};
use perigee_schemas::Status;
use perigee_settings::REPLICATE_CONFIG;
use perigee_store::api;
use pyo3::prelude::*;
use std::sync::Once;

/// How a put places and keeps its objects.
///
/// Attributes: replica_num (copies on distinct segments, 1 or more), soft_pin_action,
/// soft_pin_ttl_ms (milliseconds or None for the master's default), with_soft_pin (older spelling
/// of SoftPinAction.ENABLE), with_hard_pin (never evicted), preferred_segments (names "host:port",
/// tried in order), preferred_segment (one name, older spelling), prefer_alloc_in_same_node (keep a
/// batch on one segment), data_type, group_ids (None, or one group name per key of the batch).
/// nof_replica_num, dfs_replica_num and preferred_nof_segments belong to storage this build does
/// not have: a put with either number above 0 answers -1012.
#[pyclass(module = "mooncake.store")]
#[derive(Debug)]
pub(crate) struct ReplicateConfig {
    replica_num: u64,
    nof_replica_num: u64,
    dfs_replica_num: u64,
    soft_pin_ttl_ms: Option<u64>,
    #[pyo3(get, set)]
    soft_pin_action: SoftPinAction,
    #[pyo3(get)]
    with_soft_pin: bool,
    #[pyo3(get)]
    with_hard_pin: bool,
    #[pyo3(get, set)]
    preferred_segments: Vec<String>,
    #[pyo3(get, set)]
    preferred_nof_segments: Vec<String>,
    #[pyo3(get, set)]
    preferred_segment: String,
    #[pyo3(get)]
    prefer_alloc_in_same_node: bool,
    #[pyo3(get, set)]
    data_type: ObjectDataType,
    #[pyo3(get, set)]
    group_ids: Option<Vec<String>>,
}

impl Default for ReplicateConfig {
    fn default() -> Self {
        Self {
            replica_num: 1,
            nof_replica_num: 0,
            dfs_replica_num: 0,
            soft_pin_ttl_ms: None,
            soft_pin_action: SoftPinAction::PRESERVE,
            with_soft_pin: false,
            with_hard_pin: false,
            preferred_segments: Vec::new(),
            preferred_nof_segments: Vec::new(),
            preferred_segment: String::new(),
            prefer_alloc_in_same_node: false,
            data_type: ObjectDataType::UNKNOWN,
            group_ids: None,
        }
    }
}

/// A `ReplicateConfig` as the store takes it, copied so that the interpreter can be let go.
#[derive(Clone, Debug, Default)]
pub(crate) struct OwnedConfig {
    /// The part that holds for every key of the call.
    pub(crate) config: api::ReplicateConfig,
    groups: Option<Vec<String>>,
}

impl OwnedConfig {
    /// Group of each of `count` keys; refused when the number of groups differs.
    pub(crate) fn groups(&self, count: usize) -> Result<Vec<Option<&str>>, Status> {
        match &self.groups {
            None => Ok(vec![None; count]),
            Some(groups) if groups.len() == count => Ok(groups
                .iter()
                .map(|group| Some(group.as_str()).filter(|group| !group.is_empty()))
                .collect()),
            Some(_) => Err(Status::InvalidParams),
        }
    }
}

/// The placement an optional argument asks for.
pub(crate) fn placement(config: Option<&ReplicateConfig>) -> Result<OwnedConfig, Status> {
    config.map_or_else(|| Ok(OwnedConfig::default()), ReplicateConfig::placement)
}

static SAID: [Once; REPLICATE_CONFIG.len()] = [const { Once::new() }; REPLICATE_CONFIG.len()];

impl ReplicateConfig {
    /// Whether an attribute that may have no effect is set.
    fn is_set(&self, name: &str) -> bool {
        match name {
            "data_type" => self.data_type != ObjectDataType::UNKNOWN,
            "preferred_nof_segments" => !self.preferred_nof_segments.is_empty(),
            "nof_replica_num" => self.nof_replica_num > 0,
            "dfs_replica_num" => self.dfs_replica_num > 0,
            _ => false,
        }
    }

    /// Says once per process what is set and changes nothing.
    fn name_what_has_no_effect(&self) {
        for ((names, effect), said) in REPLICATE_CONFIG.iter().zip(&SAID) {
            if self.is_set(names[0]) {
                said.call_once(|| {
                    let line = effect.line(names[0]).unwrap_or_default();
                    tracing::warn!("ReplicateConfig.{line}");
                });
            }
        }
    }

    fn placement(&self) -> Result<OwnedConfig, Status> {
        self.name_what_has_no_effect();
        if self.nof_replica_num > 0 || self.dfs_replica_num > 0 {
            return Err(Status::NotSupported);
        }
        if self.replica_num == 0 {
            return Err(Status::InvalidParams);
        }
        // More than there can be is best effort, as is more than there are segments.
        let replica_num = u32::try_from(self.replica_num).unwrap_or(u32::MAX);
        let mut preferred_segments = self.preferred_segments.clone();
        if !self.preferred_segment.is_empty() {
            preferred_segments.insert(0, self.preferred_segment.clone());
        }
        Ok(OwnedConfig {
            config: api::ReplicateConfig {
                replica_num,
                soft_pin_action: match self.soft_pin_action {
                    SoftPinAction::ENABLE => api::SoftPinAction::Enable,
                    SoftPinAction::DISABLE => api::SoftPinAction::Disable,
                    _ => api::SoftPinAction::Preserve,
                },
                soft_pin_ttl_ms: self.soft_pin_ttl_ms,
                with_soft_pin: self.with_soft_pin,
                with_hard_pin: self.with_hard_pin,
                preferred_segments,
                prefer_alloc_in_same_node: self.prefer_alloc_in_same_node,
                data_type: self.data_type.into(),
            },
            groups: self.group_ids.clone(),
        })
    }
}

#[pymethods]
impl ReplicateConfig {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Copies wanted on distinct segments.
    #[getter]
    fn replica_num(&self) -> u64 {
        self.replica_num
    }

    #[setter]
    fn set_replica_num(&mut self, value: Count) {
        self.replica_num = value.0;
    }

    /// Copies wanted on NVMe-oF storage; this build has none.
    #[getter]
    fn nof_replica_num(&self) -> u64 {
        self.nof_replica_num
    }

    #[setter]
    fn set_nof_replica_num(&mut self, value: Count) {
        self.nof_replica_num = value.0;
    }

    /// Copies wanted on a distributed file system; this build has none.
    #[getter]
    fn dfs_replica_num(&self) -> u64 {
        self.dfs_replica_num
    }

    #[setter]
    fn set_dfs_replica_num(&mut self, value: Count) {
        self.dfs_replica_num = value.0;
    }

    /// Length of the soft pin in milliseconds; None is the master's default.
    #[getter]
    fn soft_pin_ttl_ms(&self) -> Option<u64> {
        self.soft_pin_ttl_ms
    }

    #[setter]
    fn set_soft_pin_ttl_ms(&mut self, value: Option<Count>) {
        self.soft_pin_ttl_ms = value.map(|value| value.0);
    }

    #[setter]
    fn set_with_soft_pin(&mut self, value: Switch) {
        self.with_soft_pin = value.0;
    }

    #[setter]
    fn set_with_hard_pin(&mut self, value: Switch) {
        self.with_hard_pin = value.0;
    }

    #[setter]
    fn set_prefer_alloc_in_same_node(&mut self, value: Switch) {
        self.prefer_alloc_in_same_node = value.0;
    }

    /// The text clients know from Mooncake, where `with_soft_pin` shows as the action it stands
    /// for.
    fn __str__(&self) -> String {
        let list = |names: &[String]| format!("[{}]", names.join(", "));
        let action = match self.with_soft_pin {
            true => SoftPinAction::ENABLE,
            false => self.soft_pin_action,
        };
        let ttl = self.soft_pin_ttl_ms.map(|ttl_ms| ttl_ms.to_string());
        let mut text = format!(
            "ReplicateConfig: {{ replica_num: {}, nof_replica_num: {}, dfs_replica_num: {}, \
             soft_pin_action: {}, soft_pin_ttl_ms: {}, with_hard_pin: {}, preferred_segments: {}",
            self.replica_num,
            self.nof_replica_num,
            self.dfs_replica_num,
            action.text(),
            ttl.as_deref().unwrap_or("default"),
            u8::from(self.with_hard_pin),
            list(&self.preferred_segments),
        );
        if !self.preferred_segment.is_empty() {
            text += &format!(", preferred_segment (deprecated): {}", self.preferred_segment);
        }
        text += &format!(
            ", preferred_nof_segments: {}, prefer_alloc_in_same_node: {}, data_type: {}",
            list(&self.preferred_nof_segments),
            u8::from(self.prefer_alloc_in_same_node),
            self.data_type.text(),
        );
        if let Some(groups) = &self.group_ids {
            text += &format!(", group_ids: {}", list(groups));
        }
        text + " }"
    }
}
