//! The metric catalogue, the cells that hold the numbers, and the Prometheus text exporter.
//!
//! Invariant: a number is served only under a name of the catalogue, and every name of the
//! catalogue is served (0 when nothing feeds it), so dashboards can be checked against one table.
#![forbid(unsafe_code)]

pub mod catalogue;
pub mod cell;
pub mod client;
pub mod disk;
mod document;
mod exemplar;
pub mod exposition;
pub mod family;
pub mod limits;
pub mod master;
mod rpc_kind;
mod traffic;

pub use cell::{Counter, Gauge, Histogram, HistogramTotals};
pub use client::{ClientCall, ClientCells};
pub use disk::{DiskNumbers, DiskTimes};
pub use document::catalogue_markdown;
pub use exemplar::{BucketExemplars, Exemplar};
pub use exposition::{Samples, SummaryTotals};
pub use family::{Buckets, Family, MetricKind, MetricSource, Stability};
pub use master::{
    BuildInfo, CallTotals, MasterCells, MasterNumbers, SegmentNumbers, TenantNumbers,
};
pub use rpc_kind::RpcKind;
pub use traffic::{TrafficCells, TrafficReport, TrafficTotals};
