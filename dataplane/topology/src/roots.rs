//! Reading under given roots. Invariant: every read is bounded and never fails; what is missing,
//! unreadable or leads out of the root is absent.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Component, Path, PathBuf};
use std::str::FromStr;

use crate::limits::{FILE_BYTES_MAX, FOLDER_ENTRIES_MAX, NAME_BYTES_MAX};

/// The two trees in which the kernel describes a host.
#[derive(Debug, Clone)]
pub struct Roots {
    sys: Folder,
    proc: Folder,
}

impl Roots {
    /// `/sys` and `/proc`.
    #[must_use]
    pub fn system() -> Self {
        Self::new("/sys", "/proc")
    }

    /// Trees of the same form elsewhere: a container's view of its host, or a test's fixture.
    #[must_use]
    pub fn new(sys: impl Into<PathBuf>, proc: impl Into<PathBuf>) -> Self {
        Self { sys: Folder::new(sys.into()), proc: Folder::new(proc.into()) }
    }

    /// The tree of `/sys`.
    #[must_use]
    pub fn sys(&self) -> &Folder {
        &self.sys
    }

    /// The tree of `/proc`.
    #[must_use]
    pub fn proc(&self) -> &Folder {
        &self.proc
    }
}

/// One tree; all paths are relative to its top.
#[derive(Debug, Clone)]
pub struct Folder {
    top: PathBuf,
    /// The top without symbolic links, to see whether a link leads out.
    real_top: Option<PathBuf>,
}

impl Folder {
    fn new(top: PathBuf) -> Self {
        let real_top = fs::canonicalize(&top).ok();
        Self { top, real_top }
    }

    /// Path of the top as given.
    #[must_use]
    pub fn top(&self) -> &Path {
        &self.top
    }

    /// Where a path ends after all links, relative to the top. `None` if it does not exist or leads
    /// out of the tree.
    #[must_use]
    pub fn resolve(&self, relative: &str) -> Option<PathBuf> {
        let real_top = self.real_top.as_ref()?;
        let target = fs::canonicalize(self.inside(relative)?).ok()?;
        target.strip_prefix(real_top).ok().map(Path::to_path_buf)
    }

    /// True if the path exists.
    #[must_use]
    pub fn has(&self, relative: &str) -> bool {
        self.resolve(relative).is_some()
    }

    /// Contents of a regular file; at most [`FILE_BYTES_MAX`] bytes of it.
    #[must_use]
    pub fn bytes(&self, relative: &str) -> Option<Vec<u8>> {
        let real = self.real_top.as_ref()?.join(self.resolve(relative)?);
        // A pipe or a device in a made-up tree would block the read.
        if !fs::metadata(&real).ok()?.is_file() {
            return None;
        }
        let mut bytes = Vec::new();
        let file = File::open(&real).ok()?;
        file.take(FILE_BYTES_MAX).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }

    /// Text of a file without surrounding white space.
    #[must_use]
    pub fn text(&self, relative: &str) -> Option<String> {
        let bytes = self.bytes(relative)?;
        Some(String::from_utf8_lossy(&bytes).trim().to_owned())
    }

    /// A name or another word for people in a file. `None` also if it is empty, longer than
    /// [`NAME_BYTES_MAX`] or would do things to a terminal.
    #[must_use]
    pub fn word(&self, relative: &str) -> Option<String> {
        let bytes = self.bytes(relative)?;
        let word = str::from_utf8(&bytes).ok()?.trim();
        is_word(word).then(|| word.to_owned())
    }

    /// A number in a file. `None` also if the file holds something else.
    #[must_use]
    pub fn number<T: FromStr>(&self, relative: &str) -> Option<T> {
        self.text(relative)?.parse().ok()
    }

    /// A number such as `0x10de` in a file.
    #[must_use]
    pub fn hex(&self, relative: &str) -> Option<u32> {
        let text = self.text(relative)?;
        u32::from_str_radix(text.strip_prefix("0x")?, 16).ok()
    }

    /// Names in a folder, sorted so that `mlx5_10` follows `mlx5_9`, without those that would do
    /// things to a terminal.
    #[must_use]
    pub fn names(&self, relative: &str) -> Vec<String> {
        let Some(path) = self.inside(relative) else {
            return Vec::new();
        };
        let Ok(entries) = fs::read_dir(path) else {
            return Vec::new();
        };
        let mut names: Vec<String> = entries
            .take(FOLDER_ENTRIES_MAX)
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter(|name| is_word(name))
            .collect();
        names.sort_by_cached_key(|name| natural_key(name));
        names
    }

    fn inside(&self, relative: &str) -> Option<PathBuf> {
        let relative = Path::new(relative);
        let is_plain = relative.components().all(|part| matches!(part, Component::Normal(_)));
        is_plain.then(|| self.top.join(relative))
    }
}

/// Whether a text is a name or another word for people.
pub(crate) fn is_word(text: &str) -> bool {
    !text.is_empty() && text.len() <= NAME_BYTES_MAX && !text.contains(char::is_control)
}

/// Splits a name into text and numbers, so that numbers compare by value.
pub(crate) fn natural_key(name: &str) -> Vec<(String, u64)> {
    let mut parts = vec![(String::new(), 0_u64)];
    let mut in_digits = false;
    for character in name.chars() {
        if let Some(digit) = character.to_digit(10) {
            let last = parts.len() - 1;
            let (_, value) = &mut parts[last];
            *value = value.saturating_mul(10).saturating_add(digit.into());
        } else {
            if in_digits {
                parts.push((String::new(), 0));
            }
            let last = parts.len() - 1;
            parts[last].0.push(character);
        }
        in_digits = character.is_ascii_digit();
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn numbers_in_names_sort_by_value() {
        let mut names = ["mlx5_10", "mlx5_9", "eth1", "eth0np1", "eth0"];
        names.sort_by_cached_key(|name| natural_key(name));
        assert_eq!(names, ["eth0", "eth0np1", "eth1", "mlx5_9", "mlx5_10"]);
    }

    #[test]
    fn links_out_of_the_tree_and_paths_upwards_are_absent() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("secret"), "7").unwrap();
        let sys = folder.path().join("sys");
        fs::create_dir(&sys).unwrap();
        fs::write(sys.join("inside"), " 7 \n").unwrap();
        symlink("../secret", sys.join("out")).unwrap();
        symlink("inside", sys.join("in")).unwrap();
        let roots = Roots::new(&sys, folder.path());
        assert_eq!(roots.sys().number::<u32>("in"), Some(7));
        assert_eq!(roots.sys().text("out"), None);
        assert_eq!(roots.sys().text("../secret"), None);
        assert_eq!(roots.sys().text("/etc/hostname"), None);
        assert_eq!(roots.sys().names("../"), Vec::<String>::new());
        assert_eq!(roots.sys().names("."), Vec::<String>::new());
    }

    #[test]
    fn what_is_no_word_is_absent() {
        let folder = tempfile::tempdir().unwrap();
        let roots = Roots::new(folder.path(), folder.path());
        let write = |bytes: &[u8]| fs::write(folder.path().join("name"), bytes).unwrap();
        write(b" eth0\n");
        assert_eq!(roots.sys().word("name").as_deref(), Some("eth0"));
        for bytes in [&b""[..], b"eth\x1b[2J", b"eth0\nlo", b"\xff", &[b'e'; 257]] {
            write(bytes);
            assert_eq!(roots.sys().word("name"), None, "{bytes:?}");
        }
        let net = folder.path().join("net");
        for name in ["eth\x1b[2J", "eth0"] {
            fs::create_dir_all(net.join(name)).unwrap();
        }
        assert_eq!(roots.sys().names("net"), ["eth0"]);
    }

    #[test]
    fn a_pipe_is_absent_and_does_not_block() {
        let folder = tempfile::tempdir().unwrap();
        let made =
            std::process::Command::new("mkfifo").arg(folder.path().join("pipe")).status().unwrap();
        assert!(made.success());
        let roots = Roots::new(folder.path(), folder.path());
        assert_eq!(roots.sys().text("pipe"), None);
    }

    #[test]
    fn missing_roots_are_empty() {
        let roots = Roots::new("/no/such/sys", "/no/such/proc");
        assert_eq!(roots.sys().names("class"), Vec::<String>::new());
        assert_eq!(roots.proc().text("version"), None);
    }
}
