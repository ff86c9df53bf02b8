//! A target that is a piece of this process's memory, with faults.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{CardCount, Move, Mover, Ticket};
use crate::error::BenchError;
use perigee_schemas::Direction;

/// Moves bytes when they are waited for, so that a load that does not wait is found out.
#[derive(Default)]
pub(crate) struct MemoryTarget {
    memory: Mutex<Vec<u8>>,
    waiting: Mutex<Vec<(u64, Vec<Move>)>>,
    next: AtomicU64,
    /// Most batches that were in flight at once.
    pub(crate) most_in_flight: AtomicU64,
    /// Every n-th piece is spoiled; 0 spoils none.
    pub(crate) spoil_every: u64,
    /// Pieces moved.
    pub(crate) pieces: AtomicU64,
    /// Pieces after which the target is gone; 0 is never.
    pub(crate) gone_after: u64,
}

impl MemoryTarget {
    pub(crate) fn new(bytes: usize) -> Self {
        Self { memory: Mutex::new(vec![0; bytes]), ..Self::default() }
    }

    fn apply(&self, piece: &Move) -> Result<(), BenchError> {
        let number = self.pieces.fetch_add(1, Ordering::Relaxed) + 1;
        if self.gone_after > 0 && number > self.gone_after {
            return Err(BenchError::program("target", "it is gone"));
        }
        let mut memory = self.memory.lock().unwrap();
        let from = piece.remote as usize;
        let range = from..from + piece.bytes as usize;
        let remote = memory.get_mut(range).expect("within the target's memory");
        // SAFETY: the load owns this range until it has waited for the piece.
        let local =
            unsafe { std::slice::from_raw_parts_mut(piece.local as *mut u8, piece.bytes as usize) };
        match piece.direction {
            Direction::Write => remote.copy_from_slice(local),
            Direction::Read => local.copy_from_slice(remote),
        }
        if self.spoil_every > 0 && number.is_multiple_of(self.spoil_every) {
            let end = match piece.direction {
                Direction::Write => remote.last_mut(),
                Direction::Read => local.last_mut(),
            };
            *end.expect("a piece has bytes") ^= 0x40;
        }
        Ok(())
    }
}

impl Mover for MemoryTarget {
    fn submit(&self, moves: &[Move]) -> Result<Ticket, BenchError> {
        let ticket = self.next.fetch_add(1, Ordering::Relaxed);
        let mut waiting = self.waiting.lock().unwrap();
        waiting.push((ticket, moves.to_vec()));
        self.most_in_flight.fetch_max(waiting.len() as u64, Ordering::Relaxed);
        Ok(Ticket(ticket))
    }

    fn wait(&self, ticket: Ticket) -> Result<(), BenchError> {
        let mut waiting = self.waiting.lock().unwrap();
        let at = waiting.iter().position(|(number, _)| *number == ticket.0);
        let (_, moves) = waiting.remove(at.expect("a batch is waited for once"));
        drop(waiting);
        moves.iter().try_for_each(|piece| self.apply(piece))
    }

    fn transfer(&self, piece: &Move) -> Result<(), BenchError> {
        self.apply(piece)
    }

    fn cards(&self) -> Vec<CardCount> {
        Vec::new()
    }
}
