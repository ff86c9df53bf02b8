//! `perigee-bench`: figures as ratios to what the machine itself can do, both sides taken in one run.
//! Invariant: what is compared is alternated in one process run; absolute numbers are shown but prove nothing.
#![expect(
    clippy::print_stdout,
    reason = "printing figures is what this program is for"
)]

mod allocator;
mod cluster;
mod copy_ratio;
mod error;
mod integrity_cost;
mod limits;
mod machine;
mod master;
mod memcached;
mod memory_pair;
mod program;
mod report;
mod sample;
mod tcp_node;
mod tcp_ratio;
mod workload;

use std::process::ExitCode;

use clap::{Parser, Subcommand, ValueEnum};

use crate::error::BenchError;
use crate::report::Report;

/// Benchmarks against the machine's own limits.
#[derive(Parser)]
#[command(name = "perigee-bench")]
struct Arguments {
    /// How to print the result.
    #[arg(long, global = true, value_enum, default_value = "text")]
    format: Format,
    #[command(subcommand)]
    work: Work,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    /// Two figures, then a table.
    Text,
    /// One JSON object.
    Json,
}

#[derive(Subcommand)]
enum Work {
    /// `get` and `put` of the store on one host against a streaming copy of the same blocks.
    CopyRatio(copy_ratio::Options),
    /// `get` and `put` over TCP against a one-thread cold memcpy.
    TcpRatio(tcp_ratio::Options),
    /// The copy that sums against the copy that does not.
    IntegrityCost(integrity_cost::Options),
    /// Existence checks against memcached, and the master's memory per key.
    Master(master::Options),
    /// Time and utilisation of the space allocator.
    Allocator(allocator::Options),
    /// The other end of `tcp-ratio`; it starts this itself.
    #[command(hide = true)]
    TcpNode(tcp_node::Options),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments.work) {
        Ok(Some(report)) => {
            match arguments.format {
                Format::Text => print!("{}", report.text()),
                Format::Json => println!("{}", report.json()),
            }
            ExitCode::SUCCESS
        }
        Ok(None) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("perigee-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(work: &Work) -> Result<Option<Report>, BenchError> {
    match work {
        Work::CopyRatio(options) => copy_ratio::run(options).map(Some),
        Work::TcpRatio(options) => tcp_ratio::run(options).map(Some),
        Work::IntegrityCost(options) => integrity_cost::run(options).map(Some),
        Work::Master(options) => master::run(options).map(Some),
        Work::Allocator(options) => Ok(Some(allocator::run(options))),
        Work::TcpNode(options) => tcp_node::run(options).map(|()| None),
    }
}
