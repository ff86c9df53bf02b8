//! Victims of one call: the order of eviction changes little within it, so all lists are looked at
//! once for many victims.
//! Invariant: a run ends with its call.

use crate::list_name::ListName;
use crate::tenant::TenantLane;

/// The list that has the next victim, and the one that has the victim after all of its.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LeastLists {
    pub(crate) list: ListName,
    pub(crate) second: Option<ListName>,
}

/// Where the next victims of a lane are within a call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct VictimRun {
    pub(crate) call: u64,
    pub(crate) lane: TenantLane,
    pub(crate) lists: LeastLists,
    /// What was probed goes like the rest.
    pub(crate) break_probes: bool,
}
