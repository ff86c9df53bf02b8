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
    call: u64,
    lane: TenantLane,
    lists: LeastLists,
}

impl VictimRun {
    pub(crate) fn begin(call: u64, lane: TenantLane, lists: LeastLists) -> Self {
        Self { call, lane, lists }
    }

    /// Its lists, if this is its call and its lane.
    pub(crate) fn lists(&self, call: u64, lane: TenantLane) -> Option<LeastLists> {
        (self.call == call && self.lane == lane).then_some(self.lists)
    }
}
