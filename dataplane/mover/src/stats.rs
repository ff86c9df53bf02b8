//! What was moved, by route and NIC: cells for reports, and the activity page that the agent of
//! this host reads.
//! Invariant: an exchange is counted once, where it ends, before its slice reports.

pub(crate) mod activity;
mod counter_table;
mod counters;
pub(crate) mod exchanged;

pub use activity::record_copy;
pub(crate) use activity::{CountedExchange, Served, record_unreachable};
pub use counter_table::CounterTable;
pub use counters::{Moved, RouteCounters, UnderWay};
pub use exchanged::Exchanged;
