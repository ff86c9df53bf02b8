//! Operations in the form that a ring takes.

use crate::file_operation::{FileOperation, FileWork};
use crate::operation::Operation;
use io_uring::{opcode, squeue, types};
use std::os::fd::{AsRawFd, OwnedFd};

/// The kernel's form. Pointers in it stay valid while `operation` is neither moved out of nor
/// dropped: they point into heap memory that it owns, or that the maker of a message vouched for.
pub(super) fn entry(operation: &mut Operation) -> squeue::Entry {
    let number = |fd: &OwnedFd| types::Fd(fd.as_raw_fd());
    match operation {
        Operation::Accept(fd) => {
            opcode::Accept::new(number(fd), std::ptr::null_mut(), std::ptr::null_mut())
                .flags(libc::SOCK_CLOEXEC)
                .build()
        }
        Operation::Connect(fd, address) => {
            let (pointer, bytes) = address.raw();
            opcode::Connect::new(number(fd), pointer.cast(), bytes).build()
        }
        Operation::Receive(fd, buffer, limit) => {
            let spare = buffer.spare_capacity_mut();
            let pointer = spare.as_mut_ptr().cast();
            let bytes = u32::try_from(spare.len().min(*limit)).unwrap_or(u32::MAX);
            opcode::Recv::new(number(fd), pointer, bytes).build()
        }
        Operation::ReceiveMessage(fd, message) => {
            opcode::RecvMsg::new(number(fd), message.header())
                .flags(libc::MSG_WAITALL as u32)
                .build()
        }
        Operation::SendMessage(fd, message) => {
            let flags = (libc::MSG_WAITALL | libc::MSG_NOSIGNAL) as u32;
            opcode::SendMsg::new(number(fd), message.header()).flags(flags).build()
        }
        Operation::Readable(fd) => {
            opcode::PollAdd::new(types::Fd(*fd), libc::POLLIN as u32).build()
        }
        Operation::File(operation) => file_entry(operation),
    }
}

fn file_entry(operation: &FileOperation) -> squeue::Entry {
    let file = types::Fd(operation.file.as_raw_fd());
    match &operation.work {
        FileWork::Read(message, offset) => {
            let ranges = message.vector();
            opcode::Readv::new(file, ranges.as_ptr(), ranges.len() as u32).offset(*offset).build()
        }
        FileWork::Write(message, offset) => {
            let ranges = message.vector();
            opcode::Writev::new(file, ranges.as_ptr(), ranges.len() as u32).offset(*offset).build()
        }
        FileWork::Sync => opcode::Fsync::new(file).flags(types::FsyncFlags::DATASYNC).build(),
        FileWork::Allocate(bytes) => opcode::Fallocate::new(file, *bytes).build(),
    }
}
