//! Local memory of slices inside messages. Invariant: nothing is copied.
#![expect(unsafe_code, reason = "a slice vouches for its memory")]

use perigee_memory::ByteRangeMut;
use perigee_shard::Message;

/// Appends local memory of a slice to a message.
pub(crate) fn borrow(memory: impl Iterator<Item = ByteRangeMut>, message: &mut Message) {
    for range in memory {
        // SAFETY: a slice keeps its memory until it has reported, which it does after the
        // operations on it have completed.
        unsafe { message.push_borrowed(range.ptr, range.len) };
    }
}
