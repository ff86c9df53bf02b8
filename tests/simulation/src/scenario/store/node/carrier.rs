//! A node's mover: carries objects to other places when the master says so.
//! Invariant: what was taken is reported, or left to the master's deadline.

use super::{Life, Node};
use crate::scenario::store::link::Link;
use crate::scenario::store::wire::{self, Put};
use perigee_memory::{ByteRange, ByteRangeMut, crc32c};
use perigee_rpc::Moves;
use perigee_schemas::Status;
use perigee_schemas::disk_address::DiskAddress;
use perigee_schemas::extent::generation_offset;
use perigee_schemas::frame::MessageKind;
use perigee_ssd::{Disk, DiskPiece, ReadError};
use perigee_transfer::{ReadJob, ReplicaAddress, TransferError, WriteJob};
use std::time::Duration;

/// Pause of the mover while nothing is to be moved...
const REST: Duration = Duration::from_millis(500);
/// ... and while the master has nothing for it at the moment.
const MOVER_PAUSE: Duration = Duration::from_millis(50);
const MOVES_PER_FETCH: u32 = 4;
/// Every read of a disk that hangs ends by then.
const READ_MAX: Duration = Duration::from_secs(10);
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

    /// Takes what was read lately, and what turns out to be damaged from the disk once more.
    async fn read_disk(
        &self,
        disk: &Disk,
        source: &ReplicaAddress,
        expected: u32,
    ) -> Result<Vec<u8>, TransferError> {
        let environment = self.world.environment(self.host);
        let mut failed = TransferError::Stale;
        for read in [Disk::read_for_memory, Disk::reread_for_memory] {
            let answer = read(disk, vec![piece(source)]).within(&environment, READ_MAX).await;
            let late = |_| vec![Err(ReadError::Late)];
            let found = answer.unwrap_or_else(late).pop().unwrap_or(Err(ReadError::Late));
            let bytes = match found {
                Ok(staged) => staged.as_slice().to_vec(),
                Err(ReadError::Gone) => return Err(TransferError::Stale),
                Err(error) => return Err(error.into()),
            };
            let found = crc32c(&bytes);
            if found == expected {
                return Ok(bytes);
            }
            failed = TransferError::Checksum { found, expected };
        }
        Err(failed)
    }

    async fn copy(
        &self,
        life: &Life,
        [source, target]: &[ReplicaAddress; 2],
        checksum: u32,
    ) -> Result<(), TransferError> {
        let mut bytes = vec![0; source.payload_bytes as usize];
        if let Some(disk) = life.table.disk(source.segment.id) {
            bytes = self.read_disk(&disk, source, checksum).await?;
        } else {
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

/// An object on a disk as its owner asks for it to bring it to memory.
fn piece(source: &ReplicaAddress) -> DiskPiece {
    let word = source.offset + generation_offset(source.payload_bytes);
    DiskPiece {
        address: DiskAddress::unpack(source.offset),
        bytes: source.payload_bytes as u32,
        guard: Some((DiskAddress::unpack(word), source.generation)),
    }
}

/// The result of the only job of a batch.
fn first(outcome: Option<Vec<Result<u32, TransferError>>>) -> Result<u32, TransferError> {
    let lost = || Err(TransferError::Engine("A batch without an outcome".to_owned()));
    let first = outcome.into_iter().flatten().next();
    first.unwrap_or_else(lost)
}
