//! A list of memory ranges with a cursor, for `sendmsg` and `recvmsg` that move a part at a time.
//! Invariant: the cursor never passes the end of a range without going to the next.
#![expect(unsafe_code, reason = "it calls the kernel with memory of slices")]

use perigee_memory::ByteRangeMut;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Most ranges that one system call takes; further ones go with the next.
const RANGES_MAX: usize = 1024;

/// Memory ranges that are being sent or filled.
#[derive(Default)]
pub(crate) struct Scatter {
    ranges: Vec<libc::iovec>,
    next: usize,
}

// SAFETY: the addresses are used only by the methods, whose callers vouch for the memory on
// whatever thread they are.
unsafe impl Send for Scatter {}

impl Scatter {
    pub(crate) fn clear(&mut self) {
        self.ranges.clear();
        self.next = 0;
    }

    /// Appends a range.
    pub(crate) fn push(&mut self, range: ByteRangeMut) {
        if range.len > 0 {
            self.ranges.push(libc::iovec { iov_base: range.ptr.cast(), iov_len: range.len });
        }
    }

    /// Bytes that are left.
    pub(crate) fn bytes(&self) -> u64 {
        let left = self.ranges[self.next..].iter();
        left.map(|range| range.iov_len as u64).sum()
    }

    /// Whether everything was moved.
    pub(crate) fn is_done(&self) -> bool {
        self.next == self.ranges.len()
    }

    /// Sends what the socket takes at once; the number of bytes.
    ///
    /// # Safety
    /// The ranges that are left must be readable; memory that is not mapped is an error, not a
    /// fault.
    pub(crate) unsafe fn send(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        let header = self.header();
        // SAFETY: the header names our list of ranges, which the caller vouches for.
        let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const header, flags) };
        self.advance(sent)
    }

    /// Fills what has arrived; the number of bytes, 0 when the peer has finished.
    ///
    /// # Safety
    /// The ranges that are left must be writable and not used elsewhere.
    pub(crate) unsafe fn receive(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        let mut header = self.header();
        // SAFETY: as in `send`.
        let received =
            unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut header, libc::MSG_DONTWAIT) };
        self.advance(received)
    }

    fn header(&mut self) -> libc::msghdr {
        // SAFETY: an all-zero `msghdr` is a valid value: null pointers with zero lengths.
        let mut header = unsafe { std::mem::zeroed::<libc::msghdr>() };
        debug_assert!(self.next <= self.ranges.len());
        let left = &mut self.ranges[self.next..];
        debug_assert!(left.iter().all(|range| range.iov_len > 0), "no range is empty");
        header.msg_iov = left.as_mut_ptr();
        header.msg_iovlen = left.len().min(RANGES_MAX);
        header
    }

    fn advance(&mut self, moved: isize) -> io::Result<usize> {
        let moved = usize::try_from(moved).map_err(|_| io::Error::last_os_error())?;
        let mut left = moved;
        while let Some(range) = self.ranges.get_mut(self.next)
            && left > 0
        {
            let step = left.min(range.iov_len);
            range.iov_base = range.iov_base.cast::<u8>().wrapping_add(step).cast();
            range.iov_len -= step;
            left -= step;
            if range.iov_len == 0 {
                self.next += 1;
            }
        }
        debug_assert_eq!(left, 0, "the kernel moves no more than it was given");
        Ok(moved)
    }
}

impl std::fmt::Debug for Scatter {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Scatter")
            .field("ranges", &self.ranges.len())
            .field("next", &self.next)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perigee_memory::ByteRange;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    fn memory(bytes: &[u8]) -> ByteRangeMut {
        ByteRange::from(bytes).cast_mut()
    }

    #[test]
    fn ranges_arrive_whole_through_a_small_socket() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let source: Vec<u8> = (0..3_000_000u32).map(|byte| (byte % 251) as u8).collect();
        let mut target = vec![0u8; source.len()];
        let (mut out, mut into) = (Scatter::default(), Scatter::default());
        for piece in source.chunks(70_001) {
            out.push(memory(piece));
        }
        for piece in target.chunks_mut(99_991) {
            into.push(memory(piece));
        }
        while !into.is_done() {
            // SAFETY: both vectors outlive the loop and nothing else touches them.
            let steps = unsafe {
                let sent = if out.is_done() { Ok(0) } else { out.send(ours.as_fd()) };
                [sent, into.receive(theirs.as_fd())]
            };
            for step in steps {
                assert!(step.is_ok_and(|_| true) || !into.is_done());
            }
        }
        assert!(out.is_done() && source == target);
    }

    #[test]
    fn memory_that_is_not_mapped_is_an_error() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let mut out = Scatter::default();
        out.push(ByteRangeMut::at(4096, 10));
        // SAFETY: the kernel checks the range; nothing is mapped at the first pages.
        let sent = unsafe { out.send(ours.as_fd()) };
        assert_eq!(sent.unwrap_err().raw_os_error(), Some(libc::EFAULT));
    }
}
