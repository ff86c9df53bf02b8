//! Rates of bare queue pairs between two devices: what everything built on them is measured against.
//!
//!     rdma_rates DEVICE DEVICE [SECONDS]
//!
//! Invariant: nothing but post and poll is inside the measured loops.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a measuring program: a failure ends it, and its output is the result"
)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use perigee_memory::HostBuffer;
use perigee_verbs::libibverbs::HostDevices;
use perigee_verbs::{
    Access, Completion, CompletionQueue, ConnectOptions, Device, Fabric, Operation, Piece,
    QueuePair, QueuePairOptions, Region, WorkRequest, gid,
};

const BUFFER_BYTES: usize = 16 << 20;

struct End {
    pair: Box<dyn QueuePair>,
    queue: Arc<dyn CompletionQueue>,
    region: Arc<dyn Region>,
    _buffer: HostBuffer,
    _device: Arc<dyn Device>,
}

fn open(fabric: &HostDevices, name: &str) -> End {
    let device = fabric.open(name).unwrap();
    let ranked = gid::rank(name, &device.gids().unwrap(), None).unwrap();
    println!("{name}: {}", ranked[0].explain);
    let buffer = HostBuffer::allocate(BUFFER_BYTES).unwrap();
    // SAFETY: the region is dropped before the buffer, by the order of the fields.
    let region = unsafe { device.register(buffer.base() as u64, BUFFER_BYTES as u64, Access::ALL) };
    let queue = device.completion_queue(512).unwrap();
    let options = QueuePairOptions {
        gid_index: ranked[0].gid.index,
        inline_bytes: 64,
        ..QueuePairOptions::default()
    };
    End {
        pair: queue.queue_pair(&options).unwrap(),
        queue,
        region: region.unwrap(),
        _buffer: buffer,
        _device: device,
    }
}

/// Bytes per second with `depth` requests of `bytes` under way.
fn rate(a: &mut End, b: &End, bytes: usize, depth: usize, reads: bool, time: Duration) -> f64 {
    let slots = BUFFER_BYTES / bytes;
    let mut next = 0;
    let mut post = |a: &mut End, count: usize| {
        for _ in 0..count {
            let offset = (next % slots * bytes) as u64;
            next += 1;
            let pieces = [Piece {
                address: a.region.address() + offset,
                bytes: u32::try_from(bytes).unwrap(),
                local_key: a.region.local_key(),
            }];
            let operation = if reads {
                Operation::Read(&pieces)
            } else {
                Operation::Write(&pieces)
            };
            a.pair.post(&[request(operation, b, offset)]).unwrap();
        }
    };
    let mut taken = [Completion::EMPTY; 64];
    let mut done = 0usize;
    let started = Instant::now();
    post(a, depth);
    while started.elapsed() < time {
        let count = a.queue.poll(&mut taken).unwrap();
        assert!(taken[..count].iter().all(|end| end.status.is_success()));
        done += count;
        post(a, count);
    }
    let rate = (done * bytes) as f64 / started.elapsed().as_secs_f64();
    let mut left = depth;
    while left > 0 {
        left -= a.queue.poll(&mut taken).unwrap();
    }
    rate
}

/// Sorted times from posting a write to its completion.
fn latencies(a: &mut End, b: &End, bytes: usize, time: Duration) -> Vec<Duration> {
    let pieces = [Piece {
        address: a.region.address(),
        bytes: u32::try_from(bytes).unwrap(),
        local_key: a.region.local_key(),
    }];
    let mut taken = [Completion::EMPTY; 1];
    let mut times = Vec::new();
    let end = Instant::now() + time;
    while Instant::now() < end {
        let started = Instant::now();
        a.pair
            .post(&[request(Operation::Write(&pieces), b, 0)])
            .unwrap();
        while a.queue.poll(&mut taken).unwrap() == 0 {}
        times.push(started.elapsed());
    }
    times.sort_unstable();
    times
}

fn request<'a>(operation: Operation<'a>, to: &End, offset: u64) -> WorkRequest<'a> {
    WorkRequest {
        id: 0,
        operation,
        remote_address: to.region.address() + offset,
        remote_key: to.region.remote_key(),
        signaled: true,
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [from, to, rest @ ..] = &arguments[..] else {
        println!("usage: rdma_rates DEVICE DEVICE [SECONDS]");
        return;
    };
    let seconds = rest.first().map_or(3.0, |text| text.parse().unwrap());
    let time = Duration::from_secs_f64(seconds);
    let fabric = HostDevices::load().unwrap();
    let (mut a, mut b) = (open(&fabric, from), open(&fabric, to));
    let options = ConnectOptions {
        timeout_exponent: 16,
        ..ConnectOptions::default()
    };
    a.pair.connect(b.pair.endpoint(), &options).unwrap();
    b.pair.connect(a.pair.endpoint(), &options).unwrap();
    for (bytes, depth) in [(64 << 10, 128), (1 << 20, 4)] {
        for (reads, name) in [(false, "write"), (true, "read")] {
            let rate = rate(&mut a, &b, bytes, depth, reads, time) / 1e6;
            println!("{name:5} {bytes:8} B, {depth:3} under way: {rate:8.2} MB/s");
        }
    }
    let times = latencies(&mut a, &b, 4096, time);
    let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize];
    println!("write     4096 B: p50 {:?}, p99 {:?}", at(0.5), at(0.99));
}
