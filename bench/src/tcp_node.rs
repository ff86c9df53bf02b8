//! The other process of `tcp-ratio`: a master, and a node that serves its segment over TCP only.
//! Invariant: it ends when its stdin does, so it never outlives the benchmark.

use std::io::{Read, Write, stdin, stdout};

use crate::cluster::{Route, open_store, start_master};
use crate::error::BenchError;
use crate::machine::pin_to_cpu;

/// Options of the hidden command `tcp-node`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Bytes to donate.
    #[arg(long)]
    segment_bytes: u64,
    /// Congestion control of data connections.
    #[arg(long)]
    congestion: Option<String>,
    /// The only CPU to use.
    #[arg(long)]
    cpu: Option<usize>,
}

/// Serves until stdin ends; the first line of stdout is the master's address.
pub(crate) fn run(options: &Options) -> Result<(), BenchError> {
    if let Some(cpu) = options.cpu {
        pin_to_cpu(cpu)?;
    }
    let master = start_master()?;
    let address = master.address().to_string();
    let node = open_store(
        &address,
        options.segment_bytes,
        Route::Tcp,
        options.congestion.as_deref(),
    )?;
    writeln!(stdout(), "{address}")?;
    stdout().flush()?;
    let mut rest = Vec::new();
    stdin().read_to_end(&mut rest)?;
    node.close();
    master.stop();
    Ok(())
}
