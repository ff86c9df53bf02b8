//! A node's mover: carries objects to other places when the master says so.
//! Invariant: what was taken is reported, or left to the master's deadline.

use super::{Life, Node};
use crate::scenario::store::link::Link;
use crate::scenario::store::wire::{self, Put};
use perigee_memory::{ByteRange, ByteRangeMut};
use perigee_rpc::Moves;
use perigee_schemas::Status;
use perigee_schemas::frame::MessageKind;
use perigee_transfer::{ReadJob, ReplicaAddress, TransferError, WriteJob};
use std::time::Duration;

/// Pause of the mover while nothing is to be moved...
const REST: Duration = Duration::from_millis(500);
/// ... and while the master has nothing for it at the moment.
const MOVER_PAUSE: Duration = Duration::from_millis(50);
const MOVES_PER_FETCH: u32 = 4;
/// Tries to report the outcome of a move to the master.
const REPORT_TRIES: usize = 3;

impl Node {
    /// Carries objects to other segments while the master wants it.
    pub(super) async fn carry(&self, life: &Life, link: &Link) {
        while !self.is_stopped.get() {
            let pause = match life.has_moves.get() {
                true if self.carry_some(life, link).await => Duration::ZERO,
                true => MOVER_PAUSE,
                false => REST,
            };
            self.world.sleep(pause).await;
        }
        link.close();
        life.mover.ended().await;
    }

    /// Takes some moves and carries them out; false if there are none.
    async fn carry_some(&self, life: &Life, link: &Link) -> bool {
        let fetch = wire::fetch_moves(life.client, MOVES_PER_FETCH);
        let Some(answer) = link.ask(MessageKind::FetchMoves, &fetch).await else {
            return false;
        };
        let Some(moves) = wire::sound(&self.world, Moves::decode(&answer.body)) else {
            return false;
        };
        for (index, key) in moves.keys.iter().enumerate() {
            let (source, target) = moves.places[index];
            let places = [source, target].map(|at| wire::place(&moves.segments, &at));
            let copied = self.copy(life, &places, moves.checksum[index]).await;
            let status = copied.as_ref().err().map_or(Status::Ok, TransferError::status);
            let in_flight = copied.err().is_some_and(|error| error.is_peer_fault());
            let put = Put { client: life.client, key, generation: target.generation };
            let end = wire::end_move(&put, status, in_flight);
            for _ in 0..REPORT_TRIES {
                if link.ask(MessageKind::EndMoves, &end).await.is_some() {
                    break;
                }
            }
        }
        !moves.keys.is_empty()
    }

    async fn copy(
        &self,
        life: &Life,
        [source, target]: &[ReplicaAddress; 2],
        checksum: u32,
    ) -> Result<(), TransferError> {
        let mut bytes = vec![0; source.payload_bytes as usize];
        {
            let pieces = [ByteRangeMut::from(bytes.as_mut_slice())];
            let jobs = [ReadJob { place: source, checksum, pieces: &pieces }];
            // SAFETY: the bytes outlive the journey; should the task be dropped before its end, its
            // host has died and the network has forgotten its operations.
            let batch = unsafe { life.mover.read(&jobs) };
            self.world.until(batch.watch()).await;
            first(batch.outcome())?;
        }
        let pieces = [ByteRange::from(bytes.as_slice())];
        let jobs = [WriteJob { place: target, pieces: &pieces }];
        // SAFETY: as above.
        let batch = unsafe { life.mover.write(&jobs) };
        self.world.until(batch.watch()).await;
        first(batch.outcome()).map(drop)
    }
}

/// The result of the only job of a batch.
fn first(outcome: Option<Vec<Result<u32, TransferError>>>) -> Result<u32, TransferError> {
    let lost = || Err(TransferError::Engine("A batch without an outcome".to_owned()));
    let first = outcome.into_iter().flatten().next();
    first.unwrap_or_else(lost)
}
