//! The answering end of the pump.
//! Invariant: a request names a block inside the memory, or the connection is an error.

use std::net::TcpStream;

use crate::error::BenchError;

use super::block::{ANSWER_BYTES, BlockMemory, GET, NAME, PUT, REQUEST_BYTES};
use super::poller::{Ended, Poller, Way};

/// What a connection receives next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Request,
    Block(usize),
}

/// What one connection holds.
#[derive(Debug, Clone, Copy)]
struct Line {
    request: [u8; REQUEST_BYTES],
    answer: [u8; ANSWER_BYTES],
    next: Next,
}

pub(super) struct Server {
    // Dropped first: it waits for the operations that use the lines.
    poller: Poller,
    lines: Box<[Line]>,
    memory: BlockMemory,
}

impl Server {
    pub(super) fn new(streams: Vec<TcpStream>, memory: BlockMemory) -> Result<Self, BenchError> {
        let line =
            Line { request: [0; REQUEST_BYTES], answer: [0; ANSWER_BYTES], next: Next::Request };
        Ok(Self { lines: vec![line; streams.len()].into(), poller: Poller::new(streams)?, memory })
    }

    /// Serves until every caller has gone.
    pub(super) fn serve(mut self) -> Result<(), BenchError> {
        let mut open = self.poller.streams();
        for at in 0..open {
            self.await_request(at)?;
        }
        let mut ended = Vec::new();
        while open > 0 {
            self.poller.poll(&mut ended)?;
            for end in ended.drain(..) {
                if end.way == Way::Receive && !self.proceed(end)? {
                    open -= 1;
                }
            }
        }
        Ok(())
    }

    /// Takes what came in; false if the caller has gone.
    fn proceed(&mut self, end: Ended) -> Result<bool, BenchError> {
        let whole = match self.lines[end.stream].next {
            Next::Request => REQUEST_BYTES,
            Next::Block(bytes) => bytes,
        };
        if end.bytes != whole {
            return Ok(false);
        }
        match self.lines[end.stream].next {
            Next::Request => self.begin(end.stream)?,
            Next::Block(_) => self.answer(end.stream, (0, 0))?,
        }
        Ok(true)
    }

    fn begin(&mut self, at: usize) -> Result<(), BenchError> {
        let word = |field: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&self.lines[at].request[field * 8..][..8]);
            u64::from_le_bytes(word)
        };
        let (what, offset, bytes) = (word(0), word(1) as usize, word(2) as usize);
        if offset.saturating_add(bytes) > self.memory.bytes {
            return Err(BenchError::program(NAME, "a request outside the memory"));
        }
        let block = (self.memory.base + offset, bytes);
        match what {
            GET => self.answer(at, block),
            PUT => {
                self.lines[at].next = Next::Block(bytes);
                // SAFETY: the memory outlives the poller.
                unsafe { self.poller.push(at, Way::Receive, [block, (0, 0)]) }
            }
            _ => Err(BenchError::program(NAME, "an unknown request")),
        }
    }

    /// Sends the answer and waits for the next request at once; the caller sends none before it has
    /// the answer.
    fn answer(&mut self, at: usize, block: (usize, usize)) -> Result<(), BenchError> {
        let answer = (self.lines[at].answer.as_ptr() as usize, ANSWER_BYTES);
        // SAFETY: lines and memory outlive the poller.
        unsafe { self.poller.push(at, Way::Send, [answer, block])? };
        self.await_request(at)
    }

    fn await_request(&mut self, at: usize) -> Result<(), BenchError> {
        let line = &mut self.lines[at];
        line.next = Next::Request;
        let request = (line.request.as_mut_ptr() as usize, REQUEST_BYTES);
        // SAFETY: lines outlive the poller.
        unsafe { self.poller.push(at, Way::Receive, [request, (0, 0)]) }
    }
}
