//! What outlives the agent: one file per kind of value in a folder. Invariant: what is read back
//! was written whole, during the same boot of the kernel.

use crate::limits::STATE_BYTES_MAX;
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Its lock says that an agent keeps its counters here.
const LOCK_FILE: &str = "agent.lock";

/// The folder, if there is one, and the boot that its files must be of.
#[derive(Clone, Debug, Default)]
pub(crate) struct StateFolder {
    folder: Option<PathBuf>,
    boot: String,
}

#[derive(Serialize, Deserialize)]
struct SavedState<T> {
    /// The kernel's boot: after a reboot everything starts over.
    boot: String,
    value: T,
}

impl StateFolder {
    pub(crate) fn new(folder: Option<&Path>, boot: &str) -> Self {
        Self { folder: folder.map(Path::to_owned), boot: boot.to_owned() }
    }

    pub(crate) fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// What was written last, or the default.
    pub(crate) fn read<T: DeserializeOwned + Default>(&self, file: &str) -> T {
        self.try_read(file).unwrap_or_default()
    }

    fn try_read<T: DeserializeOwned>(&self, file: &str) -> Option<T> {
        let mut text = Vec::new();
        let open = File::open(self.folder.as_ref()?.join(file)).ok()?;
        open.take(STATE_BYTES_MAX).read_to_end(&mut text).ok()?;
        let kept: SavedState<T> = serde_json::from_slice(&text).ok()?;
        (kept.boot == self.boot).then_some(kept.value)
    }

    /// Replaces what was written before.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub(crate) fn write(&self, file: &str, value: &impl Serialize) -> io::Result<()> {
        let Some(folder) = &self.folder else {
            return Ok(());
        };
        let boot = self.boot.clone();
        let text = serde_json::to_vec(&SavedState { boot, value })?;
        std::fs::create_dir_all(folder)?;
        // An agent that is killed here leaves the old file or the new one, never half of one.
        let new = folder.join(format!("{file}.new"));
        std::fs::write(&new, text)?;
        std::fs::rename(new, folder.join(file))
    }
}

/// The state folder of a running agent, so that no other one writes there.
#[derive(Debug)]
pub(crate) struct StateLock(#[expect(dead_code, reason = "held, not read")] Flock<File>);

impl StateLock {
    /// Takes the folder. `None` where it cannot be made or locked, so that nothing is kept there
    /// either.
    ///
    /// # Errors
    /// Another agent has it; its name.
    pub(crate) fn take(folder: &Path) -> Result<Option<Self>, String> {
        let path = folder.join(LOCK_FILE);
        let made = std::fs::create_dir_all(folder);
        let Ok(file) = made.and_then(|()| File::create(path)) else {
            return Ok(None);
        };
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => Ok(Some(Self(lock))),
            Err((_, Errno::EWOULDBLOCK)) => Err(folder.display().to_string()),
            Err(_) => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_one_agents_and_the_next_ones_after_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        let held = StateLock::take(&path).unwrap();
        assert!(held.is_some());
        let refused = StateLock::take(&path).unwrap_err();
        assert_eq!(refused, path.display().to_string());
        drop(held);
        assert!(StateLock::take(&path).unwrap().is_some());
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(StateLock::take(&file.path().join("below")).unwrap().is_none());
    }

    #[test]
    fn a_value_is_read_back_in_the_same_boot_only() {
        let folder = tempfile::tempdir().unwrap();
        let keep = StateFolder::new(Some(folder.path()), "boot");
        keep.write("x.json", &vec![1, 2]).unwrap();
        assert_eq!(keep.read::<Vec<u64>>("x.json"), [1, 2]);
        let later = StateFolder::new(Some(folder.path()), "later");
        assert!(later.read::<Vec<u64>>("x.json").is_empty());
    }

    #[test]
    fn a_damaged_file_and_no_folder_at_all_give_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let keep = StateFolder::new(Some(folder.path()), "boot");
        std::fs::write(folder.path().join("x.json"), b"{\"boot\": \"boot\", \"val").unwrap();
        assert!(keep.read::<Vec<u64>>("x.json").is_empty());
        StateFolder::default().write("x.json", &1).unwrap();
    }

    #[test]
    fn a_folder_that_cannot_be_is_an_error() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let keep = StateFolder::new(Some(&file.path().join("below")), "boot");
        assert!(keep.write("x.json", &1).is_err());
    }
}
