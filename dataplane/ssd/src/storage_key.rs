//! The key that a user gives for disks: 32 bytes of a file that only its owner can read, or that
//! root has given to one group to read, as a secret of Kubernetes comes to a pod with an fsGroup.
//! Invariant: it is shown nowhere, and no message has any of it.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const KEY_BYTES: usize = 32;
/// Longest file that is read: hexadecimal digits, and the end of the line.
const FILE_BYTES_MAX: u64 = 2 * KEY_BYTES as u64 + 2;
/// What others than the owner of a file may not do with it.
const OTHERS: u32 = 0o077;
/// The same of a file of root's, who alone decides which group reads it.
const OTHERS_OF_ROOT: u32 = 0o037;

/// Why a file is no key.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum StorageKeyError {
    /// The file system refuses.
    #[error("{path}: cannot read the key: {source}; name a file that this process can read", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: Arc<io::Error>,
    },
    /// Others can read or change it.
    #[error(
        "{path}: other users may read or change this key (mode {mode:04o}); run chmod 400 on it, or \
         have root own it, and chmod 440 for one group",
        path = path.display()
    )]
    Open {
        /// The file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// It has something else in it.
    #[error(
        "{path}: a key has 32 bytes or 64 hexadecimal digits, and this file has something else; \
         make one with: openssl rand -hex 32",
        path = path.display()
    )]
    Content {
        /// The file.
        path: PathBuf,
    },
}

/// The key that the keys of disks are derived from.
#[derive(Clone, PartialEq, Eq)]
pub struct StorageKey([u8; KEY_BYTES]);

impl fmt::Debug for StorageKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("StorageKey")
    }
}

impl StorageKey {
    /// The key of these bytes.
    pub const fn new(bytes: [u8; KEY_BYTES]) -> Self {
        Self(bytes)
    }

    /// The key of a file.
    ///
    /// # Errors
    /// It cannot be read, others can read it too, or it has no key in it.
    pub fn read(path: &Path) -> Result<Self, StorageKeyError> {
        let failed = |error| {
            let source = Arc::new(error);
            StorageKeyError::Io { path: path.to_owned(), source }
        };
        let file = File::open(path).map_err(failed)?;
        let about = file.metadata().map_err(failed)?;
        let mode = about.permissions().mode() & 0o7777;
        if mode & forbidden(about.uid()) != 0 {
            return Err(StorageKeyError::Open { path: path.to_owned(), mode });
        }
        let mut bytes = Vec::new();
        file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(failed)?;
        let key = <[u8; KEY_BYTES]>::try_from(bytes.as_slice()).ok().or_else(|| of_digits(&bytes));
        key.map(Self).ok_or_else(|| StorageKeyError::Content { path: path.to_owned() })
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Mode bits that a key file of this user must not have.
const fn forbidden(owner: u32) -> u32 {
    if owner == 0 { OTHERS_OF_ROOT } else { OTHERS }
}

/// The bytes of as many pairs of hexadecimal digits; the end of a line may follow.
fn of_digits(text: &[u8]) -> Option<[u8; KEY_BYTES]> {
    let digits = text.trim_ascii_end();
    if digits.len() != 2 * KEY_BYTES {
        return None;
    }
    let mut key = [0; KEY_BYTES];
    for (byte, pair) in key.iter_mut().zip(digits.chunks_exact(2)) {
        let digit = |digit: u8| char::from(digit).to_digit(16);
        *byte = (digit(pair[0])? * 16 + digit(pair[1])?) as u8;
    }
    Some(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{Permissions, set_permissions, write};

    fn is_root() -> bool {
        std::fs::metadata("/proc/self").unwrap().uid() == 0
    }

    fn read(content: &[u8], mode: u32) -> Result<StorageKey, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        write(&path, content).unwrap();
        set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        StorageKey::read(&path).map_err(|error| error.to_string())
    }

    #[test]
    fn a_key_is_read_as_bytes_and_as_digits() {
        let bytes: [u8; KEY_BYTES] = std::array::from_fn(|at| at as u8 * 7);
        let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let key = StorageKey::new(bytes);
        assert_eq!(read(&bytes, 0o400).unwrap(), key);
        for text in [digits.clone(), digits.to_uppercase() + "\n", digits + "\r\n"] {
            assert_eq!(read(text.as_bytes(), 0o600).unwrap(), key);
        }
    }

    #[test]
    fn what_is_no_key_or_is_open_to_others_is_refused_without_showing_it() {
        for content in
            [[b'a'; 31].as_slice(), &[b'a'; 33], &[b'g'; 64], &[b'a'; 65], b"", &[b'a'; 900]]
        {
            let error = read(content, 0o600).unwrap_err();
            assert!(error.contains("64 hexadecimal digits") && !error.contains("aaa"), "{error}");
        }
        for mode in [0o640, 0o440].into_iter().filter(|_| is_root()) {
            assert!(read(&[7; 32], mode).is_ok(), "root has given it to a group");
        }
        for mode in [0o640, 0o440] {
            assert_eq!((mode & forbidden(0), mode & forbidden(1000)), (0, 0o040), "its own user");
        }
        for mode in [0o604, 0o620, 0o660, 0o644, 0o444, 0o450] {
            let error = read(&[7; 32], mode).unwrap_err();
            assert!(
                error.contains("chmod 400") && error.contains(&format!("{mode:04o}")),
                "{error}"
            );
        }
        let none = StorageKey::read(Path::new("/nowhere/key")).unwrap_err().to_string();
        assert!(none.contains("/nowhere/key") && none.contains("name a file"), "{none}");
        assert_eq!(format!("{:?}", StorageKey::new([65; 32])), "StorageKey");
    }
}
