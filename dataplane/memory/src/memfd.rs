//! Sealed memory files.
//! Invariant: what is returned cannot become shorter, so no mapping of it outlives its bytes.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use crate::mapping::{Access, Mapping, page_bytes};

/// A memfd of `bytes` rounded up to `unit_bytes`, sealed and mapped.
pub(crate) fn sealed(
    name: &CStr,
    bytes: u64,
    unit_bytes: usize,
    extra_flags: libc::c_uint,
) -> io::Result<(OwnedFd, Mapping)> {
    debug_assert!(unit_bytes.is_multiple_of(page_bytes()));
    let rounded = bytes.next_multiple_of(unit_bytes as u64);
    let too_large = |_| io::Error::from_raw_os_error(libc::ENOMEM);
    let mapped_bytes = usize::try_from(rounded).map_err(too_large)?;
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING | extra_flags;
    // SAFETY: the name is a C string, and the call has no other preconditions.
    let raw = unsafe { libc::memfd_create(name.as_ptr(), flags) };
    if raw < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just made and has no other owner.
    let file = unsafe { OwnedFd::from_raw_fd(raw) };
    nix::unistd::ftruncate(&file, libc::off_t::try_from(rounded).map_err(too_large)?)?;
    let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
    // SAFETY: F_ADD_SEALS takes an integer and touches no memory of ours.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mapping = Mapping::shared(file.as_fd(), mapped_bytes, Access::ReadWrite)?;
    Ok((file, mapping))
}

/// Length of a file that is sealed against becoming shorter.
pub(crate) fn sealed_bytes(file: &OwnedFd) -> io::Result<usize> {
    // SAFETY: F_GET_SEALS takes no argument and touches no memory of ours.
    let seals = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) };
    if seals < 0 {
        return Err(io::Error::last_os_error());
    }
    if seals & libc::F_SEAL_SHRINK == 0 {
        return Err(io::Error::from_raw_os_error(libc::EPERM));
    }
    let bytes = nix::sys::stat::fstat(file)?.st_size;
    usize::try_from(bytes).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))
}
