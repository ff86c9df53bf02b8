//! A read that its caller makes in two steps, a lookup and the bytes, and that is one call for who
//! follows it.

use crate::client::Store;
use crate::lookup::Lookup;
use crate::traced_call::{TracedCall, verdict_on};
use perigee_activity::Operation;
use perigee_schemas::Status;

/// A read in two steps. It belongs to the thread that began it.
pub struct TracedRead(TracedCall);

impl Store {
    /// Begins a read whose lookup and bytes this thread asks for itself.
    #[must_use]
    pub fn begin_read(&self, keys: usize) -> TracedRead {
        TracedRead(TracedCall::begin(match keys {
            1 => Operation::Get,
            _ => Operation::BatchGet,
        }))
    }
}

impl TracedRead {
    /// It is over: what was looked up, and what came of the bytes of those that were found.
    pub fn end(self, store: &Store, keys: &[&str], lookup: &Lookup, read: &[Result<u64, Status>]) {
        let bytes = read.iter().flatten().sum();
        let found = (0..lookup.len()).map(|index| verdict_on(&lookup.object(index)));
        let failed = found.chain(read.iter().map(verdict_on)).find(|status| *status != Status::Ok);
        let status = failed.unwrap_or(Status::Ok);
        self.0.end(&store.cells, keys.first().copied(), keys.iter().map(|_| status), bytes);
    }
}
