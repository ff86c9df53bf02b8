//! Copies between bytes and addresses of this process that a caller names. Invariant: an address
//! that is not there is an error, never a fault: the kernel checks each page.

use perigee_store::api::CallerRange;
use std::ffi::c_void;
use std::io;

/// Copies `source` to `address`.
pub(super) fn write(address: u64, source: CallerRange) -> io::Result<()> {
    let local = vector(source.address as u64, source.bytes);
    let remote = vector(address, source.bytes);
    // SAFETY: both vectors live across the call; the first is only read; the kernel refuses either
    // if it is not such memory of this process. The caller promises that the target is not used
    // elsewhere during the call, as for every address given to the engine.
    let moved = unsafe { libc::process_vm_writev(libc::getpid(), &local, 1, &remote, 1, 0) };
    complete(moved, source.bytes)
}

/// Fills `bytes` from `address`.
pub(super) fn read(address: u64, bytes: &mut [u8]) -> io::Result<()> {
    let local = vector(bytes.as_mut_ptr().addr() as u64, bytes.len());
    let remote = vector(address, bytes.len());
    // SAFETY: as for `write`, with the first vector exclusively ours and the second only read.
    let moved = unsafe { libc::process_vm_readv(libc::getpid(), &local, 1, &remote, 1, 0) };
    complete(moved, bytes.len())
}

fn vector(address: u64, bytes: usize) -> libc::iovec {
    libc::iovec { iov_base: address as *mut c_void, iov_len: bytes }
}

/// A call that moved less than everything met memory that is not there.
fn complete(moved: isize, bytes: usize) -> io::Result<()> {
    match usize::try_from(moved) {
        Ok(moved) if moved == bytes => Ok(()),
        Ok(_) => Err(io::Error::from_raw_os_error(libc::EFAULT)),
        Err(_) => Err(io::Error::last_os_error()),
    }
}
