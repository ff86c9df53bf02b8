//! Victims of one call: the order of eviction changes little within it, so all lists are looked at
//! once for many victims.
//! Invariant: a run ends with its call, so no lease ends within it. What it gives may go, and is
//! least in the two lists that were least at its begin.

use crate::tenant::TenantLane;

use super::KeyShard;
use super::victim::{EvictionReason, LeastLists, Victim};

/// Where the next victims of a lane are within a call.
#[derive(Debug, Clone, Copy)]
pub(super) struct VictimRun {
    call: u64,
    lane: TenantLane,
    lists: LeastLists,
}

impl KeyShard {
    /// Notes which lists of a lane have the next victims of this call.
    pub(super) fn begin_run(&mut self, lane: TenantLane, least: Option<(Victim, LeastLists)>) {
        self.victims = least.map(|(_, lists)| VictimRun { call: self.calls, lane, lists });
    }

    /// The next victim of a lane for a put, if it is known without a look at all lists.
    pub(super) fn next_of_run(&self, lane: TenantLane, need: EvictionReason) -> Option<Victim> {
        let run = self.victims?;
        if !need.is_put() || (run.call, run.lane) != (self.calls, lane) {
            return None;
        }
        let lists = self.replicas.lists(lane)?;
        let least = |list| self.oldest_in(lists, list, u64::MAX, false);
        let victim = least(run.lists.list)?;
        let goes_first = match run.lists.second {
            None => true,
            Some(second) => victim < least(second)?,
        };
        goes_first.then_some(victim)
    }
}
