//! Bare queue pairs between two RDMA devices of this machine: what everything built on them is
//! measured against.
//! Invariant: nothing but post and poll is inside the measured loops.

use std::sync::Arc;
use std::time::{Duration, Instant};

use perigee_memory::HostBuffer;
use perigee_verbs::libibverbs::HostDevices;
use perigee_verbs::{
    CompletionQueue, ConnectOptions, Device, Fabric, QueuePair, QueuePairOptions, Region,
    RegionAccess, Sge, WorkCompletion, WorkOperation, WorkRequest, gid,
};

use super::Bench;
use crate::error::BenchError;
use crate::load::drive::Measured;
use crate::report::{Cell, RateUnit, Row};
use crate::settings;

const BUFFER_BYTES: usize = 16 << 20;
/// Bytes of a request and requests under way.
const LOADS: [(usize, usize); 2] = [(64 << 10, 128), (1 << 20, 4)];
const SMALL_BYTES: usize = 4096;

/// Takes rows between the two devices of `--device`.
pub(super) fn take(bench: &mut Bench<'_>) -> Result<(), BenchError> {
    let Some((from, to)) = bench.settings.text("device").split_once(',') else {
        return Err(BenchError::conflict("--what rdma needs two devices: --device mlx5_0,mlx5_1"));
    };
    let time = settings::duration(bench.settings).duration;
    let fabric = HostDevices::load().map_err(failed)?;
    let (mut near, mut far) = (End::open(&fabric, from)?, End::open(&fabric, to)?);
    for end in [&near, &far] {
        bench.note(end.explain.clone());
    }
    let options = ConnectOptions { timeout_exponent: 16, ..ConnectOptions::default() };
    near.pair.connect(far.pair.endpoint(), &options).map_err(failed)?;
    far.pair.connect(near.pair.endpoint(), &options).map_err(failed)?;
    for (bytes, depth) in LOADS {
        for (operation, reads) in [("queue pair, write", false), ("queue pair, read", true)] {
            let mut load = Load { near: &mut near, far: &far, bytes, reads, next: 0 };
            let measured = load.run(depth, time)?;
            push(bench, operation, (bytes, depth), &measured);
        }
    }
    let mut load = Load { near: &mut near, far: &far, bytes: SMALL_BYTES, reads: false, next: 0 };
    let measured = load.singles(time)?;
    push(bench, "queue pair, write", (SMALL_BYTES, 1), &measured);
    Ok(())
}

fn push(
    bench: &mut Bench<'_>,
    operation: &str,
    (bytes, depth): (usize, usize),
    measured: &Measured,
) {
    let cell = Cell {
        operation,
        bytes: bytes as u64,
        depth: depth as u64,
        threads: 1,
        unit: RateUnit::Bytes,
    };
    bench.report.rows.push(Row::total(&cell, measured));
}

fn failed(error: impl std::fmt::Display) -> BenchError {
    BenchError::program("RDMA", error)
}

struct End {
    pair: Box<dyn QueuePair>,
    queue: Arc<dyn CompletionQueue>,
    region: Arc<dyn Region>,
    /// How its address was chosen.
    explain: String,
    _buffer: HostBuffer,
    _device: Arc<dyn Device>,
}

impl End {
    fn open(fabric: &HostDevices, name: &str) -> Result<Self, BenchError> {
        let device = fabric.open(name).map_err(failed)?;
        let gids = device.gids().map_err(failed)?;
        let ranked = gid::rank(name, &gids, None).map_err(failed)?;
        let Some(best) = ranked.first() else {
            return Err(failed(format!("{name} has no address")));
        };
        let buffer = HostBuffer::allocate(BUFFER_BYTES)?;
        let (address, bytes) = (buffer.base() as u64, BUFFER_BYTES as u64);
        // SAFETY: the region is dropped before the buffer, by the order of the fields.
        let region = unsafe { device.register(address, bytes, RegionAccess::ALL) };
        let queue = device.completion_queue(512).map_err(failed)?;
        let options = QueuePairOptions {
            gid_index: best.gid.index,
            inline_bytes: 64,
            ..QueuePairOptions::default()
        };
        Ok(Self {
            pair: queue.queue_pair(&options).map_err(failed)?,
            queue,
            region: region.map_err(failed)?,
            explain: format!("{name}: {}", best.explain),
            _buffer: buffer,
            _device: device,
        })
    }

    /// Requests that have ended, all of them well.
    fn poll(&self, taken: &mut [WorkCompletion]) -> Result<usize, BenchError> {
        let count = self.queue.poll(taken).map_err(failed)?;
        match taken[..count].iter().find(|end| !end.status.is_success()) {
            Some(end) => Err(failed(format!("a request ended with {:?}", end.status))),
            None => Ok(count),
        }
    }
}

/// Requests of one size from one end to the other.
struct Load<'a> {
    near: &'a mut End,
    far: &'a End,
    bytes: usize,
    reads: bool,
    next: usize,
}

impl Load<'_> {
    fn post(&mut self) -> Result<(), BenchError> {
        let slots = BUFFER_BYTES / self.bytes;
        let offset = (self.next % slots * self.bytes) as u64;
        self.next += 1;
        let pieces = [Sge {
            address: self.near.region.address() + offset,
            bytes: self.bytes as u32,
            local_key: self.near.region.local_key(),
        }];
        let operation = match self.reads {
            true => WorkOperation::Read(&pieces),
            false => WorkOperation::Write(&pieces),
        };
        let request = WorkRequest {
            id: 0,
            operation,
            remote_address: self.far.region.address() + offset,
            remote_key: self.far.region.remote_key(),
            signaled: true,
        };
        self.near.pair.post(&[request]).map_err(failed)
    }

    /// Keeps `depth` requests under way.
    fn run(&mut self, depth: usize, time: Duration) -> Result<Measured, BenchError> {
        let mut taken = [WorkCompletion::EMPTY; 64];
        let (started, mut done) = (Instant::now(), 0);
        for _ in 0..depth {
            self.post()?;
        }
        while started.elapsed() < time {
            let count = self.near.poll(&mut taken)?;
            done += count as u64;
            for _ in 0..count {
                self.post()?;
            }
        }
        let spent = started.elapsed();
        let mut left = depth;
        while left > 0 {
            left -= self.near.poll(&mut taken)?;
        }
        Ok(Measured::of(spent, done, done * self.bytes as u64))
    }

    /// One request at a time, from posting it to its completion.
    fn singles(&mut self, time: Duration) -> Result<Measured, BenchError> {
        let mut taken = [WorkCompletion::EMPTY; 1];
        let mut measured = Measured::default();
        let begun = Instant::now();
        while begun.elapsed() < time {
            let started = Instant::now();
            self.post()?;
            while self.near.poll(&mut taken)? == 0 {}
            measured.latency.record(started.elapsed());
            measured.operations += 1;
            measured.units += self.bytes as u64;
        }
        measured.seconds = begun.elapsed().as_secs_f64();
        measured.samples.push(measured.rate());
        Ok(measured)
    }
}
