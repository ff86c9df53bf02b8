//! One thread that keeps objects in flight to or from a disk. Invariant: what was read is the
//! object that was asked for, by its generation.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use perigee_schemas::disk_address::DiskAddress;
use perigee_schemas::extent::{extent_bytes, generation_offset};
use perigee_ssd::{Answer, DiskPiece, ReadError, StagedBytes};

use super::end::{DiskEnd, DiskWriting, GENERATION, written};
use crate::error::BenchError;
use crate::limits::{ANSWER_DEADLINE, FLIGHT_LOOK};
use crate::load::drive::{Step, Worker};

type Reading = Answer<Vec<Result<StagedBytes, ReadError>>>;

enum DiskFlight {
    Append(DiskWriting),
    Read(Reading),
}

/// One thread.
pub(super) struct DiskWorker<'a> {
    end: &'a DiskEnd,
    bytes: u64,
    depth: u64,
    /// Objects that are written in one call.
    per_call: u64,
    /// Where objects to read are; none if they are to be written.
    places: Vec<DiskAddress>,
    flights: VecDeque<(Instant, DiskFlight)>,
    begun: u64,
}

impl<'a> DiskWorker<'a> {
    /// Reads whole objects.
    pub(super) fn reads(
        end: &'a DiskEnd,
        bytes: u64,
        depth: u64,
        places: Vec<DiskAddress>,
    ) -> Self {
        Self { places, ..Self::writes(end, bytes, depth, 1) }
    }

    /// Writes objects, so many in each call.
    pub(super) fn writes(end: &'a DiskEnd, bytes: u64, depth: u64, per_call: u64) -> Self {
        let (places, flights) = (Vec::new(), VecDeque::new());
        Self { end, bytes, depth, per_call, places, flights, begun: 0 }
    }

    fn begin(&mut self) -> Result<(), BenchError> {
        self.begun += 1;
        let started = Instant::now();
        let flight = if self.places.is_empty() {
            let first = self.begun * self.per_call;
            DiskFlight::Append(self.end.write_many(self.bytes, first..first + self.per_call)?)
        } else {
            let mixed = self.begun.wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let place = self.places[(mixed >> 33) as usize % self.places.len()];
            let at = |more: u64| DiskAddress::unpack(place.pack() + more);
            let piece = DiskPiece {
                address: place,
                bytes: extent_bytes(self.bytes) as u32,
                guard: Some((at(generation_offset(self.bytes)), GENERATION)),
            };
            DiskFlight::Read(self.end.disk.read(vec![piece]))
        };
        self.flights.push_back((started, flight));
        Ok(())
    }

    /// The next flight that is over, in any order: a disk that works on several at once ends them
    /// in its own.
    fn next_over(&mut self) -> Option<(Instant, DiskFlight)> {
        let end = Instant::now() + ANSWER_DEADLINE;
        while Instant::now() < end {
            let over = self.flights.iter().position(|(_, flight)| flight.is_over(Duration::ZERO));
            if over.is_some() {
                return self.flights.remove(over?);
            }
            self.flights.front()?.1.is_over(FLIGHT_LOOK);
        }
        self.flights.pop_front()
    }
}

impl DiskFlight {
    fn is_over(&self, limit: Duration) -> bool {
        match self {
            DiskFlight::Append(writing) => writing.is_here(limit),
            DiskFlight::Read(reading) => reading.is_here(limit),
        }
    }
}

impl Worker for DiskWorker<'_> {
    fn step(&mut self, wanted: u64) -> Result<Step, BenchError> {
        while (self.flights.len() as u64) < self.depth.min(wanted).max(1) {
            self.begin()?;
        }
        let failed = || BenchError::program("disk", "nothing is in flight");
        self.drain()?.ok_or_else(failed)
    }

    fn drain(&mut self) -> Result<Option<Step>, BenchError> {
        let Some((started, flight)) = self.next_over() else {
            return Ok(None);
        };
        match flight {
            DiskFlight::Append(writing) => drop(written(writing)?),
            DiskFlight::Read(reading) => read(reading)?,
        }
        let units = self.bytes * self.per_call;
        Ok(Some(Step { took: started.elapsed(), units, corrupt: 0 }))
    }
}

fn read(reading: Reading) -> Result<(), BenchError> {
    let failed = |error: &dyn std::fmt::Display| BenchError::program("disk", error);
    let read = reading.wait(ANSWER_DEADLINE).map_err(|error| failed(&error))?;
    for piece in read {
        piece.map_err(|error| failed(&error))?;
    }
    Ok(())
}
