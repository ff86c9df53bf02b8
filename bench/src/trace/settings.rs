//! Settings of `perigee bench trace`. Invariant: a run without a trace says where traces come from.

use perigee_flags::{Flag, Program, Settings, ValueKind};

use crate::error::BenchError;
use crate::limits::{BUFFER_BYTES_MAX, ITERATIONS_MAX, THREADS_MAX};
use crate::report::bytes_text;
use crate::settings;
use perigee_schemas::Route;

const FLAGS: &[Flag] = &[
    Flag::new("trace", ValueKind::Text, "", "JSONL file, one request per line"),
    Flag::new("requests", ValueKind::Int64, "0", "Requests to replay; 0 is all")
        .within(0, ITERATIONS_MAX),
    Flag::new("block", ValueKind::SizeBytes, "64KiB", "Bytes of a block").within(8, 1 << 30),
    Flag::new("threads", ValueKind::Int64, "2", "Clients that serve requests in turn")
        .within(1, THREADS_MAX),
    settings::CLUSTER,
    Flag::new("pool", ValueKind::SizeBytes, "256MiB", "Memory of a cluster of its own")
        .within(8 << 20, BUFFER_BYTES_MAX),
    settings::ROUTE,
];

/// The command as its settings see it.
pub(super) const PROGRAM: Program = Program {
    name: "perigee bench trace",
    version: env!("CARGO_PKG_VERSION"),
    summary: "replay of a request trace: hit rate, bandwidth, latencies",
    variable_prefix: "PERIGEE_BENCH_TRACE_",
    words: &[],
    tables: &[("Trace", FLAGS), ("Output", settings::OUTPUT)],
};

/// Examples of the help text.
pub(super) const EXAMPLES: &[&str] = &[
    "perigee bench trace --trace conversation_trace.jsonl",
    "perigee bench trace --trace toolagent_trace.jsonl --requests 1000 --block 1MiB",
    "perigee bench trace --trace t.jsonl --master 10.0.0.1:50051 --threads 8",
];

/// The settings of one run.
#[derive(Debug, Clone)]
pub(super) struct TraceSettings {
    pub(super) trace: String,
    pub(super) requests: usize,
    pub(super) block_bytes: u64,
    pub(super) threads: usize,
    pub(super) master: String,
    pub(super) pool_bytes: u64,
    pub(super) route: Route,
}

impl TraceSettings {
    /// Of the values of the flags.
    pub(super) fn of(settings: &Settings) -> Result<Self, BenchError> {
        if settings.text("trace").is_empty() {
            return Err(BenchError::conflict(
                "No trace; pass --trace FILE.jsonl: one object per line with hash_ids, the numbers of the \
                 prompt's blocks",
            ));
        }
        let read = Self {
            trace: settings.text("trace").to_owned(),
            requests: settings.integer("requests"),
            block_bytes: settings.integer("block"),
            threads: settings.integer("threads"),
            master: settings.text("master").to_owned(),
            pool_bytes: settings.integer("pool"),
            route: settings::route(settings),
        };
        read.check()?;
        Ok(read)
    }

    fn check(&self) -> Result<(), BenchError> {
        if !self.master.is_empty() || self.block_bytes <= self.pool_bytes {
            return Ok(());
        }
        let block = bytes_text(self.block_bytes);
        Err(BenchError::conflict(format!(
            "No block of {block} fits a pool of {}; pass --pool {} or more, or a smaller --block",
            bytes_text(self.pool_bytes),
            block.replace(' ', "")
        )))
    }
}

#[cfg(test)]
mod tests {
    use perigee_flags::{ProcessEnvironment, ProgramStart};

    use super::*;

    fn load(words: &[&str]) -> Result<TraceSettings, BenchError> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        match PROGRAM.load(&words, &ProcessEnvironment::of(&[]))? {
            ProgramStart::Run(settings) => TraceSettings::of(&settings),
            ProgramStart::Print(text) => panic!("{text}"),
        }
    }

    #[test]
    fn a_block_that_no_pool_of_our_own_can_hold_is_refused() {
        let error = load(&["--trace=t", "--block=1GiB"]).unwrap_err();
        assert!(error.to_string().contains("--pool 1GiB"), "{error}");
        assert_eq!(error.exit_code(), 2);
        assert!(load(&["--trace=t", "--block=1GiB", "--pool=1GiB"]).is_ok());
        assert!(load(&["--trace=t", "--block=1GiB", "--master=a:1"]).is_ok());
    }
}
