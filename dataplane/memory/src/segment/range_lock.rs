//! The claim on a range of a file that is lent. Invariant: no two segments of this host hold bytes
//! of the same file at the same time, not within one process either.

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use std::fs::File;
use std::io;

/// A range of a file under a write lock, which ends when this is dropped. It belongs to the open
/// file: a second lock of this process conflicts too.
#[derive(Debug)]
pub(super) struct RangeLock {
    file: File,
    range: libc::flock,
}

impl RangeLock {
    /// Locks the range, or answers nothing if a part of it is locked already.
    pub(super) fn take(file: File, offset: u64, bytes: u64) -> io::Result<Option<Self>> {
        let place = |value| libc::off_t::try_from(value).map_err(|_| Errno::EOVERFLOW);
        let range = libc::flock {
            l_type: libc::F_WRLCK as libc::c_short,
            l_whence: libc::SEEK_SET as libc::c_short,
            l_start: place(offset)?,
            l_len: place(bytes)?,
            l_pid: 0,
        };
        match fcntl(&file, FcntlArg::F_OFD_SETLK(&range)) {
            Ok(_) => Ok(Some(Self { file, range })),
            Err(Errno::EAGAIN | Errno::EACCES) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

impl Drop for RangeLock {
    fn drop(&mut self) {
        // Said aloud: a child that was forked has the open file too, so closing it here is not
        // enough.
        let range = libc::flock { l_type: libc::F_UNLCK as libc::c_short, ..self.range };
        let unlocked = fcntl(&self.file, FcntlArg::F_OFD_SETLK(&range));
        debug_assert!(unlocked.is_ok(), "what is held is let go of: {unlocked:?}");
    }
}
