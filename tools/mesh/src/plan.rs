//! How much a measurement costs.

use crate::limits::{PROBES_MAX, STREAMS_MAX, WHOLE_LOAD_MAX};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How much a measurement of one link costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkPlan {
    /// Milliseconds of load in each direction; 0 leaves the bandwidth out.
    pub load_ms: u32,
    /// Connections that carry it.
    pub streams: u32,
    /// Datagrams that look for loss; 0 sends none.
    pub probes: u32,
}

impl LinkPlan {
    /// Time of the load in one direction.
    pub(crate) fn load(&self) -> Duration {
        Duration::from_millis(u64::from(self.load_ms))
    }

    /// Why a server does not do this.
    pub(crate) fn refusal(&self) -> Option<String> {
        let longest = WHOLE_LOAD_MAX.as_millis();
        if u128::from(self.load_ms) > longest {
            return Some(format!("a load of at most {longest} ms is allowed"));
        }
        if !(1..=STREAMS_MAX).contains(&self.streams) {
            return Some(format!("1 to {STREAMS_MAX} streams are allowed"));
        }
        (self.probes > PROBES_MAX).then(|| format!("at most {PROBES_MAX} datagrams are allowed"))
    }
}
