//! Which devices and GPUs a process is to use. Invariant: a device is allowed only if every list
//! that was given allows it.

use std::path::Path;

use serde_json::Value;

use crate::document;
use crate::error::{TopologyError, shown};
use crate::gpu::{Gpu, GpuVendor};
use crate::limits::DEVICES_MAX;

/// Name of the document in messages.
const WHAT: &str = "The map of devices per rank";
/// Lists of devices to use: that of the engine and that of the store.
const INCLUDING_VARIABLES: [&str; 2] = ["MC_TE_FILTERS", "MC_MS_FILTERS"];
/// List of devices not to use.
const EXCLUDING_VARIABLE: &str = "MC_TE_FILTERS_EXCLUDE";
/// Says which rank on its host a process is.
const RANK_VARIABLE: &str = "LOCAL_RANK";

/// Devices and GPUs to use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// Of the `device_name` argument.
    named: Option<Vec<String>>,
    /// Of each variable in [`INCLUDING_VARIABLES`] that is set.
    included: Vec<(&'static str, Vec<String>)>,
    /// Of `MC_TE_FILTERS_EXCLUDE`.
    excluded: Vec<String>,
    /// Of `CUDA_VISIBLE_DEVICES`.
    visible: Option<Vec<VisibleGpu>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum VisibleGpu {
    Index(usize),
    /// Beginning of a `GPU-…` name.
    Uuid(String),
}

impl Selection {
    /// Everything.
    #[must_use]
    pub fn all() -> Self {
        Self::default()
    }

    /// Reads a `device_name` argument (a list, a map of lists per rank, or the path of a `.json`
    /// file with such a map) and the variables `MC_TE_FILTERS`, `MC_MS_FILTERS`,
    /// `MC_TE_FILTERS_EXCLUDE`, `CUDA_VISIBLE_DEVICES` and `LOCAL_RANK`.
    ///
    /// # Errors
    /// The map is malformed or has nothing for this rank.
    pub fn new(
        device_name: &str,
        rank: Option<u32>,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, TopologyError> {
        let visible = environment("CUDA_VISIBLE_DEVICES").map(|text| visible_gpus(&text));
        let rank = rank.or_else(|| environment(RANK_VARIABLE)?.trim().parse().ok());
        let rank = rank.or_else(|| only_gpu(visible.as_deref()?));
        let listed = |name: &str| list(&environment(name).unwrap_or_default());
        let including = INCLUDING_VARIABLES.into_iter();
        Ok(Self {
            named: list(&of_rank(device_name.trim(), rank)?),
            included: including.filter_map(|name| Some((name, listed(name)?))).collect(),
            excluded: listed(EXCLUDING_VARIABLE).unwrap_or_default(),
            visible,
        })
    }

    /// True if a device may be used.
    #[must_use]
    pub fn allows(&self, device: &str) -> bool {
        self.objection(device).is_none()
    }

    /// Why a device may not be used.
    #[must_use]
    pub fn objection(&self, device: &str) -> Option<String> {
        let lacks = |names: &Vec<String>| !names.iter().any(|name| name == device);
        if self.named.as_ref().is_some_and(lacks) {
            return Some("not in the list of devices".to_owned());
        }
        if let Some((variable, _)) = self.included.iter().find(|(_, names)| lacks(names)) {
            return Some(format!("not in {variable}"));
        }
        (!lacks(&self.excluded)).then(|| format!("in {EXCLUDING_VARIABLE}"))
    }

    /// Devices that were asked for by name.
    #[must_use]
    pub fn asked(&self) -> Vec<String> {
        let of_variables = self.included.iter().map(|(_, names)| names);
        let lists = self.named.iter().chain(of_variables);
        lists.flatten().cloned().collect()
    }

    /// GPUs this process sees, with the numbers it knows them by.
    #[must_use]
    pub fn visible<'a>(&self, gpus: &'a [Gpu]) -> Vec<(usize, &'a Gpu)> {
        let Some(wanted) = &self.visible else {
            return gpus.iter().map(|gpu| (gpu.index, gpu)).collect();
        };
        let (cuda, others): (Vec<&Gpu>, Vec<&Gpu>) =
            gpus.iter().partition(|gpu| gpu.vendor == GpuVendor::Nvidia);
        // As in the driver, the first entry that names no GPU ends the list.
        let seen = wanted.iter().map_while(|one| one.find(&cuda)).enumerate();
        seen.chain(others.into_iter().map(|gpu| (gpu.index, gpu))).collect()
    }
}

impl VisibleGpu {
    fn find<'a>(&self, gpus: &[&'a Gpu]) -> Option<&'a Gpu> {
        let mut gpus = gpus.iter().copied();
        match self {
            Self::Index(index) => gpus.find(|gpu| gpu.index == *index),
            Self::Uuid(begin) => {
                gpus.find(|gpu| gpu.uuid.as_ref().is_some_and(|uuid| uuid.starts_with(begin)))
            }
        }
    }
}

/// Stops at the first entry that is neither a number nor a UUID, such as `-1`.
fn visible_gpus(text: &str) -> Vec<VisibleGpu> {
    let entries = text.split(',').map(str::trim);
    let read = |entry: &str| match entry.parse() {
        Ok(index) => Some(VisibleGpu::Index(index)),
        Err(_) if entry.starts_with("GPU-") => Some(VisibleGpu::Uuid(entry.to_owned())),
        Err(_) => None,
    };
    entries.map_while(read).take(DEVICES_MAX).collect()
}

/// With one visible GPU its number is what frameworks use as the rank on the host.
fn only_gpu(visible: &[VisibleGpu]) -> Option<u32> {
    match visible {
        [VisibleGpu::Index(index)] => u32::try_from(*index).ok(),
        _ => None,
    }
}

/// Names between commas. `None` if there is none.
fn list(text: &str) -> Option<Vec<String>> {
    let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
    let names: Vec<String> = names.take(DEVICES_MAX).map(str::to_owned).collect();
    (!names.is_empty()).then_some(names)
}

/// The list of devices inside a `device_name` argument.
fn of_rank(text: &str, rank: Option<u32>) -> Result<String, TopologyError> {
    if text.starts_with('{') {
        in_map(text, rank)
    } else if text.ends_with(".json") {
        in_map(&document::read_file(Path::new(text))?, rank)
    } else {
        Ok(text.to_owned())
    }
}

fn in_map(text: &str, rank: Option<u32>) -> Result<String, TopologyError> {
    let map = document::object(WHAT, text)?;
    document::check_entries(WHAT, map.len())?;
    let entries =
        map.into_iter().map(|(key, value)| Ok((rank_of(&key)?, devices_of(&key, value)?)));
    let mut entries = entries.collect::<Result<Vec<(u32, String)>, TopologyError>>()?;
    entries.sort_unstable();
    let ranks = || entries.iter().map(|(rank, _)| rank.to_string()).collect();
    match (rank, entries.as_slice()) {
        (_, []) => Err(TopologyError::malformed(WHAT, "it is empty")),
        (None, [(_, only)]) => Ok(only.clone()),
        (None, _) => Err(TopologyError::RankNeeded { ranks: ranks() }),
        (Some(rank), _) => match entries.iter().find(|(of, _)| *of == rank) {
            Some((_, devices)) => Ok(devices.clone()),
            None => Err(TopologyError::NoSuchRank { rank, ranks: ranks() }),
        },
    }
}

fn rank_of(key: &str) -> Result<u32, TopologyError> {
    key.trim()
        .parse()
        .map_err(|_| TopologyError::malformed(WHAT, format!("the key `{}` is no rank", shown(key))))
}

/// `"mlx5_0,mlx5_1"`, also `["mlx5_0", "mlx5_1"]`.
fn devices_of(key: &str, value: Value) -> Result<String, TopologyError> {
    let refused = || {
        let cause = format!("rank {} must have a list such as \"mlx5_0,mlx5_1\"", shown(key));
        TopologyError::malformed(WHAT, cause)
    };
    match value {
        Value::String(devices) => Ok(devices),
        list => document::names(WHAT, list).map(|names| names.join(",")).ok_or_else(refused),
    }
}

#[cfg(test)]
mod tests;
