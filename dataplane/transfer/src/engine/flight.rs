//! A batch on its way over TCP. Invariant: the shards are done with the caller's memory when a flight has ended.

use super::Outcome;
use crate::client::{Batch, TcpClient};
use crate::error::TransferError;
use std::sync::Arc;

/// Transfers under way. It ends only when the shards are done with the caller's memory, be it by a panic.
#[derive(Default)]
pub(super) struct Flight {
    flying: Option<(Arc<Batch>, Arc<TcpClient>)>,
    refused: Outcome<u32>,
}

impl Flight {
    /// The flight of a batch that is about to be submitted.
    pub(super) fn of(batch: Arc<Batch>, tcp: Arc<TcpClient>) -> Self {
        let flying = Some((batch, tcp));
        let refused = Vec::new();
        Self { flying, refused }
    }

    /// One that never began.
    pub(super) fn refused(error: &TransferError, jobs: usize) -> Self {
        let refused = vec![Err(error.clone()); jobs];
        Self {
            flying: None,
            refused,
        }
    }

    pub(super) fn land(mut self) -> Outcome<u32> {
        self.wait()
            .unwrap_or_else(|| std::mem::take(&mut self.refused))
    }

    fn wait(&mut self) -> Option<Outcome<u32>> {
        let (batch, tcp) = self.flying.take()?;
        Some(batch.wait(|| tcp.stalled()))
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        let _ = self.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perigee_schemas::Identity;
    use perigee_shard::Congestion;
    use std::sync::mpsc::{TryRecvError, channel};
    use std::time::Duration;

    #[test]
    fn a_flight_that_is_dropped_still_waits_for_its_slices() {
        let second = Duration::from_secs(1);
        let tcp = TcpClient::start(1, Identity(1), second, &Congestion::Automatic).unwrap();
        let (tcp, batch) = (Arc::new(tcp), Arc::new(Batch::new(&[], 1)));
        let (tell, told) = channel();
        let flight = {
            let (tcp, batch) = (tcp.clone(), batch.clone());
            move || Flight::of(batch, tcp)
        };
        let unwinding = std::thread::spawn(move || {
            drop(flight());
            tell.send(()).unwrap();
        });
        assert_eq!(told.try_recv(), Err(TryRecvError::Empty));
        batch.report(std::iter::empty());
        told.recv().unwrap();
        unwinding.join().unwrap();
        tcp.stop();
    }
}
