//! Why the program ends without success. Invariant: every failure has one exit code, and the same
//! status has the same code wherever it comes from.

use perigee_agent::AgentError;
use perigee_bench::BenchError;
use perigee_flags::FlagError;
use perigee_http::HttpStartError;
use perigee_mesh::BaselineError;
use perigee_node::{DrainError, NodeError};
use perigee_rpc::CallError;
use perigee_schemas::Status;
use perigee_service::DaemonError;
use perigee_topology::TopologyError;
use std::net::SocketAddr;

/// Why the program ends without success.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// Nothing was asked for.
    #[error("No command; perigee --help lists them")]
    NoCommand,
    /// The first word is no command.
    #[error("Unknown command `{written}`{} perigee --help lists all", hint(.suggestion))]
    UnknownCommand {
        /// The word, shortened.
        written: String,
        /// The closest command.
        suggestion: Option<&'static str>,
    },
    /// A setting is wrong.
    #[error(transparent)]
    Settings(#[from] FlagError),
    /// The master could not start.
    #[error(transparent)]
    Master(#[from] DaemonError),
    /// The agent could not start.
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// An agent was asked and did not answer.
    #[error(
        "The agent at {address} does not answer: {reason}; start `perigee agent` there, or leave \
         --agent out to read this host without one"
    )]
    NoAgent {
        /// What `--agent` says.
        address: String,
        /// What went wrong.
        reason: String,
    },
    /// Agents were asked for requests and none answered.
    #[error(
        "No agent answers: {reason}; start `perigee agent` on this host, or ask others with \
         --agent=HOST or --cluster=MASTER"
    )]
    NoAgentForTrace {
        /// What went wrong with each.
        reason: String,
    },
    /// A master was asked for the verdict on its cluster.
    #[error(
        "The master at {address} gives no verdict: {reason}; --cluster wants its HTTP port, which \
         --metrics_port sets (9003)"
    )]
    NoVerdict {
        /// What `--cluster` says.
        address: String,
        /// What went wrong.
        reason: String,
    },
    /// A master was asked about a key.
    #[error(
        "The master at {address} says nothing of the key: {reason}; --master_server_address and \
         --metrics_port (9003) say where it is"
    )]
    NoKeyReport {
        /// Where its HTTP port is.
        address: String,
        /// What went wrong.
        reason: String,
    },
    /// Agents were asked for a request.
    #[error(
        "{} no {what}: kept are calls under a sampled traceparent, the slowest of each second, \
         and slow ones, from an agent's start on, each under the first of its keys (perigee trace \
         lists the latest); ask other hosts with --agent=HOST or --cluster=MASTER",
        if *agents == 1 { "1 agent has".to_owned() } else { format!("{agents} agents have") }
    )]
    NoTrace {
        /// What is missing.
        what: String,
        /// How many answered.
        agents: usize,
    },
    /// Of a request only servers' parts were found.
    #[error(
        "Only servers have spans of this request, not the program that made the call: it had no \
         agent on its host, its agent was not asked (--agent=HOST, --cluster=MASTER), or the span \
         was lost"
    )]
    NoCall,
    /// The node could not start.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// An HTTP service could not start.
    #[error(transparent)]
    Http(#[from] HttpStartError),
    /// The master was asked and did not answer.
    #[error(transparent)]
    Call(#[from] CallError),
    /// Segments could not be emptied.
    #[error(transparent)]
    Drain(#[from] DrainError),
    /// Devices, or a document about them, are not what they should be.
    #[error(transparent)]
    Topology(#[from] TopologyError),
    /// A bench tool failed; what it had found is printed.
    #[error(transparent)]
    Bench(#[from] BenchError),
    /// Nothing to measure.
    #[error(
        "No hosts; write perigee check HOST HOST ..., or --master=HOST:PORT, and run perigee check --serve on each host"
    )]
    NoHosts,
    /// What links showed before is of no use.
    #[error(transparent)]
    Baseline(#[from] BaselineError),
    /// A bundle could not be written.
    #[error("Cannot write the bundle {path}: {cause}; choose another place with --output=FILE")]
    NoBundle {
        /// Where.
        path: String,
        /// Why.
        cause: std::io::Error,
    },
    /// Others cannot measure this host.
    #[error("Cannot listen on {listen}: {cause}; choose another --host or --port")]
    NoServer {
        /// Where.
        listen: SocketAddr,
        /// Why.
        cause: std::io::Error,
    },
    /// What is wrong stands in the report on standard output; this is the exit code.
    #[error("The report names what is wrong")]
    Reported(u8),
    /// The system refused something.
    #[error("The system refused: {0}")]
    System(#[from] std::io::Error),
}

/// Exit code when what was asked for is not there.
const EXIT_NOT_FOUND: u8 = 1;

impl Failure {
    /// The exit code of the program.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::NoCommand | Self::UnknownCommand { .. } => Status::InvalidParams.exit(),
            Self::Settings(error) => error.exit_code(),
            Self::Master(error) => error.exit_code(),
            Self::Node(error) => error.exit_code(),
            Self::Agent(_)
            | Self::NoAgent { .. }
            | Self::NoAgentForTrace { .. }
            | Self::NoKeyReport { .. }
            | Self::NoVerdict { .. }
            | Self::NoServer { .. }
            | Self::Http(_) => Status::RpcFail.exit(),
            Self::NoTrace { .. } | Self::NoCall => EXIT_NOT_FOUND,
            Self::Call(error) => error.status().exit(),
            Self::Drain(error) => error.status().exit(),
            Self::Topology(_) | Self::NoHosts | Self::Baseline(_) | Self::NoBundle { .. } => {
                perigee_flags::USAGE_EXIT_CODE
            }
            Self::Bench(error) => error.exit_code(),
            Self::Reported(code) => *code,
            Self::System(_) => Status::InternalError.exit(),
        }
    }
}

fn hint(suggestion: &Option<&'static str>) -> String {
    suggestion.map_or_else(|| ";".to_owned(), |name| format!("; did you mean `{name}`?"))
}
