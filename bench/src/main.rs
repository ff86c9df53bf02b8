//! `perigee-bench`: figures as ratios to what the machine itself can do, both sides taken in one run.
//! Invariant: what is compared is alternated in one process run; absolute numbers are shown but prove nothing.
#![expect(
    clippy::print_stdout,
    reason = "printing figures is what this program is for"
)]

mod allocator;
mod cold;
mod copy_ratio;
mod engine_ratio;
mod engine_target;
mod integrity_cost;
mod limits;
mod master;
mod memcached;
mod ping_pong;
mod pump;
mod report;
mod steady;
mod tcp_node;
mod tcp_ratio;

use std::process::ExitCode;

use clap::{Parser, Subcommand, ValueEnum};

use crate::report::Report;
use perigee_runner::BenchError;

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
    /// The transfer engine over TCP against a cold memcpy, and small writes against a polling io_uring.
    EngineRatio(engine_ratio::Options),
    /// The other end of `engine-ratio`; it starts this itself.
    #[command(hide = true)]
    EngineTarget(engine_target::Options),
    /// Small blocks over the transfer engine at a steady pace, for those who watch what a fault does.
    Steady(steady::Options),
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
        Work::EngineRatio(options) => engine_ratio::run(options).map(Some),
        Work::EngineTarget(options) => engine_target::run(options).map(|()| None),
        Work::Steady(options) => steady::run(options).map(|()| None),
        Work::TcpNode(options) => tcp_node::run(options).map(|()| None),
    }
}
