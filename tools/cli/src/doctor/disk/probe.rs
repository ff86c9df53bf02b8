//! A short test past the page cache. Invariant: bytes and time are bounded, and the file has no
//! name at any moment, so that nothing can stay behind.

use crate::limits::{DOCTOR_DISK_ACCESS_BYTES, DOCTOR_DISK_DEADLINE, DOCTOR_DISK_TEST_BYTES};
use nix::fcntl::{OFlag, open};
use nix::sys::stat::Mode;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::Instant;

/// Alignment that every disk accepts.
const ALIGNMENT: usize = 4096;
/// Byte that is written: not zero, so that no layer leaves it out.
const FILLING: u8 = 0xa5;

/// Writes a file of a few MiB in a folder and reads it back, both past the page cache; the rate of
/// reading in bytes per second.
pub(super) fn direct_rate(folder: &Path) -> io::Result<u64> {
    let flags = OFlag::O_TMPFILE | OFlag::O_RDWR | OFlag::O_DIRECT | OFlag::O_CLOEXEC;
    let file = File::from(open(folder, flags, Mode::S_IRUSR | Mode::S_IWUSR)?);
    let mut memory = vec![FILLING; DOCTOR_DISK_ACCESS_BYTES + ALIGNMENT];
    let begin = memory.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
    let buffer = &mut memory[begin..begin + DOCTOR_DISK_ACCESS_BYTES];
    let written = repeat(DOCTOR_DISK_TEST_BYTES, |at| file.write_all_at(buffer, at))?;
    file.sync_data()?;
    let begin = Instant::now();
    let read = repeat(written, |at| file.read_exact_at(buffer, at))?;
    if buffer.iter().any(|byte| *byte != FILLING) {
        return Err(io::Error::other("other bytes come back than were written"));
    }
    let micros = begin.elapsed().as_micros().max(1);
    let rate = u128::from(read).saturating_mul(1_000_000) / micros;
    Ok(u64::try_from(rate).unwrap_or(u64::MAX))
}

/// Accesses one after the other until the bytes are done or the time is over; at least one.
fn repeat(bytes: u64, mut access: impl FnMut(u64) -> io::Result<()>) -> io::Result<u64> {
    let begin = Instant::now();
    let mut at = 0;
    while at < bytes && (at == 0 || begin.elapsed() < DOCTOR_DISK_DEADLINE) {
        access(at)?;
        at += DOCTOR_DISK_ACCESS_BYTES as u64;
    }
    Ok(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_measured_and_left_empty() {
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        match direct_rate(folder.path()) {
            Ok(rate) => assert!(rate > 0),
            Err(error) => assert!(error.raw_os_error().is_some(), "{error}"),
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_folder_that_cannot_be_used_is_an_error() {
        assert!(direct_rate(Path::new("/no/such/folder")).is_err());
        assert!(direct_rate(Path::new("/proc")).is_err());
    }
}
