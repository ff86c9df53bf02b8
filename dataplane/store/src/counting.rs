//! What the engine did, in the client's cells.

use perigee_metrics::ClientCells;
use perigee_schemas::{Direction, Route};
use perigee_transfer::{Observer, TransferError};
use std::sync::Arc;
use std::time::Duration;

/// Counts transfers in a client's cells.
#[derive(Debug)]
pub(crate) struct Counting(pub(crate) Arc<ClientCells>);

impl Observer for Counting {
    fn moved(&self, route: Route, direction: Direction, bytes: u64, elapsed: Duration) {
        let elapsed_ns = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
        self.0.record_transfer(route, direction, bytes, elapsed_ns);
    }

    fn failed(&self, route: Route, direction: Direction, error: &TransferError) {
        self.0.record_transfer_failure(route, direction);
        if let TransferError::Checksum { .. } = error {
            self.0.record_checksum_failure(route);
            perigee_activity::count_wrong_bytes();
        }
    }
}
