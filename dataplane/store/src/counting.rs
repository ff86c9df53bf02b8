//! What the engine did, in the client's cells.

use perigee_metrics::{ClientCells, DirectionLabel, RouteLabel as Label};
use perigee_transfer::{Flow, Observer, Route, TransferError};
use std::sync::Arc;
use std::time::Duration;

/// Counts transfers in a client's cells.
#[derive(Debug)]
pub(crate) struct Counting(pub(crate) Arc<ClientCells>);

impl Observer for Counting {
    fn moved(&self, route: Route, flow: Flow, bytes: u64, elapsed: Duration) {
        let elapsed_ns = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
        self.0.record_transfer(label(route), direction(flow), bytes, elapsed_ns);
    }

    fn failed(&self, route: Route, flow: Flow, error: &TransferError) {
        self.0.record_transfer_failure(label(route), direction(flow));
        if let TransferError::Checksum { .. } = error {
            self.0.record_checksum_failure(label(route));
        }
    }
}

fn label(route: Route) -> Label {
    match route {
        Route::SameProcess => Label::Local,
        Route::SharedMemory => Label::SharedMemory,
        Route::Rdma => Label::Rdma,
        Route::Tcp => Label::Tcp,
    }
}

fn direction(flow: Flow) -> DirectionLabel {
    match flow {
        Flow::Read => DirectionLabel::Read,
        Flow::Write => DirectionLabel::Write,
    }
}
