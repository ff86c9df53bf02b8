//! Which sockets have sends on their way through the ring.
//! Invariant: no message overtakes an earlier one of its socket.

use crate::limits::SENT_AT_ONCE_BYTES_MAX;
use crate::operation::Operation;
use std::collections::HashMap;
use std::os::fd::RawFd;

/// Sends in flight of each socket that has any.
#[derive(Debug, Default)]
pub(super) struct FlyingSends(HashMap<RawFd, usize>);

impl FlyingSends {
    /// Whether an operation is a send that may go without the ring.
    pub(super) fn may_go_at_once(&self, operation: &Operation) -> bool {
        match operation {
            Operation::SendMessage(_, message) => {
                message.bytes() <= SENT_AT_ONCE_BYTES_MAX
                    && !self.0.contains_key(&operation.descriptor())
            }
            _ => false,
        }
    }

    /// An operation goes to the ring.
    pub(super) fn begin(&mut self, operation: &Operation) {
        if let Operation::SendMessage(..) = operation {
            *self.0.entry(operation.descriptor()).or_default() += 1;
        }
    }

    /// The ring is done with an operation.
    pub(super) fn end(&mut self, operation: &Operation) {
        if let Operation::SendMessage(..) = operation {
            let fd = operation.descriptor();
            let left = self.0.remove(&fd).unwrap_or_default();
            debug_assert!(left > 0, "each send ends once");
            if left > 1 {
                self.0.insert(fd, left - 1);
            }
        }
    }
}
