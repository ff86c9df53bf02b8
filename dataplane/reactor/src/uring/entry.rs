//! Operations in the form that a ring takes.

use super::registered::RegisteredBuffers;
use crate::file_operation::{FileOperation, FileWork};
use crate::operation::Operation;
use io_uring::{opcode, squeue, types};
use std::os::fd::{AsRawFd, OwnedFd};

/// Most bytes that the kernel moves in one read or write, whole blocks.
const MOVED_AT_ONCE: u32 = 1 << 30;

/// The kernel's form. Pointers in it stay valid while `operation` is neither moved out of nor
/// dropped: they point into heap memory that it owns, or that the maker of a message vouched for.
pub(super) fn entry(operation: &mut Operation, buffers: &RegisteredBuffers) -> squeue::Entry {
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
        Operation::File(operation) => file_entry(operation, buffers),
    }
}

fn file_entry(operation: &FileOperation, buffers: &RegisteredBuffers) -> squeue::Entry {
    let file = types::Fd(operation.file.as_raw_fd());
    match &operation.work {
        FileWork::Read(message, offset) => match message.vector() {
            &[piece] if let Some(buffer) = buffers.number_of(&piece) => {
                let (start, bytes) = whole(piece);
                opcode::ReadFixed::new(file, start, bytes, buffer).offset(*offset).build()
            }
            ranges => {
                let count = ranges.len() as u32;
                opcode::Readv::new(file, ranges.as_ptr(), count).offset(*offset).build()
            }
        },
        FileWork::Write(message, offset) => match message.vector() {
            &[piece] if let Some(buffer) = buffers.number_of(&piece) => {
                let (start, bytes) = whole(piece);
                opcode::WriteFixed::new(file, start, bytes, buffer).offset(*offset).build()
            }
            ranges => {
                let count = ranges.len() as u32;
                opcode::Writev::new(file, ranges.as_ptr(), count).offset(*offset).build()
            }
        },
        FileWork::Sync => opcode::Fsync::new(file).flags(types::FsyncFlags::DATASYNC).build(),
        FileWork::Allocate(bytes) => opcode::Fallocate::new(file, *bytes).build(),
    }
}

/// What is longer than the kernel moves at once is asked for again.
fn whole(piece: libc::iovec) -> (*mut u8, u32) {
    (piece.iov_base.cast(), u32::try_from(piece.iov_len).unwrap_or(MOVED_AT_ONCE))
}
