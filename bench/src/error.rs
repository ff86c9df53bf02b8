//! Why a benchmark could not be taken.
//! Invariant: a benchmark that met a wrong or missing answer ends with an error, never with a
//! figure.

use perigee_engine::{EngineError, PeerError};
use perigee_flags::FlagError;
use perigee_rpc::CallError;
use perigee_schemas::Status;
use perigee_topology::TopologyError;

/// Exit code of a run that a signal ended before its time.
const INTERRUPTED_EXIT: u8 = 130;

/// Why a benchmark could not be taken.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// A setting is wrong.
    #[error(transparent)]
    Settings(#[from] FlagError),
    /// Devices were named wrongly.
    #[error(transparent)]
    Topology(#[from] TopologyError),
    /// Memory cannot be allocated.
    #[error("Memory: {0}")]
    Memory(#[from] perigee_memory::segment::SegmentError),
    /// The master of this process does not start.
    #[error("Master: {0}")]
    Cluster(String),
    /// A client does not open.
    #[error("Store: {0}")]
    Store(#[from] perigee_store::StoreError),
    /// The transfer engine refused or failed.
    #[error("{}{}", .0, advice(.0))]
    Engine(#[from] EngineError),
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
    /// A cluster does not hold what a run stores.
    #[error(
        "{call} of {key} ended with {status:?}: this cluster does not hold {pool} beside what it has; pass a smaller \
         --pool"
    )]
    NoRoom {
        /// The call.
        call: &'static str,
        /// The key.
        key: String,
        /// What came.
        status: Status,
        /// Bytes that the run keeps stored.
        pool: String,
    },
    /// Bytes that were read are not those that were written.
    #[error("{key} came back with wrong bytes")]
    Corrupt {
        /// The key, or the place.
        key: String,
    },
    /// No block of a trace was stored or read.
    #[error("None of {blocks} blocks was stored or read; the first refusal: {status}")]
    NothingStored {
        /// Blocks of all requests.
        blocks: u64,
        /// What the cluster said of the first of them.
        status: Status,
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
        kept: u32,
        /// Rounds wanted.
        wanted: u32,
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
        Self::Program { program: program.to_owned(), detail: detail.to_string() }
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
            Self::Store(error) => documented(error.status()),
            Self::Engine(error) => documented(error.status()),
            Self::Call(error) => documented(error.status()),
            Self::Outcome { status, .. } | Self::NothingStored { status, .. } => {
                documented(*status)
            }
            Self::NoRoom { .. } => documented(Status::NoAvailableHandle),
            Self::Program { .. } | Self::Cluster(_) => Status::RpcFail.exit(),
            Self::Noise { .. } => Status::RpcTimeout.exit(),
            Self::Interrupted => INTERRUPTED_EXIT,
            Self::Memory(_) | Self::Corrupt { .. } | Self::LoadThread | Self::Io(_) => {
                Status::InternalError.exit()
            }
        }
    }
}

/// What to look at after a failure of the engine; begins with a semicolon, or is empty.
fn advice(error: &EngineError) -> &'static str {
    match error {
        EngineError::Peer(PeerError::Deadline { .. })
        | EngineError::Peer(PeerError::Broken { .. } | PeerError::Vanished { .. }) => {
            "; is the target still running?"
        }
        EngineError::Peer(PeerError::Unreachable { .. }) => "; is the target running?",
        EngineError::Resolve { .. } => "; pass the name that the target printed",
        EngineError::RemoteAddress { .. } => "; give both ends buffers of one size",
        _ => "",
    }
}

/// The exit code of a status, of those that the help text names.
fn documented(status: Status) -> u8 {
    match status {
        Status::InvalidParams => perigee_flags::USAGE_EXIT_CODE,
        // The other end went away while bytes were on their way.
        Status::TransferFail => Status::RpcFail.exit(),
        _ => match status.exit() {
            code @ (69 | 75 | 76) => code,
            _ => Status::InternalError.exit(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer() -> String {
        "10.0.0.1:1".to_owned()
    }

    #[test]
    fn every_status_has_a_code_of_the_help_text() {
        for status in Status::ALL.iter().filter(|status| **status != Status::Ok) {
            let code = documented(*status);
            assert!([2, 69, 70, 75, 76].contains(&code), "{status}: {code}");
        }
    }

    #[test]
    fn failures_of_the_engine_say_why_and_end_with_the_code_of_their_kind() {
        let deadline = std::time::Duration::from_secs(3);
        let out_of_bounds = EngineError::RemoteAddress { peer: peer(), address: 1, bytes: 2 };
        for (error, code, part) in [
            (
                EngineError::Peer(PeerError::Deadline { peer: peer(), deadline }),
                75,
                "within 3s; is the target",
            ),
            (out_of_bounds, 2, "buffers of one size"),
            (
                EngineError::Peer(PeerError::Broken { peer: peer(), reason: "reset".to_owned() }),
                69,
                "reset; is",
            ),
            (EngineError::Resolve { peer: peer(), reason: "no".to_owned() }, 2, "printed"),
            (EngineError::Peer(PeerError::Damaged { peer: peer() }), 70, "damaged"),
        ] {
            let error = BenchError::from(error);
            let text = error.to_string();
            assert_eq!(error.exit_code(), code, "{text}");
            assert!(text.contains(part) && text.contains("10.0.0.1:1"), "{text}");
        }
    }
}
