//! What was moved, by route and NIC: cells for reports, and the activity page that the agent of this host reads.
//! Invariant: an exchange is counted once, where it ends, before its slice reports.

mod activity;
mod counters;
mod ledger;

pub use activity::Exchanged;
pub use activity::record_copy;
pub(crate) use activity::{Exchange, Served, record_unreachable};
pub use counters::{Counters, Moved, Route, UnderWay};
pub use ledger::Ledger;
