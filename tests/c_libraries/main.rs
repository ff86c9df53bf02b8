//! The shared libraries for C: programs of users' shape against a real cluster and real peers,
//! headers against the Rust functions behind them, and what the files export.
#![expect(clippy::print_stdout, reason = "a test says what it cannot check here")]

mod agents;
mod compiler;
mod engines;
mod examples;
mod go;
mod headers;
mod library;
mod stores;
mod traffic;
mod versions;
