//! What the fixed master knows of keys.

use crate::key_report::{KeyReport, ReportedDeparture};

/// What it knows of any key: that it went, on the shard of its length.
pub(super) fn report(key: &str) -> KeyReport {
    KeyReport {
        shard: key.len(),
        object: None,
        unfinished_puts: 0,
        departures: vec![ReportedDeparture {
            ago_ms: 5,
            cause: "removed".into(),
            reason: "its key was removed".into(),
            medium: "memory".into(),
            payload_bytes: 7,
            idle_ms: 6,
            was_read: true,
            replicas_left: 0,
            no_copy: None,
        }],
        departures_reach_ms: None,
    }
}
