//! The asking end of the pump: a block in flight on each connection.
//! Invariant: a block counts when its answer is there whole.

use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::error::BenchError;
use crate::sample::Places;

use super::block::{ANSWER_BYTES, BlockMemory, GET, NAME, PUT, Pump, REQUEST_BYTES};
use super::poller::{Ended, Poller, Way};
use crate::limits::ANSWER_DEADLINE;
use crate::load::drive::Measured;

/// What one connection holds.
#[derive(Debug, Clone, Copy, Default)]
struct Line {
    request: [u8; REQUEST_BYTES],
    answer: [u8; ANSWER_BYTES],
    /// Operations of the block that have not ended.
    open: u32,
}

pub(super) struct Caller {
    // Dropped first: it waits for the operations that use the lines.
    poller: Poller,
    lines: Box<[Line]>,
    memory: BlockMemory,
    places: Places,
    pump: Pump,
}

impl Caller {
    pub(super) fn new(
        streams: Vec<TcpStream>,
        memory: BlockMemory,
        pump: Pump,
    ) -> Result<Self, BenchError> {
        Ok(Self {
            lines: vec![Line::default(); streams.len()].into(),
            poller: Poller::new(streams)?,
            memory,
            places: Places::new(23),
            pump,
        })
    }

    /// Moves blocks for about `time`.
    pub(super) fn run(mut self, time: Duration) -> Result<Measured, BenchError> {
        for line in 0..self.poller.streams() {
            self.ask(line)?;
        }
        let (started, mut last) = (Instant::now(), Instant::now());
        let (mut moved, mut open, mut ended) = (0, self.poller.streams(), Vec::new());
        while open > 0 {
            self.poller.poll(&mut ended)?;
            if last.elapsed() > ANSWER_DEADLINE {
                return Err(BenchError::program(NAME, "no answer in time"));
            }
            for end in ended.drain(..) {
                last = Instant::now();
                if !self.finish(end)? {
                    continue;
                }
                moved += self.pump.bytes;
                if started.elapsed() < time {
                    self.ask(end.stream)?;
                } else {
                    open -= 1;
                }
            }
        }
        let blocks = (moved / self.pump.bytes) as u64;
        Ok(Measured::of(started.elapsed(), blocks, moved as u64))
    }

    /// Starts the next block of a connection: the request goes out while the answer is waited for.
    fn ask(&mut self, at: usize) -> Result<(), BenchError> {
        let Pump { gets, bytes, .. } = self.pump;
        let mut place = || self.places.offset(bytes, self.memory.bytes);
        let (near, far) = (self.memory.base + place(), place());
        let line = &mut self.lines[at];
        let words = [if gets { GET } else { PUT }, far as u64, bytes as u64];
        for (field, word) in line.request.chunks_exact_mut(8).zip(words) {
            field.copy_from_slice(&word.to_le_bytes());
        }
        line.open = 2;
        let request = (line.request.as_ptr() as usize, REQUEST_BYTES);
        let answer = (line.answer.as_mut_ptr() as usize, ANSWER_BYTES);
        let (out, back) = match gets {
            true => ((0, 0), (near, bytes)),
            false => ((near, bytes), (0, 0)),
        };
        // SAFETY: lines and memory outlive the poller; blocks of two connections may lie on each
        // other, which garbles unused bytes.
        unsafe {
            self.poller.push(at, Way::Receive, [answer, back])?;
            self.poller.push(at, Way::Send, [request, out])
        }
    }

    /// Notes an ended operation; true if it was the last of its block.
    fn finish(&mut self, end: Ended) -> Result<bool, BenchError> {
        let Pump { gets, bytes, .. } = self.pump;
        let whole = match end.way {
            Way::Send => REQUEST_BYTES + if gets { 0 } else { bytes },
            Way::Receive => ANSWER_BYTES + if gets { bytes } else { 0 },
        };
        if end.bytes != whole {
            return Err(BenchError::program(NAME, "a connection broke off"));
        }
        let line = &mut self.lines[end.stream];
        line.open -= 1;
        Ok(line.open == 0)
    }
}
