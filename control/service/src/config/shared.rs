//! The directory that all hosts share. Invariant: its path and the name of its folder for this
//! cluster lead to one place, whichever client uses them.

use perigee_flags::{FlagError, Settings};
use std::path::{Component, Path};

const SWITCH: &str = "root_fs_dir";
const CLUSTER: &str = "cluster_id";
/// Each of them bounds what all clients have there.
const BOUNDS: [&str; 2] = ["quota_bytes", "global_file_segment_size"];
/// Smallest disk: two segments of the smallest log.
const SHARED_BYTES_MIN: u64 = 32 << 20;
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
    let bytes = bound(settings)?;
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
    Ok(Some(SharedDirectory { path: path.to_owned(), cluster: cluster.to_owned(), bytes }))
}

/// The smaller bound of those that are given; 0 if none is.
fn bound(settings: &Settings) -> Result<u64, FlagError> {
    let mut least = u64::MAX;
    for name in BOUNDS {
        let bytes: u64 = settings.integer(name);
        if (1..SHARED_BYTES_MIN).contains(&bytes) {
            let expected = format!(
                "0 for no bound, or at least {SHARED_BYTES_MIN} bytes, which the smallest disk needs"
            );
            return Err(settings.refusal(name, expected));
        }
        least = if bytes > 0 { least.min(bytes) } else { least };
    }
    Ok(if least < i64::MAX as u64 { least } else { 0 })
}
