//! The other process of `engine-ratio`: an engine with one registered buffer.
//! Invariant: its parent kills it, and the kernel does when the parent is gone, so it never outlives the benchmark.

use std::io::{Write, stdout};

use perigee_runner::BenchError;
use perigee_runner::engine_end::EngineEnd;
use perigee_runner::machine::pin_to_cpu;
use perigee_runner::stop::Stop;

use crate::engine_ratio::engine_options;
use crate::limits::COLD_BYTES;

/// What comes before the name.
pub(crate) const READY: &str = "Target ready: ";

/// Options of the hidden command `engine-target`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Congestion control of data connections.
    #[arg(long)]
    congestion: String,
    /// The only CPU to use.
    #[arg(long)]
    cpu: Option<usize>,
}

/// Serves until it is killed; its line says its name.
pub(crate) fn run(options: &Options) -> Result<(), BenchError> {
    if let Some(cpu) = options.cpu {
        pin_to_cpu(cpu)?;
    }
    let (engine, stop) = (engine_options(&options.congestion)?, Stop::default());
    let end = EngineEnd::start(engine, COLD_BYTES as u64, &stop)?;
    let mut output = stdout();
    writeln!(output, "{READY}{}", end.name())?;
    output.flush()?;
    stop.wait();
    Ok(())
}
