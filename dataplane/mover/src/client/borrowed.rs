//! Local memory of slices inside messages. Invariant: nothing is copied.
#![expect(unsafe_code, reason = "a slice vouches for its memory")]

use crate::slice::Memory;
use perigee_shard::Message;

/// Appends local memory of a slice to a message.
pub(crate) fn borrow(memory: impl Iterator<Item = Memory>, message: &mut Message) {
    for Memory { address, bytes } in memory {
        // SAFETY: a slice keeps its memory until it has reported, which it does after the
        // operations on it have completed.
        unsafe { message.push_borrowed(address as *mut u8, bytes as usize) };
    }
}
