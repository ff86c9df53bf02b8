//! `get` and `put` between two clients of one host, against a streaming copy of as many blocks of the same size.
//! Invariant: one call and one set of copies alternate, in memories of the same size, at fresh random places.

use std::time::{Duration, Instant};

use perigee_memory::copy::copy_streaming;
use perigee_store::Store;

use crate::limits::{CALL_BYTES, CALL_KEYS, COPY_BYTES};
use crate::report::{Cell, Figure, Goal, Report};
use perigee_runner::BenchError;
use perigee_runner::cluster::{Route, open_store, start_master};
use perigee_runner::memory_pair::MemoryPair;
use perigee_runner::sample::{Places, Spread};
use perigee_runner::workload::Workload;

const SIZES: [usize; 5] = [64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20];
const CALLS_MIN: usize = 11;

/// Options of `copy-ratio`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Seconds per size and direction.
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
}

/// Measures.
pub(crate) fn run(options: &Options) -> Result<Report, BenchError> {
    let pair = MemoryPair::new(COPY_BYTES)?;
    let master = start_master()?;
    let address = master.address().to_string();
    let node = open_store(&address, 3 * COPY_BYTES as u64, Route::SharedMemory, None)?;
    let client = open_store(&address, 0, Route::SharedMemory, None)?;
    let mut rows = Vec::new();
    let mut worst = [f64::MAX; 2];
    for bytes in SIZES {
        let time = Duration::from_secs_f64(options.seconds.clamp(0.01, 600.0));
        for (at, cell) in measure(&client, &pair, bytes, time)?
            .into_iter()
            .enumerate()
        {
            worst[at] = worst[at].min(cell.ratio());
            rows.push(cell.row(["put", "get"][at], bytes));
        }
    }
    client.close();
    node.close();
    master.stop();
    let figure = |name: &str, value, goal| Figure {
        name: name.to_owned(),
        value,
        unit: "of a streaming copy",
        goal,
    };
    Ok(Report {
        figures: vec![
            figure("get on one host, worst size", worst[1], Some(Goal::AtLeast(0.8))),
            figure("put on one host, worst size", worst[0], None),
        ],
        columns: &["call", "KiB", "blocks", "store GB/s", "copy GB/s", "ratio", "calls"],
        rows,
        notes: vec!["medians over calls; checksums on; the last call of each row was read again and compared".to_owned()],
    })
}

/// Nanoseconds per block of the store and of the copy.
struct Measured {
    store_ns: Spread,
    copy_ns: Spread,
    per_call: usize,
    calls: usize,
}

impl Measured {
    fn ratio(&self) -> f64 {
        self.copy_ns.median / self.store_ns.median
    }

    fn row(&self, call: &str, bytes: usize) -> Vec<Cell> {
        vec![
            Cell::Text(call.to_owned()),
            Cell::Number((bytes >> 10) as f64, 0),
            Cell::Number(self.per_call as f64, 0),
            Cell::Number(bytes as f64 / self.store_ns.median, 2),
            Cell::Number(bytes as f64 / self.copy_ns.median, 2),
            Cell::Number(self.ratio(), 3),
            Cell::Number(self.calls as f64, 0),
        ]
    }
}

/// Put, then get.
fn measure(
    client: &Store,
    pair: &MemoryPair,
    bytes: usize,
    time: Duration,
) -> Result<[Measured; 2], BenchError> {
    let per_call = (CALL_BYTES / bytes).clamp(1, CALL_KEYS);
    let mut workload = Workload::new(client, pair, bytes, per_call);
    // The first pass over the node's memory fills page tables on both sides.
    workload.fill()?;
    workload.clear()?;
    let put = alternate(pair, bytes, per_call, time, || workload.put())?;
    workload.check_last()?;
    workload.clear()?;
    workload.fill()?;
    workload.read_all()?;
    let get = alternate(pair, bytes, per_call, time, || workload.get())?;
    workload.check_last()?;
    workload.clear()?;
    Ok([put, get])
}

/// Takes `call` and plain copies in turn.
fn alternate(
    pair: &MemoryPair,
    bytes: usize,
    per_call: usize,
    time: Duration,
    mut call: impl FnMut() -> Result<Duration, BenchError>,
) -> Result<Measured, BenchError> {
    let mut places = Places::new(7);
    let (mut store_ns, mut copy_ns) = (Vec::new(), Vec::new());
    let mut spent = Duration::ZERO;
    while spent < time || store_ns.len() < CALLS_MIN {
        let took = call()?;
        let copied = copy(pair, bytes, per_call, &mut places);
        spent += took + copied;
        store_ns.push(took.as_nanos() as f64 / per_call as f64);
        copy_ns.push(copied.as_nanos() as f64 / per_call as f64);
    }
    Ok(Measured {
        store_ns: Spread::of(&store_ns),
        copy_ns: Spread::of(&copy_ns),
        per_call,
        calls: store_ns.len(),
    })
}

/// Copies blocks from the segment to the buffer.
fn copy(pair: &MemoryPair, bytes: usize, per_call: usize, places: &mut Places) -> Duration {
    let offsets: Vec<(usize, usize)> = (0..per_call)
        .map(|_| {
            (
                places.offset(bytes, COPY_BYTES),
                places.offset(bytes, COPY_BYTES),
            )
        })
        .collect();
    let start = Instant::now();
    for (from, to) in offsets {
        let source = pair.segment().wrapping_add(from);
        // SAFETY: places leave room for `bytes` in either memory, and the memories are apart.
        unsafe { copy_streaming(pair.buffer().wrapping_add(to), source, bytes) };
    }
    start.elapsed()
}
