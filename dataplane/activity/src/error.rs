//! Why a page was not made or read. Invariant: each error names the file.

use std::io;
use std::path::PathBuf;

/// A page cannot be shown to other processes.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    /// The folder or the file in it.
    #[error("Cannot create an activity page in {}: {error}", path.display())]
    File {
        /// Folder of the pages.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// Another user could exchange what this process leaves in the folder.
    #[error(
        "The activity folder {} belongs to user {owner} with mode {mode:o}; it must belong to root or to this user, with mode 1777",
        path.display()
    )]
    Folder {
        /// Folder of the pages.
        path: PathBuf,
        /// User number of its owner.
        owner: u32,
        /// Its permissions.
        mode: u32,
    },
    /// Memory for it.
    #[error("Cannot map {bytes} bytes for an activity page: {error}")]
    Map {
        /// Size of the page.
        bytes: usize,
        /// What the system said.
        error: nix::Error,
    },
}
