//! One compressed archive. Invariant: it holds no more than [`BUNDLE_BYTES_MAX`] before it is
//! compressed, every text in it is redacted, and its last file lists what it holds and lacks.

use super::redaction::redacted;
use crate::limits::{BUNDLE_BYTES_MAX, BUNDLE_FILE_BYTES_MAX};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// An archive that is being written, beside the place where it will lie.
pub(super) struct Archive {
    tar: tar::Builder<GzEncoder<File>>,
    path: PathBuf,
    folder: String,
    /// When it was begun, in seconds since 1970.
    begun: u64,
    room: usize,
    held: Vec<(String, usize)>,
    lacking: Vec<(String, String)>,
}

impl Archive {
    /// Begins an archive whose files lie in `folder`. Only its owner may read it.
    ///
    /// # Errors
    /// There is something at its place already, or it cannot be written.
    pub(super) fn create(path: &Path, folder: &str, begun: u64) -> io::Result<Self> {
        if path.symlink_metadata().is_ok() {
            return Err(io::Error::from(io::ErrorKind::AlreadyExists));
        }
        let file =
            OpenOptions::new().write(true).create_new(true).mode(0o600).open(unfinished(path))?;
        let packing = GzEncoder::new(file, Compression::default());
        Ok(Self {
            tar: tar::Builder::new(packing),
            path: path.to_owned(),
            folder: folder.to_owned(),
            begun,
            room: BUNDLE_BYTES_MAX,
            held: Vec::new(),
            lacking: Vec::new(),
        })
    }

    /// Adds a file, or the reason why it lacks.
    ///
    /// # Errors
    /// The archive cannot be written.
    pub(super) fn add(&mut self, name: &str, content: Result<String, String>) -> io::Result<()> {
        let content = content.map(|text| redacted(&text)).and_then(|text| {
            let fits = text.len() <= BUNDLE_FILE_BYTES_MAX.min(self.room);
            let reason = format!("it has {} bytes, for which there is no room", text.len());
            fits.then_some(text).ok_or(reason)
        });
        match content {
            Ok(text) => self.write(name, &text),
            Err(reason) => {
                self.lacking.push((name.to_owned(), redacted(&reason)));
                Ok(())
            }
        }
    }

    /// What could not be had, and why.
    pub(super) fn lacking(&self) -> &[(String, String)] {
        &self.lacking
    }

    /// Adds the list of contents after `head`, and puts the archive in its place.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn finish(mut self, head: &str) -> io::Result<u64> {
        let mut text = format!("{head}\nHeld:\n");
        for (name, bytes) in &self.held {
            let _ = writeln!(text, "  {bytes:>9}  {name}");
        }
        text.push_str("\nLacking:\n");
        for (name, reason) in &self.lacking {
            let _ = writeln!(text, "  {name}: {reason}");
        }
        self.write("README.txt", &text)?;
        self.tar.finish()?;
        let path = std::mem::take(&mut self.path);
        let part = unfinished(&path);
        let sealed = self.seal().and_then(|bytes| std::fs::rename(&part, &path).map(|()| bytes));
        sealed.inspect_err(|_| drop(std::fs::remove_file(&part)))
    }

    fn seal(&mut self) -> io::Result<u64> {
        let packing = self.tar.get_mut();
        packing.try_finish()?;
        packing.get_mut().flush()?;
        packing.get_ref().metadata().map(|facts| facts.len())
    }

    fn write(&mut self, name: &str, text: &str) -> io::Result<()> {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o600);
        header.set_mtime(self.begun);
        let path = format!("{}/{name}", self.folder);
        self.tar.append_data(&mut header, path, text.as_bytes())?;
        self.room = self.room.saturating_sub(text.len());
        self.held.push((name.to_owned(), text.len()));
        Ok(())
    }
}

/// An archive that was not finished leaves nothing.
impl Drop for Archive {
    fn drop(&mut self) {
        if !self.path.as_os_str().is_empty() {
            let _ = std::fs::remove_file(unfinished(&self.path));
        }
    }
}

fn unfinished(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".part");
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::read::GzDecoder;
    use std::collections::BTreeMap;
    use std::io::Read;
    use std::os::unix::fs::PermissionsExt;

    fn files(path: &Path) -> BTreeMap<String, String> {
        let mut archive = tar::Archive::new(GzDecoder::new(File::open(path).unwrap()));
        let entries = archive.entries().unwrap();
        let read = |entry: io::Result<tar::Entry<'_, _>>| {
            let mut entry = entry.unwrap();
            let mut text = String::new();
            Read::read_to_string(&mut entry, &mut text).unwrap();
            (entry.path().unwrap().display().to_string(), text)
        };
        entries.map(read).collect()
    }

    #[test]
    fn an_archive_holds_what_was_added_redacted_and_says_what_lacks() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("b.tar.gz");
        let mut archive = Archive::create(&path, "b", 7).unwrap();
        archive.add("logs/node.log", Ok("key=abc\n".to_owned())).unwrap();
        archive.add("agent.json", Err("connection refused".to_owned())).unwrap();
        archive.finish("Of host a").unwrap();
        let files = files(&path);
        assert_eq!(files["b/logs/node.log"], "key=[removed]\n");
        let list = &files["b/README.txt"];
        assert!(list.starts_with("Of host a\n"), "{list}");
        assert!(list.contains("logs/node.log") && list.contains("agent.json: connection refused"));
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_is_too_large_is_left_out_and_said() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("b.tar.gz");
        let mut archive = Archive::create(&path, "b", 7).unwrap();
        let large = "x".repeat(BUNDLE_FILE_BYTES_MAX);
        archive.add("too-large", Ok(format!("{large}x"))).unwrap();
        for number in 0..=BUNDLE_BYTES_MAX / BUNDLE_FILE_BYTES_MAX {
            archive.add(&number.to_string(), Ok(large.clone())).unwrap();
        }
        assert_eq!(archive.lacking().len(), 2, "{:?}", archive.lacking());
        archive.finish("").unwrap();
        assert_eq!(files(&path).len(), BUNDLE_BYTES_MAX / BUNDLE_FILE_BYTES_MAX + 1);
    }

    #[test]
    fn nothing_is_overwritten_and_an_unfinished_one_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("b.tar.gz");
        drop(Archive::create(&path, "b", 7).unwrap());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        std::fs::write(&path, "mine").unwrap();
        let refused = Archive::create(&path, "b", 7).err().unwrap();
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
    }
}
