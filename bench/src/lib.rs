//! `perigee bench`: loads of threads, what they are held against, facts of the machine, reports,
//! comparison.
//! Invariant: every tool ends with one report, whole or marked as incomplete, never with bare
//! numbers.

mod baseline;
mod command;
mod compare;
mod cpu;
mod disk;
mod ends;
mod engine;
mod error;
mod facts;
mod limits;
mod load;
mod machine;
mod master;
mod nic;
mod policy;
mod report;
mod run;
mod sample;
mod settings;
mod stop;
mod store;
mod trace;
mod transfer_bench;

pub use command::execute;
pub use error::BenchError;
pub use run::Output;
pub use transfer_bench::{TRANSFER_ENGINE_BENCH, transfer_engine_bench};
