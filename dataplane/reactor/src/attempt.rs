//! One try to carry out an operation without waiting.
#![expect(unsafe_code, reason = "it calls the kernel with lent memory")]

use crate::operation::Operation;
use nix::errno::Errno;
use std::os::fd::{AsRawFd, RawFd};

/// What a try led to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SyscallOutcome {
    /// It is over, with this result or negative error number.
    Done(i32),
    /// The descriptor is not ready for the rest of it; so many bytes were moved.
    Waiting(usize),
}

/// Tries `operation` once. No call waits: sockets that listen or connect are non-blocking, all
/// others are asked not to wait.
pub(crate) fn attempt(operation: &mut Operation) -> SyscallOutcome {
    loop {
        let code = call(operation);
        match code {
            Err(Errno::EINTR) => {}
            Err(Errno::EAGAIN | Errno::EINPROGRESS | Errno::EALREADY) => {
                return SyscallOutcome::Waiting(0);
            }
            Err(errno) => return SyscallOutcome::Done(-(errno as i32)),
            Ok(moved) => return settle(operation, moved),
        }
    }
}

/// Whether anything of the operation is left after `moved` bytes.
fn settle(operation: &mut Operation, moved: usize) -> SyscallOutcome {
    let code = i32::try_from(moved).unwrap_or(i32::MAX);
    if moved > 0 && operation.advance(moved) {
        SyscallOutcome::Waiting(moved)
    } else {
        SyscallOutcome::Done(code)
    }
}

fn call(operation: &mut Operation) -> Result<usize, Errno> {
    let result = match operation {
        Operation::Accept(fd) => {
            let (nowhere, nothing) = (std::ptr::null_mut(), std::ptr::null_mut());
            // SAFETY: the peer's address is not asked for.
            let fd = unsafe { libc::accept4(fd.as_raw_fd(), nowhere, nothing, libc::SOCK_CLOEXEC) };
            fd as isize
        }
        Operation::Connect(fd, address) => {
            let (pointer, bytes) = address.raw();
            // SAFETY: the address lives in the operation for the length of the call.
            let code = unsafe { libc::connect(fd.as_raw_fd(), pointer, bytes) };
            code as isize
        }
        Operation::Receive(fd, buffer, limit) => {
            let spare = buffer.spare_capacity_mut();
            let bytes = spare.len().min(*limit);
            let pointer = spare.as_mut_ptr().cast();
            // SAFETY: the kernel writes at most `bytes` into the vector's spare capacity.
            unsafe { libc::recv(fd.as_raw_fd(), pointer, bytes, libc::MSG_DONTWAIT) }
        }
        Operation::ReceiveMessage(_, message) | Operation::SendMessage(_, message)
            if message.bytes() == 0 =>
        {
            0
        }
        Operation::ReceiveMessage(fd, message) => {
            // SAFETY: the message vouches for the memory it names, as it does on a ring.
            unsafe { libc::recvmsg(fd.as_raw_fd(), message.header(), libc::MSG_DONTWAIT) }
        }
        Operation::SendMessage(fd, message) => {
            let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
            // SAFETY: the message vouches for the memory it names, as it does on a ring.
            unsafe { libc::sendmsg(fd.as_raw_fd(), message.header(), flags) }
        }
        Operation::Readable(fd) => return readable(*fd),
        // Files are always ready for epoll: threads carry these out.
        Operation::File(_) => return Err(Errno::ENOTSUP),
    };
    Errno::result(result).map(|moved| moved as usize)
}

fn readable(fd: RawFd) -> Result<usize, Errno> {
    let mut asked = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: one live `pollfd` is passed, and the call does not wait.
    let ready = unsafe { libc::poll(&raw mut asked, 1, 0) };
    match Errno::result(ready)? {
        0 => Err(Errno::EAGAIN),
        _ => Ok(usize::from(asked.revents.unsigned_abs())),
    }
}
