//! A scatter list for `sendmsg` and `recvmsg` that owns or guards all memory it names.
#![expect(unsafe_code, reason = "it lends memory to the kernel")]

use std::any::Any;
use std::sync::Arc;

/// Keeps memory named by raw addresses alive while the kernel may touch it.
pub type Guard = Arc<dyn Any + Send + Sync>;

/// An ordered list of memory ranges, some owned, some guarded.
#[derive(Default)]
pub struct Message {
    owned: Vec<Box<[u8]>>,
    pieces: Vec<libc::iovec>,
    guards: Vec<Guard>,
    header: Option<Box<libc::msghdr>>,
    bytes: usize,
    /// Whether a range was borrowed.
    borrows: bool,
}

impl Message {
    /// An empty message.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends bytes that the message owns from now on.
    pub fn push_owned(&mut self, bytes: impl Into<Box<[u8]>>) {
        let mut bytes = bytes.into();
        self.push_range(bytes.as_mut_ptr(), bytes.len());
        self.owned.push(bytes);
    }

    /// Appends a range that the message does not own.
    ///
    /// # Safety
    /// The range must stay valid for the kernel's access (reads when sending, writes when
    /// receiving) until the operation that carries the message completes, or until every guard
    /// added with [`Message::guard`] is released. The same holds for a caller that takes the
    /// kernel's part with [`Message::take_bytes`] or [`Message::fill_bytes`].
    pub unsafe fn push_borrowed(&mut self, address: *mut u8, bytes: usize) {
        self.borrows = true;
        self.push_range(address, bytes);
    }

    /// Appends all pieces of another message.
    pub fn append(&mut self, mut other: Message) {
        self.owned.append(&mut other.owned);
        self.pieces.append(&mut other.pieces);
        self.guards.append(&mut other.guards);
        self.bytes += other.bytes;
        self.borrows |= other.borrows;
    }

    /// Keeps `guard` alive as long as the message.
    pub fn guard(&mut self, guard: Guard) {
        self.guards.push(guard);
    }

    /// Total bytes of all pieces.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether the message keeps all its memory alive by itself, so that its operation need not be
    /// waited for.
    pub fn keeps_its_memory(&self) -> bool {
        !self.borrows || !self.guards.is_empty()
    }

    /// Copies up to `limit` bytes from the front of the list behind `target`, as a kernel does that
    /// sends them, and drops them from the list. Returns how many. For a simulated kernel.
    pub fn take_bytes(&mut self, target: &mut Vec<u8>, limit: usize) -> usize {
        let wanted = limit.min(self.bytes);
        let mut left = wanted;
        for piece in &self.pieces {
            let step = piece.iov_len.min(left);
            // SAFETY: the list names memory that is valid until the operation completes, which the
            // caller carries out.
            let bytes = unsafe { std::slice::from_raw_parts(piece.iov_base.cast::<u8>(), step) };
            target.extend_from_slice(bytes);
            left -= step;
            if left == 0 {
                break;
            }
        }
        self.advance(wanted);
        wanted
    }

    /// Copies bytes to the front of the list, as a kernel does that receives them, and drops what
    /// is filled from the list. Returns how many bytes had room. For a simulated kernel.
    pub fn fill_bytes(&mut self, bytes: &[u8]) -> usize {
        let wanted = bytes.len().min(self.bytes);
        let mut rest = &bytes[..wanted];
        for piece in &self.pieces {
            let (now, later) = rest.split_at(piece.iov_len.min(rest.len()));
            // SAFETY: as in `take_bytes`; nothing borrows memory that is being received into.
            unsafe {
                std::ptr::copy_nonoverlapping(now.as_ptr(), piece.iov_base.cast(), now.len());
            }
            rest = later;
            if rest.is_empty() {
                break;
            }
        }
        self.advance(wanted);
        wanted
    }

    /// Number of pieces.
    pub fn pieces(&self) -> usize {
        self.pieces.len()
    }

    fn push_range(&mut self, address: *mut u8, bytes: usize) {
        if bytes > 0 {
            self.pieces.push(libc::iovec { iov_base: address.cast(), iov_len: bytes });
            self.bytes += bytes;
        }
    }

    /// Drops the first `count` bytes from the list, after a partial transfer.
    pub(crate) fn advance(&mut self, count: usize) {
        debug_assert!(count <= self.bytes);
        self.bytes -= count;
        let mut left = count;
        let whole = self
            .pieces
            .iter()
            .take_while(|piece| {
                let consumed = piece.iov_len <= left;
                if consumed {
                    left -= piece.iov_len;
                }
                consumed
            })
            .count();
        self.pieces.drain(..whole);
        if let Some(first) = self.pieces.first_mut() {
            first.iov_base = first.iov_base.cast::<u8>().wrapping_add(left).cast();
            first.iov_len -= left;
        }
    }

    /// The ranges as the kernel takes them; they stay put while the message is not changed.
    pub(crate) fn vector(&self) -> &[libc::iovec] {
        &self.pieces
    }

    /// The kernel's view; its address stays put while the message lives.
    pub(crate) fn header(&mut self) -> *mut libc::msghdr {
        // SAFETY: an all-zero `msghdr` is a valid value: null pointers with zero lengths.
        let empty = || Box::new(unsafe { std::mem::zeroed::<libc::msghdr>() });
        let header = self.header.get_or_insert_with(empty);
        header.msg_iov = self.pieces.as_mut_ptr();
        header.msg_iovlen = self.pieces.len();
        &raw mut **header
    }
}

impl std::fmt::Debug for Message {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Message")
            .field("pieces", &self.pieces.len())
            .field("bytes", &self.bytes)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths(message: &Message) -> Vec<usize> {
        message.pieces.iter().map(|piece| piece.iov_len).collect()
    }

    #[test]
    fn advancing_drops_whole_pieces_and_shortens_the_next() {
        let mut message = Message::new();
        message.push_owned(vec![1; 10]);
        message.push_owned(vec![2; 20]);
        message.push_owned(Vec::new());
        message.push_owned(vec![3; 30]);
        message.advance(10);
        assert_eq!(lengths(&message), [20, 30]);
        message.advance(25);
        assert_eq!(lengths(&message), [25]);
        assert_eq!(message.bytes(), 25);
        message.advance(25);
        assert_eq!(message.pieces(), 0);
    }

    #[test]
    fn bytes_are_taken_and_filled_in_order_across_pieces() {
        let mut sent = Message::new();
        sent.push_owned(vec![1, 2, 3]);
        sent.push_owned(vec![4, 5]);
        let mut taken = Vec::new();
        assert_eq!(sent.take_bytes(&mut taken, 4), 4);
        assert_eq!(sent.take_bytes(&mut taken, 4), 1);
        assert_eq!((taken.as_slice(), sent.bytes()), (&[1, 2, 3, 4, 5][..], 0));
        let mut memory = [0u8; 5];
        let mut received = Message::new();
        let (first, second) = memory.split_at_mut(2);
        // SAFETY: `memory` outlives the message.
        unsafe { received.push_borrowed(first.as_mut_ptr(), 2) };
        // SAFETY: as above.
        unsafe { received.push_borrowed(second.as_mut_ptr(), 3) };
        assert_eq!(received.fill_bytes(&taken[..3]), 3);
        assert_eq!(received.fill_bytes(&taken[3..]), 2);
        assert_eq!(received.fill_bytes(&[9]), 0);
        assert_eq!(memory, [1, 2, 3, 4, 5]);
    }

    #[test]
    fn only_borrowed_memory_without_a_guard_must_be_waited_for() {
        let mut byte = 0u8;
        let mut message = Message::new();
        message.push_owned(vec![1]);
        assert!(message.keeps_its_memory());
        let mut borrowed = Message::new();
        // SAFETY: `byte` outlives the message.
        unsafe { borrowed.push_borrowed(&raw mut byte, 1) };
        message.append(borrowed);
        assert!(!message.keeps_its_memory());
        message.guard(Arc::new(()));
        assert!(message.keeps_its_memory());
    }
}
