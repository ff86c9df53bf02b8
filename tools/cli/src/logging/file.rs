//! The log file and its one predecessor. Invariant: both together take at most about twice the
//! rotation size, and every failure to write is reported once, not once per line.

use crate::output;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// A log file that is opened with the first line.
#[derive(Debug)]
pub(super) struct LogFile {
    path: PathBuf,
    rotate_bytes: u64,
    open: Option<(File, u64)>,
    complained: bool,
}

impl LogFile {
    pub(super) fn new(folder: &Path, program: &str, rotate_bytes: u64) -> Self {
        Self {
            path: folder.join(format!("{program}.log")),
            rotate_bytes,
            open: None,
            complained: false,
        }
    }

    /// Writes one line; false when it could not be written.
    pub(super) fn write(&mut self, line: &[u8]) -> bool {
        match self.try_write(line) {
            Ok(()) => {
                self.complained = false;
                true
            }
            Err(error) => {
                self.open = None;
                if !std::mem::replace(&mut self.complained, true) {
                    output::complain(&format!(
                        "Log file {} cannot be written ({error}); its lines come here\n",
                        self.path.display()
                    ));
                }
                false
            }
        }
    }

    fn try_write(&mut self, line: &[u8]) -> io::Result<()> {
        if let Some((_, bytes)) = &self.open
            && *bytes >= self.rotate_bytes
        {
            self.open = None;
            fs::rename(&self.path, self.path.with_extension("log.1"))?;
        }
        let (file, bytes) = match &mut self.open {
            Some(open) => open,
            closed => closed.insert(Self::opened(&self.path)?),
        };
        file.write_all(line)?;
        *bytes += line.len() as u64;
        Ok(())
    }

    fn opened(path: &Path) -> io::Result<(File, u64)> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        let bytes = file.metadata()?.len();
        Ok((file, bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_appended_and_the_file_is_rotated_at_its_size() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = LogFile::new(folder.path(), "p", 10);
        for line in ["first line\n", "second\n"] {
            assert!(file.write(line.as_bytes()));
        }
        let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
        assert_eq!(read("p.log.1"), "first line\n");
        assert_eq!(read("p.log"), "second\n");
    }

    #[test]
    fn a_folder_that_is_not_there_costs_lines_until_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("inner");
        let mut file = LogFile::new(&inner, "p", 1 << 20);
        assert!(!file.write(b"lost\n"));
        fs::create_dir(&inner).unwrap();
        assert!(file.write(b"kept\n"));
        assert_eq!(fs::read_to_string(inner.join("p.log")).unwrap(), "kept\n");
    }

    #[test]
    fn a_full_disk_is_a_line_that_was_not_written() {
        let mut file = LogFile::new(Path::new("/dev"), "p", 1 << 20);
        file.path = PathBuf::from("/dev/full");
        assert!(!file.write(b"lost\n"));
        assert!(file.complained);
    }
}
