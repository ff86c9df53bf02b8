//! Memory that a ring has registered: its pages are looked up and pinned once, not with each
//! operation.
//! Invariant: the kernel knows a buffer by the addresses at which its memory lies, because what
//! keeps that memory is kept until the kernel has let go of the buffer.
#![expect(unsafe_code, reason = "it names memory to the kernel")]

use crate::limits::REGISTERED_BUFFERS_MAX;
use crate::message::Message;
use io_uring::Submitter;
use std::collections::BTreeMap;
use std::io;

/// The registered buffers of one ring.
#[derive(Debug, Default)]
pub(super) struct RegisteredBuffers {
    /// Whether the kernel has a table for them.
    has_table: bool,
    by_address: BTreeMap<usize, FixedBuffer>,
}

#[derive(Debug)]
struct FixedBuffer {
    number: u16,
    bytes: usize,
    /// Keeps the memory.
    _message: Message,
}

impl RegisteredBuffers {
    /// Registers the memory of a message, which is one piece. Returns the buffer's number.
    pub(super) fn add(&mut self, kernel: &Submitter<'_>, message: Message) -> io::Result<u16> {
        let &[piece] = message.vector() else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let has = |number: &u16| self.by_address.values().any(|buffer| buffer.number == *number);
        let number = (0..REGISTERED_BUFFERS_MAX).find(|number| !has(number));
        let number = number.ok_or(io::ErrorKind::QuotaExceeded)?;
        if !self.has_table {
            kernel.register_buffers_sparse(REGISTERED_BUFFERS_MAX.into())?;
            self.has_table = true;
        }
        // SAFETY: the message keeps its memory, and it is kept until the buffer is removed.
        unsafe { kernel.register_buffers_update(number.into(), &[piece], None) }?;
        let buffer = FixedBuffer { number, bytes: piece.iov_len, _message: message };
        self.by_address.insert(piece.iov_base.addr(), buffer);
        Ok(number)
    }

    /// Lets go of a buffer. If the kernel does not, its memory stays.
    pub(super) fn remove(&mut self, kernel: &Submitter<'_>, number: u16) -> io::Result<()> {
        let nothing = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        // SAFETY: it names no memory.
        unsafe { kernel.register_buffers_update(number.into(), &[nothing], None) }?;
        self.by_address.retain(|_, buffer| buffer.number != number);
        Ok(())
    }

    /// The buffer in which a piece lies wholly.
    pub(super) fn number_of(&self, piece: &libc::iovec) -> Option<u16> {
        let start = piece.iov_base.addr();
        let (first, buffer) = self.by_address.range(..=start).next_back()?;
        let end = start.checked_add(piece.iov_len)?;
        (end <= first + buffer.bytes).then_some(buffer.number)
    }
}

#[cfg(test)]
mod tests {
    use super::super::entry::entry;
    use super::*;
    use crate::file_operation::{FileOperation, FileWork};
    use crate::operation::Operation;
    use io_uring::opcode;
    use std::rc::Rc;

    #[test]
    fn a_piece_lies_in_a_buffer_only_with_all_its_bytes() {
        let mut buffers = RegisteredBuffers::default();
        for (first, number) in [(0x1000, 1), (0x3000, 2)] {
            let buffer = FixedBuffer { number, bytes: 0x1000, _message: Message::new() };
            buffers.by_address.insert(first, buffer);
        }
        let number_of = |start: usize, bytes| {
            let iov_base = std::ptr::without_provenance_mut(start);
            buffers.number_of(&libc::iovec { iov_base, iov_len: bytes })
        };
        assert_eq!([number_of(0x1000, 0x1000), number_of(0x1fff, 1)], [Some(1), Some(1)]);
        assert_eq!(number_of(0x3800, 0x800), Some(2));
        for (start, bytes) in [(0xfff, 1), (0x1800, 0x801), (0x2000, 1), (0x3001, 0x1000)] {
            assert_eq!(number_of(start, bytes), None, "{start:x}");
        }
        assert_eq!(number_of(usize::MAX, 2), None);
    }

    #[test]
    fn what_lies_in_a_buffer_is_asked_for_as_such() {
        let mut memory = vec![0u8; 4096];
        let mut buffers = RegisteredBuffers::default();
        let buffer = FixedBuffer { number: 3, bytes: 2048, _message: Message::new() };
        buffers.by_address.insert(memory.as_ptr().addr(), buffer);
        let mut code = |work: fn(Box<Message>, u64) -> FileWork, bytes| {
            let mut message = Message::new();
            // SAFETY: nothing carries the operation out.
            unsafe { message.push_borrowed(memory.as_mut_ptr(), bytes) };
            let file = Rc::new(std::fs::File::open("/dev/null").unwrap().into());
            let work = work(Box::new(message), 0);
            let mut operation = Operation::File(FileOperation { file, work });
            entry(&mut operation, &buffers).get_opcode()
        };
        let (read, write) = (FileWork::Read, FileWork::Write);
        let codes = [code(read, 2048), code(read, 2049), code(write, 2048), code(write, 2049)];
        let expected = [
            opcode::ReadFixed::CODE,
            opcode::Readv::CODE,
            opcode::WriteFixed::CODE,
            opcode::Writev::CODE,
        ];
        assert_eq!(codes, expected.map(u32::from));
    }
}
