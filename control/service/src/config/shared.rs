//! The directory that all hosts share. Invariant: its path and the name of its folder for this
//! cluster lead to one place, whichever client uses them.

use perigee_flags::{FlagError, Settings};
use std::path::{Component, Path};

const SWITCH: &str = "root_fs_dir";
const CLUSTER: &str = "cluster_id";
/// Each of them bounds what all clients have there.
const BOUNDS: [&str; 2] = ["quota_bytes", "global_file_segment_size"];
/// Longest name of a folder.
const NAME_BYTES_MAX: usize = 255;

/// A directory that is the same on all hosts, for disks of all clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedDirectory {
    /// Its path on each host.
    pub path: String,
    /// The folder of this cluster there.
    pub cluster: String,
    /// Most bytes of all that lies there; 0 for no bound.
    pub bytes: u64,
}

pub(super) fn shared_directory(
    settings: &Settings,
    warnings: &mut Vec<String>,
) -> Result<Option<SharedDirectory>, FlagError> {
    let path = settings.text(SWITCH).trim();
    if path.is_empty() {
        for name in [CLUSTER].into_iter().chain(BOUNDS).filter(|name| settings.is_given(name)) {
            warnings.push(format!(
                "Setting `{name}` has no effect without {SWITCH}: there is no shared directory"
            ));
        }
        return Ok(None);
    }
    let parts = Path::new(path);
    if !parts.is_absolute() || parts.components().any(|part| part == Component::ParentDir) {
        return Err(FlagError::Conflict(format!(
            "Setting `{SWITCH}` is {path:?}: write an absolute path without .., where all hosts \
             have the same directory"
        )));
    }
    let cluster = settings.text(CLUSTER);
    let is_name = !cluster.contains('/') && !["", ".", ".."].contains(&cluster);
    if !is_name || cluster.len() > NAME_BYTES_MAX {
        return Err(FlagError::Conflict(format!(
            "Setting `{CLUSTER}` is {cluster:?}, and is to be the name of a folder below {SWITCH}: \
             write a name without slashes"
        )));
    }
    Ok(Some(SharedDirectory {
        path: path.to_owned(),
        cluster: cluster.to_owned(),
        bytes: bound(settings)?,
    }))
}

/// The smaller bound of those that are given; 0 if none is.
fn bound(settings: &Settings) -> Result<u64, FlagError> {
    let [quota, capacity] = BOUNDS;
    let capacity_bytes: i64 = settings.integer(capacity);
    let Ok(capacity_bytes) = u64::try_from(capacity_bytes) else {
        return Err(FlagError::Conflict(format!(
            "Setting `{capacity}` is {capacity_bytes}: write a number of bytes"
        )));
    };
    let bounds = [settings.integer(quota), capacity_bytes];
    let given = bounds.into_iter().filter(|bytes| *bytes > 0 && *bytes < i64::MAX as u64);
    Ok(given.min().unwrap_or(0))
}
