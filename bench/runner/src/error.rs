//! Why a benchmark could not be taken.
//! Invariant: a benchmark that met a wrong or missing answer ends with an error, never with a figure.

use perigee_rpc::CallError;
use perigee_schemas::Status;

/// Why a benchmark could not be taken.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// Memory is not to be had.
    #[error("Memory: {0}")]
    Memory(#[from] perigee_memory::segment::SegmentError),
    /// The master of this process does not start.
    #[error("Master: {0}")]
    Cluster(String),
    /// A client does not open.
    #[error("Store: {0}")]
    Store(#[from] perigee_store::StoreError),
    /// A call to a master failed.
    #[error("Call: {0}")]
    Call(#[from] CallError),
    /// A key had another outcome than expected.
    #[error("{call} of {key} ended with {status:?}; the figure would be worthless")]
    Outcome {
        /// The call.
        call: &'static str,
        /// The key.
        key: String,
        /// What came.
        status: Status,
    },
    /// Bytes that were read are not those that were written.
    #[error("{key} came back with wrong bytes")]
    Corrupt {
        /// The key.
        key: String,
    },
    /// A program cannot be started or talked to.
    #[error("{program}: {detail}")]
    Program {
        /// The program.
        program: String,
        /// What happened, and what to do.
        detail: String,
    },
    /// The machine was never quiet.
    #[error(
        "Only {kept} of {wanted} rounds were quiet enough ({why}); stop other work on this machine, or pass --any-noise"
    )]
    Noise {
        /// Rounds kept.
        kept: usize,
        /// Rounds wanted.
        wanted: usize,
        /// Why the last one was dropped.
        why: String,
    },
    /// The system refused something.
    #[error("System: {0}")]
    Io(#[from] std::io::Error),
}

impl BenchError {
    /// A trouble with a program.
    pub fn program(program: &str, detail: impl std::fmt::Display) -> Self {
        Self::Program {
            program: program.to_owned(),
            detail: detail.to_string(),
        }
    }
}
