//! Steady traffic of the transfer engine: one small block at a time, at a pace that leaves the machine idle. For those who
//! watch what a fault does to it. Invariant: it never sends faster than told, however slow the blocks before were.

use std::io::{Write, stdout};
use std::thread::sleep;
use std::time::{Duration, Instant};

use perigee_engine::EngineOptions;
use perigee_runner::BenchError;
use perigee_runner::engine_end::EngineEnd;
use perigee_runner::mover::{Move, Mover, Way};
use perigee_runner::stop::Stop;

use crate::engine_target::READY;
use crate::limits::TRANSFER_DEADLINE;

/// Bytes of the buffer at each end.
const BUFFER_BYTES: u64 = 1 << 20;

/// Options of `steady`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Address of this end.
    #[arg(long, default_value = "127.0.0.1")]
    local: String,
    /// Name of the other end; without it, this end serves.
    #[arg(long)]
    peer: Option<String>,
    /// Bytes of a block.
    #[arg(long, default_value_t = 4096, value_parser = in_buffer())]
    block_bytes: u64,
    /// Read blocks from the other end instead of writing them there.
    #[arg(long)]
    read: bool,
    /// Blocks in a second; 0 sends without a pause.
    #[arg(long, default_value_t = 200)]
    per_second: u32,
}

/// Sizes of a block that the buffer has room for.
fn in_buffer() -> clap::builder::RangedU64ValueParser {
    clap::value_parser!(u64).range(1..=BUFFER_BYTES)
}

/// Serves, or moves block after block, until it is told to stop. The last line counts the blocks that arrived.
pub(crate) fn run(options: &Options) -> Result<(), BenchError> {
    let stop = Stop::on_signals()?;
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let engine =
        EngineOptions::from_variables(&options.local, "P2PHANDSHAKE", "tcp", "", variable)?;
    let end = EngineEnd::start(engine, BUFFER_BYTES, &stop)?;
    match &options.peer {
        None => {
            let mut output = stdout();
            writeln!(output, "{READY}{}", end.name())?;
            output.flush()?;
            stop.wait();
            Ok(())
        }
        Some(peer) => send(&end, peer, options, &stop),
    }
}

fn send(end: &EngineEnd, peer: &str, options: &Options, stop: &Stop) -> Result<(), BenchError> {
    let mover = end.towards(peer, TRANSFER_DEADLINE)?;
    let block = Move {
        way: if options.read { Way::Read } else { Way::Write },
        local: end.address(),
        remote: 0,
        bytes: options.block_bytes,
    };
    let pause = match options.per_second {
        0 => Duration::ZERO,
        rate => Duration::from_secs(1) / rate,
    };
    let (begun, mut sent) = (Instant::now(), 0u64);
    while !stop.is_set() {
        let started = Instant::now();
        match mover.transfer(&block) {
            // Told to stop in the middle of a block.
            Err(_) if stop.is_set() => break,
            outcome => outcome?,
        }
        sent += 1;
        sleep(pause.saturating_sub(started.elapsed()));
    }
    let mut output = stdout();
    writeln!(
        output,
        "{sent} blocks in {} ms",
        begun.elapsed().as_millis()
    )?;
    Ok(output.flush()?)
}
