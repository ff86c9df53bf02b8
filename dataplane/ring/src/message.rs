//! A scatter list for `sendmsg` and `recvmsg` that owns or guards all memory it names.

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

    /// Appends a range that somebody else owns.
    ///
    /// # Safety
    /// The range must stay valid for the kernel's access (reads when sending, writes when receiving) until the
    /// operation that carries the message completes, or until every guard added with [`Message::guard`] is released.
    pub unsafe fn push_borrowed(&mut self, address: *mut u8, bytes: usize) {
        self.push_range(address, bytes);
    }

    /// Appends all pieces of another message.
    pub fn append(&mut self, mut other: Message) {
        self.owned.append(&mut other.owned);
        self.pieces.append(&mut other.pieces);
        self.guards.append(&mut other.guards);
        self.bytes += other.bytes;
    }

    /// Keeps `guard` alive as long as the message.
    pub fn guard(&mut self, guard: Guard) {
        self.guards.push(guard);
    }

    /// Total bytes of all pieces.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Number of pieces.
    pub fn pieces(&self) -> usize {
        self.pieces.len()
    }

    fn push_range(&mut self, address: *mut u8, bytes: usize) {
        if bytes > 0 {
            self.pieces.push(libc::iovec {
                iov_base: address.cast(),
                iov_len: bytes,
            });
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
}
