//! One thread: a batch of blocks, wait for all, the next. Invariant: blocks of different threads
//! never overlap on either end; block `i` of thread `t` of `n` lies at `(i n + t)` blocks from the
//! start, as in Mooncake's program.

use std::time::Instant;

use crate::ends::mover::{Move, Mover};
use crate::error::BenchError;
use crate::load::drive::{Step, Worker};
use perigee_schemas::Direction;

/// What a thread moves, and where.
#[derive(Debug, Clone, Copy)]
pub(super) struct BatchShare {
    pub(super) direction: Direction,
    /// Address of the local buffer.
    pub(super) local: u64,
    pub(super) thread: u64,
    pub(super) threads: u64,
    pub(super) block_bytes: u64,
    /// Blocks of a batch.
    pub(super) blocks: u64,
}

/// One thread.
pub(super) struct BatchWorker<'a, M: Mover> {
    mover: &'a M,
    moves: Vec<Move>,
    bytes: u64,
}

impl<'a, M: Mover> BatchWorker<'a, M> {
    pub(super) fn new(mover: &'a M, share: &BatchShare) -> Self {
        let block = |number: u64| {
            let offset = (number * share.threads + share.thread) * share.block_bytes;
            Move {
                direction: share.direction,
                local: share.local + offset,
                remote: offset,
                bytes: share.block_bytes,
            }
        };
        Self {
            mover,
            moves: (0..share.blocks).map(block).collect(),
            bytes: share.blocks * share.block_bytes,
        }
    }
}

impl<M: Mover> Worker for BatchWorker<'_, M> {
    fn step(&mut self, _wanted: u64) -> Result<Step, BenchError> {
        let started = Instant::now();
        let ticket = self.mover.submit(&self.moves)?;
        self.mover.wait(ticket)?;
        Ok(Step { took: started.elapsed(), units: self.bytes, corrupt: 0 })
    }
}
