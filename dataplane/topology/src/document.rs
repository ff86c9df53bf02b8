//! JSON documents that users write. Invariant: size and number of entries are checked before
//! anything is kept, and a file is read only if it is a regular one.

use std::fs::OpenOptions;
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use serde_json::{Map, Value};

use crate::error::{TopologyError, shown};
use crate::limits::{DEVICES_MAX, DOCUMENT_BYTES_MAX, DOCUMENT_ENTRIES_MAX, NAME_BYTES_MAX};

/// `O_NONBLOCK` of Linux: opening a pipe must not wait for its writer.
const OPEN_WITHOUT_WAITING: i32 = 0o4000;

/// Reads a document file.
pub(crate) fn read_file(path: &Path) -> Result<String, TopologyError> {
    let unreadable = |cause: String| TopologyError::Unreadable {
        path: shown(&path.display().to_string()),
        cause,
    };
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(OPEN_WITHOUT_WAITING);
    let file = options.open(path).map_err(|error| unreadable(error.to_string()))?;
    let metadata = file.metadata().map_err(|error| unreadable(error.to_string()))?;
    if !metadata.is_file() {
        return Err(unreadable("not a regular file".to_owned()));
    }
    let mut text = String::new();
    file.take(DOCUMENT_BYTES_MAX as u64 + 1)
        .read_to_string(&mut text)
        .map_err(|error| unreadable(error.to_string()))?;
    Ok(text)
}

/// The members of a JSON object.
pub(crate) fn object(what: &str, text: &str) -> Result<Map<String, Value>, TopologyError> {
    if text.len() > DOCUMENT_BYTES_MAX {
        let cause = format!("it is larger than {DOCUMENT_BYTES_MAX} bytes");
        return Err(TopologyError::malformed(what, cause));
    }
    match serde_json::from_str(text) {
        Ok(Value::Object(members)) => Ok(members),
        Ok(_) => Err(TopologyError::malformed(what, "it must be a JSON object {...}")),
        Err(error) => Err(TopologyError::malformed(what, format!("no JSON: {error}"))),
    }
}

pub(crate) fn check_entries(what: &str, entries: usize) -> Result<(), TopologyError> {
    if entries > DOCUMENT_ENTRIES_MAX {
        let cause = format!("more than {DOCUMENT_ENTRIES_MAX} entries");
        return Err(TopologyError::malformed(what, cause));
    }
    Ok(())
}

pub(crate) fn check_name(what: &str, name: &str) -> Result<(), TopologyError> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        let cause = format!("a name must have 1 to {NAME_BYTES_MAX} bytes");
        return Err(TopologyError::malformed(what, cause));
    }
    Ok(())
}

/// A list of device names. `None` if it is something else.
pub(crate) fn names(what: &str, value: Value) -> Option<Vec<String>> {
    let Value::Array(items) = value else {
        return None;
    };
    if items.len() > DEVICES_MAX {
        return None;
    }
    let names = items.into_iter().map(|item| match item {
        Value::String(name) => check_name(what, &name).ok().map(|()| name),
        _ => None,
    });
    names.collect()
}
