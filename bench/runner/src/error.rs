//! Why a benchmark could not be taken.
//! Invariant: a benchmark that met a wrong or missing answer ends with an error, never with a figure.

use perigee_engine::EngineError;
use perigee_flags::FlagError;
use perigee_rpc::CallError;
use perigee_schemas::Status;
use perigee_topology::TopologyError;

/// Exit code of a run that a signal ended before its time.
pub const INTERRUPTED_EXIT: u8 = 130;

/// Why a benchmark could not be taken.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// A setting is wrong.
    #[error(transparent)]
    Settings(#[from] FlagError),
    /// Devices were named wrongly.
    #[error(transparent)]
    Topology(#[from] TopologyError),
    /// Memory is not to be had.
    #[error("Memory: {0}")]
    Memory(#[from] perigee_memory::segment::SegmentError),
    /// The master of this process does not start.
    #[error("Master: {0}")]
    Cluster(String),
    /// A client does not open.
    #[error("Store: {0}")]
    Store(#[from] perigee_store::StoreError),
    /// The transfer engine refused or failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A transfer did not end well.
    #[error("Transfer with {peer} ended as {state}{detail}; is the target still running?")]
    Transfer {
        /// The target.
        peer: String,
        /// How it ended.
        state: String,
        /// What asking the target gave, after a colon; may be empty.
        detail: String,
    },
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
        /// The key, or the place.
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
    /// A file that should be a report is none, or does not go with the other.
    #[error("{file}: {detail}")]
    Report {
        /// The file as it was named.
        file: String,
        /// What is wrong, and what to do.
        detail: String,
    },
    /// A line of a trace cannot be used.
    #[error("{file}:{line}: {detail}")]
    Trace {
        /// The file as it was named.
        file: String,
        /// Line, counted from 1.
        line: usize,
        /// What is wrong with it.
        detail: String,
    },
    /// A thread of the load ended with a panic, which is a defect.
    #[error("A thread of the load ended before its time; this is a defect of the program")]
    LoadThread,
    /// A signal ended the run.
    #[error("Interrupted; rows taken so far are shown")]
    Interrupted,
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

    /// Settings that do not go together.
    pub fn conflict(text: impl Into<String>) -> Self {
        Self::Settings(FlagError::Conflict(text.into()))
    }

    /// Exit code of the program.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Settings(error) => error.exit_code(),
            Self::Report { .. } | Self::Trace { .. } | Self::Topology(_) => {
                perigee_flags::USAGE_EXIT_CODE
            }
            Self::Store(error) => error.status().exit(),
            Self::Engine(error) => error.status().exit(),
            Self::Call(error) => error.status().exit(),
            Self::Outcome { status, .. } => status.exit(),
            Self::Program { .. } | Self::Cluster(_) | Self::Transfer { .. } => {
                Status::RpcFail.exit()
            }
            Self::Noise { .. } => Status::RpcTimeout.exit(),
            Self::Interrupted => INTERRUPTED_EXIT,
            Self::Memory(_) | Self::Corrupt { .. } | Self::LoadThread | Self::Io(_) => {
                Status::InternalError.exit()
            }
        }
    }
}
