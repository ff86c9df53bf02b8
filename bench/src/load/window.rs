//! One thread that keeps a window of operations in flight. Invariant: a place in the buffers
//! belongs to at most one operation in flight, and the number that is noted for it says what its
//! bytes on the target are.

use std::collections::VecDeque;
use std::time::Instant;

use crate::ends::mover::{Move, Mover, Ticket};
use crate::error::BenchError;
use crate::load::content;
use crate::load::drive::{Step, Worker};
use perigee_schemas::Direction;

/// What a thread does, and where.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Share {
    /// `write`, `read` or `mixed`.
    pub(crate) operation: &'static str,
    /// Bytes per operation.
    pub(crate) bytes: u64,
    /// Operations in flight.
    pub(crate) depth: u64,
    /// Address of this thread's part of the local buffer.
    pub(crate) local: u64,
    /// Offset of this thread's part of the target's buffer.
    pub(crate) remote: u64,
    /// Length of either part.
    pub(crate) room: u64,
    /// Whether to compare bytes.
    pub(crate) verify: bool,
}

/// An operation in flight.
struct Flight {
    ticket: Ticket,
    place: u64,
    direction: Direction,
    started: Instant,
}

/// One thread.
pub(crate) struct WindowWorker<'a, M: Mover> {
    mover: &'a M,
    share: Share,
    flights: VecDeque<Flight>,
    /// Operations begun; it says which place comes next.
    begun: u64,
    /// Content of each place on the target; only kept to compare.
    contents: Vec<u64>,
}

impl<'a, M: Mover> WindowWorker<'a, M> {
    /// A thread that has not begun. If bytes are compared, the target's places get known ones
    /// first.
    ///
    /// # Errors
    /// A place cannot be written.
    pub(crate) fn new(mover: &'a M, share: Share) -> Result<Self, BenchError> {
        let mut worker = Self {
            mover,
            share,
            flights: VecDeque::with_capacity(share.depth as usize),
            begun: 0,
            contents: Vec::new(),
        };
        if share.verify {
            worker.contents = (0..worker.places()).map(|place| share.remote ^ place).collect();
            for place in 0..worker.places() {
                let content = worker.contents[place as usize];
                content::fill(worker.bytes(place), content);
                mover.transfer(&worker.piece(Direction::Write, place))?;
            }
        }
        Ok(worker)
    }

    /// Operations that fit this thread's part.
    fn places(&self) -> u64 {
        self.share.room / self.share.bytes
    }

    fn piece(&self, direction: Direction, place: u64) -> Move {
        Move {
            direction,
            local: self.share.local + place * self.share.bytes,
            remote: self.share.remote + place * self.share.bytes,
            bytes: self.share.bytes,
        }
    }

    /// The local bytes of a place.
    fn bytes(&mut self, place: u64) -> &mut [u8] {
        let address = self.share.local + place * self.share.bytes;
        // SAFETY: the place lies within the part of the buffer that only this thread has, and no
        // operation in flight uses it: callers take places that are not in flight.
        unsafe { std::slice::from_raw_parts_mut(address as *mut u8, self.share.bytes as usize) }
    }

    fn next_direction(&self) -> Direction {
        match self.share.operation {
            "write" => Direction::Write,
            "read" => Direction::Read,
            _ if self.begun.is_multiple_of(2) => Direction::Write,
            _ => Direction::Read,
        }
    }

    /// The place, the direction and, if bytes are compared, the right local bytes for the next
    /// operation.
    fn prepare(&mut self) -> (u64, Direction) {
        let (place, direction) = (self.begun % self.places(), self.next_direction());
        self.begun += 1;
        if self.share.verify {
            match direction {
                Direction::Write => {
                    let content = self.begun.rotate_left(32) ^ self.share.remote ^ place;
                    self.contents[place as usize] = content;
                    content::fill(self.bytes(place), content);
                }
                Direction::Read => self.spoil(place),
            }
        }
        (place, direction)
    }

    /// Makes sure that bytes which do not arrive are noticed.
    fn spoil(&mut self, place: u64) {
        let content = !self.contents[place as usize];
        content::fill(self.bytes(place), content);
    }

    /// 1 if the target's bytes of a place are not the right ones.
    fn check(&mut self, place: u64, direction: Direction) -> Result<u64, BenchError> {
        if !self.share.verify {
            return Ok(0);
        }
        if direction == Direction::Write {
            self.spoil(place);
            self.mover.transfer(&self.piece(Direction::Read, place))?;
        }
        let content = self.contents[place as usize];
        Ok(u64::from(!content::matches(self.bytes(place), content)))
    }

    /// One operation at a time: on this thread, without a batch.
    fn single(&mut self) -> Result<Step, BenchError> {
        let (place, direction) = self.prepare();
        let piece = self.piece(direction, place);
        let started = Instant::now();
        self.mover.transfer(&piece)?;
        let took = started.elapsed();
        Ok(Step { took, units: self.share.bytes, corrupt: self.check(place, direction)? })
    }
}

impl<M: Mover> Worker for WindowWorker<'_, M> {
    fn step(&mut self, wanted: u64) -> Result<Step, BenchError> {
        if self.share.depth == 1 {
            return self.single();
        }
        while (self.flights.len() as u64) < self.share.depth.min(wanted) {
            let (place, direction) = self.prepare();
            let piece = self.piece(direction, place);
            let started = Instant::now();
            let ticket = self.mover.submit(&[piece])?;
            self.flights.push_back(Flight { ticket, place, direction, started });
        }
        match self.drain()? {
            Some(step) => Ok(step),
            None => self.single(),
        }
    }

    fn drain(&mut self) -> Result<Option<Step>, BenchError> {
        let Some(flight) = self.flights.pop_front() else {
            return Ok(None);
        };
        self.mover.wait(flight.ticket)?;
        let took = flight.started.elapsed();
        Ok(Some(Step {
            took,
            units: self.share.bytes,
            corrupt: self.check(flight.place, flight.direction)?,
        }))
    }
}

#[cfg(test)]
mod tests;
