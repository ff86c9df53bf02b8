//! Shows what the NICs, disks and shards of a host do.
//!
//! [`Collector`] reads: counters of the kernel and of RDMA ports (no privilege), activity pages of
//! our processes (no privilege), eBPF probes (where allowed). [`Agent`] serves what it read as
//! metrics, JSON and a page. The invariant: a number that was served once never falls, whatever is
//! restarted; what is missing is named with its reason.
#![forbid(unsafe_code)]

mod agent;
mod board;
mod collector;
mod config;
mod exemplars;
mod explain;
mod histogram;
mod host;
mod ledger;
mod limits;
mod metrics;
mod options;
mod otlp;
mod persisted;
mod recorder;
mod reporter;
mod slow;
mod snapshot;
mod traces;
mod web;

pub use agent::{Agent, AgentError};
pub use collector::Collector;
pub use config::{AGENT, AgentConfig, AgentStart, OutputFormat};
pub use explain::{SourceState, explain_text};
pub use histogram::Distribution;
pub use options::AgentOptions;
pub use otlp::OtlpTarget;
pub use perigee_probe_loader::is_built as has_probes;
pub use snapshot::{
    BatchSeries, BlockSeries, DiskSeries, DropSeries, FlowSeries, LinkSeries, NicSeries,
    PastSuspect, ProbeSeries, ProcessSeries, ProgramSeries, SlowBatchEntry, Snapshot, Suspect,
    SuspectCause, SuspectKind, TaskSeries, TcpSeries, UringSeries,
};
pub use traces::{SpanEntry, TraceAnswer};
