//! The kernel's own path of TCP over loopback: a pump without a protocol against a memcpy, and a
//! ping-pong.

use super::Bench;
use crate::baseline::copy::{Towards, Work, baseline};
use crate::baseline::ping_pong::PingPong;
use crate::baseline::pump::Pump;
use crate::baseline::rounds::Rounds;
use crate::ends::memory_pair::MemoryPair;
use crate::error::BenchError;
use crate::load::drive::drive;
use crate::report::{Cell, RateUnit, Row};
use crate::settings;

/// Bytes of a block and blocks in flight.
const LOADS: [(usize, usize); 2] = [(64 << 10, 16), (1 << 20, 4)];
const MESSAGE_BYTES: usize = 4096;

pub(super) fn take(bench: &mut Bench<'_>) -> Result<(), BenchError> {
    let pair = MemoryPair::new(bench.settings.integer("memory"))?;
    let span = settings::duration(bench.settings);
    for (operation, gets) in [("pump, get", true), ("pump, put", false)] {
        for (bytes, depth) in LOADS {
            let pump = Pump { gets, bytes, depth, cpu: None };
            let copy = baseline(&pair, Work::Memcpy, Towards::Buffer, bytes, bench.stop);
            let mut rounds = Rounds {
                quiet: settings::quiet(bench.settings),
                pids: &[std::process::id()],
                baselines: vec![Box::new(copy)],
            };
            let taken = rounds.take(&span, &mut |part| pump.run(&pair, part.duration))?;
            let row = Row::of(&cell(operation, bytes, depth), &taken);
            bench.report.warn_of_dropped(&row, taken.dropped);
            bench.report.rows.push(row);
        }
    }
    let mut ping_pong = [PingPong::start(MESSAGE_BYTES, None)?];
    let measured = drive(&mut ping_pong, &span, bench.stop)?;
    let row = Row::total(&cell("ping-pong", MESSAGE_BYTES, 1), &measured);
    bench.report.rows.push(row);
    bench.note("pump and ping-pong: polling io_uring, Reno, no protocol, no checksum");
    Ok(())
}

fn cell(operation: &str, bytes: usize, depth: usize) -> Cell<'_> {
    Cell { operation, bytes: bytes as u64, depth: depth as u64, threads: 1, unit: RateUnit::Bytes }
}
