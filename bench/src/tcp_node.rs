//! The other process of `tcp-ratio`: a master, and a node that serves its segment over TCP only.
//! Invariant: its parent kills it, and the kernel does when the parent is gone, so it never outlives the benchmark.

use std::io::{Write, stdout};

use perigee_runner::BenchError;
use perigee_runner::cluster::{Route, serve};
use perigee_runner::machine::pin_to_cpu;
use perigee_runner::stop::Stop;

/// What comes before the address.
pub(crate) const READY: &str = "Cluster ready: ";

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

/// Serves until it is told to stop; its line says where the master is.
pub(crate) fn run(options: &Options) -> Result<(), BenchError> {
    if let Some(cpu) = options.cpu {
        pin_to_cpu(cpu)?;
    }
    let congestion = options.congestion.as_deref();
    let ready = |address: &str| {
        let mut output = stdout();
        writeln!(output, "{READY}{address}")?;
        output.flush()
    };
    serve(
        options.segment_bytes,
        Route::Tcp,
        congestion,
        &Stop::default(),
        ready,
    )
}
