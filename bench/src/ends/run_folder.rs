//! A folder of a run on a disk. Invariant: it and all that was made in it go with the run.

use crate::error::BenchError;
use std::path::{Path, PathBuf};

/// A folder that goes with the run.
#[derive(Debug)]
pub(crate) struct RunFolder(PathBuf);

impl RunFolder {
    /// A new folder in a path that this flag has named.
    pub(crate) fn make(path: &Path, flag: &str) -> Result<Self, BenchError> {
        let number = getrandom::u64().map_err(std::io::Error::other)?;
        let folder = path.join(format!("perigee-bench-{number:016x}"));
        match std::fs::create_dir(&folder) {
            Ok(()) => Ok(Self(folder)),
            Err(error) => Err(BenchError::program(
                "disk",
                format!(
                    "no folder can be made in {}: {error}; name one on the disk with {flag}",
                    path.display()
                ),
            )),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for RunFolder {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            eprintln!("warning: {} could not be removed: {error}", self.0.display());
        }
    }
}
