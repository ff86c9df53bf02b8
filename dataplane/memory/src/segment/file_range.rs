//! Mapping a range of a file or shared-memory object that its owner lends.
//! Invariant: every page of the range has storage before it is used, so a full disk or a full
//! `/dev/shm` is an error here and no signal later; no byte is lent twice.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::creation::bind;
use super::range_lock::RangeLock;
use super::{SegmentError, SegmentWarning};
use crate::limits::SEGMENT_BYTES_MAX;
use crate::mapping::{Mapping, page_bytes};

pub(super) fn map(
    path: &Path,
    offset: u64,
    bytes: u64,
    numa_node: Option<u32>,
    warnings: &mut Vec<SegmentWarning>,
) -> Result<(Mapping, RangeLock), SegmentError> {
    if bytes == 0 || bytes > SEGMENT_BYTES_MAX {
        return Err(SegmentError::Size { asked_bytes: bytes });
    }
    let failed = |source| SegmentError::File { path: path.display().to_string(), source };
    let file = open(path).map_err(failed)?;
    let file_bytes = file.metadata().map_err(failed)?.len();
    let end = offset.checked_add(bytes).filter(|end| *end <= file_bytes);
    if end.is_none() || !offset.is_multiple_of(page_bytes() as u64) {
        let path = path.display().to_string();
        let page_bytes = page_bytes();
        return Err(SegmentError::FileRange { path, offset, bytes, file_bytes, page_bytes });
    }
    let copy = file.try_clone().map_err(failed)?;
    let lock = RangeLock::take(copy, offset, bytes)
        .map_err(failed)?
        .ok_or_else(|| SegmentError::Lent { path: path.display().to_string(), offset, bytes })?;
    let mapped_bytes = usize::try_from(bytes.next_multiple_of(page_bytes() as u64))
        .map_err(|_| failed(io::Error::from_raw_os_error(libc::ENOMEM)))?;
    let mapping = Mapping::of_file(file.as_fd(), offset, mapped_bytes).map_err(failed)?;
    if let Some(node) = numa_node {
        // Before the pages are made: those that exist stay where they are.
        bind(&mapping, node, warnings)?;
    }
    fill(&file, offset, bytes).map_err(failed)?;
    // Advice only.
    let _ = mapping.advise_huge_pages();
    Ok((mapping, lock))
}

/// A pipe or device of that name must not keep the caller waiting.
fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file")),
    }
}

/// Gives storage to the holes of the range; its contents stay.
fn fill(file: &File, offset: u64, bytes: u64) -> io::Result<()> {
    let place =
        |value| libc::off_t::try_from(value).map_err(|_| io::Error::from_raw_os_error(libc::EFBIG));
    // SAFETY: the call takes numbers only.
    let code = unsafe { libc::posix_fallocate(file.as_raw_fd(), place(offset)?, place(bytes)?) };
    match code {
        0 => Ok(()),
        code => Err(io::Error::from_raw_os_error(code)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Segment;
    use super::*;
    use std::fs;
    use std::os::unix::fs::FileExt;

    fn lent(path: &Path, offset: u64, bytes: u64) -> Result<Segment, SegmentError> {
        Segment::of_file(path, offset, bytes, None)
    }

    fn scratch(bytes: u64) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(bytes).unwrap();
        file
    }

    #[test]
    fn what_is_written_to_a_lent_range_is_in_the_file() {
        let page = page_bytes() as u64;
        let file = scratch(3 * page);
        let segment = lent(file.path(), page, page + 5).unwrap();
        assert_eq!(segment.len() as u64, page + 5);
        assert!(segment.fd().is_none(), "no other process is to map it");
        assert_eq!(segment.range(page + 5, 1), None);
        segment.populate(0, page + 5).unwrap();
        let last = segment.range(page + 4, 1).unwrap();
        // SAFETY: the byte lies within the segment, which nothing else uses.
        unsafe { last.write(7) };
        let mut seen = [0];
        file.as_file().read_exact_at(&mut seen, 2 * page + 4).unwrap();
        assert_eq!(seen, [7]);
        // The holes have storage now.
        assert!(std::os::unix::fs::MetadataExt::blocks(&file.as_file().metadata().unwrap()) > 0);
    }

    #[test]
    fn no_byte_of_a_file_is_lent_twice_until_it_is_free_again() {
        let page = page_bytes() as u64;
        let file = scratch(4 * page);
        let first = lent(file.path(), page, page + 5).unwrap();
        for (offset, bytes) in [(0, 4 * page), (0, page + 1), (page, page + 5), (2 * page, page)] {
            let error = lent(file.path(), offset, bytes).unwrap_err();
            assert!(matches!(error, SegmentError::Lent { .. }), "{error}");
            assert!(error.to_string().contains("lent already"), "{error}");
        }
        let _before = lent(file.path(), 0, page).unwrap();
        let _after = lent(file.path(), 3 * page, page).unwrap();
        drop(first);
        lent(file.path(), page, 2 * page).unwrap();
    }

    #[test]
    fn a_range_that_is_not_there_names_file_and_page() {
        let page = page_bytes() as u64;
        let file = scratch(2 * page);
        for (offset, bytes) in [(0, 2 * page + 1), (page, page + 1), (1, 1), (u64::MAX, 1)] {
            let error = lent(file.path(), offset, bytes).unwrap_err();
            assert!(matches!(error, SegmentError::FileRange { .. }), "{error}");
            assert!(error.to_string().contains("a multiple of"), "{error}");
        }
        assert!(matches!(lent(file.path(), 0, 0), Err(SegmentError::Size { .. })));
    }

    #[test]
    fn what_is_no_file_to_write_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("missing");
        let pipe = folder.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        for path in [folder.path(), &missing, &pipe, Path::new("/dev/zero")] {
            let error = lent(path, 0, 1).unwrap_err();
            assert!(matches!(error, SegmentError::File { .. }), "{error}");
        }
        fs::remove_file(pipe).unwrap();
    }
}
