//! The runner of the bench tools: loads of threads, latency histograms, machine facts, reports, comparison.
//! Invariant: every tool ends with one [`report::Report`], whole or marked as incomplete, never with bare numbers.

pub mod cluster;
mod command;
pub mod companion;
mod compare;
pub mod content;
pub mod drive;
pub mod engine_end;
pub mod error;
pub mod facts;
mod help;
pub mod latency;
pub mod limits;
mod load_flags;
pub mod machine;
mod master;
pub mod master_load;
pub mod memory_pair;
pub mod mover;
mod nic;
mod own_host;
pub mod program;
mod removal;
pub mod report;
pub mod sample;
pub mod stop;
mod store;
mod trace;
mod transfer_bench;
pub mod window;
pub mod workload;

pub use command::{Output, execute};
pub use error::BenchError;
pub use master::master_arguments;
pub use transfer_bench::transfer_engine_bench;
