//! Segments with how full they are, summed over the shards.

use super::control_shard::ControlShard;
use perigee_master::{Registry, SegmentSpec};
use perigee_shard::Environment;
use std::collections::HashMap;
use std::sync::Arc;

/// One mounted segment and its use.
#[derive(Clone, Debug)]
pub(crate) struct SegmentUsage {
    pub(crate) spec: Arc<SegmentSpec>,
    /// Mooncake's segment status.
    pub(crate) state: u8,
    pub(crate) allocated_bytes: u64,
    pub(crate) largest_free_bytes: u64,
}

/// Use of a segment on one shard: allocated bytes and the longest free extent.
pub(crate) type Shares = HashMap<u32, (u64, u64)>;

impl<E: Environment> ControlShard<E> {
    /// Segments by name, or all if no name is given.
    pub(crate) async fn segment_uses(&self, names: Arc<[String]>) -> Vec<SegmentUsage> {
        let members = self.members().iter();
        let asked: Vec<_> = members
            .map(|member| {
                let (name, names) = (member.name, names.clone());
                self.environment.call(&member.mailbox, move |theirs| {
                    let shard = theirs.local(name)?;
                    Some((shard.listing(&names), shard.shares()))
                })
            })
            .collect();
        let mut listed = Vec::new();
        let mut shares = Vec::new();
        for answer in asked {
            if let Some((listing, share)) = answer.await.flatten() {
                listed.extend(listing);
                shares.push(share);
            }
        }
        combine(listed, &shares)
    }

    /// The segments of the registry; nothing on shards that keep none.
    pub(crate) fn listing(&self, names: &[String]) -> Vec<(u32, SegmentUsage)> {
        let wanted = |name: &str| names.is_empty() || names.iter().any(|wanted| wanted == name);
        let list = |registry: &Registry| {
            let views = registry.segments().filter(|view| wanted(&view.spec.name));
            views.map(|view| (view.index, unused(view.spec, view.state as u8))).collect()
        };
        self.registry.as_ref().map(|registry| list(&registry.borrow())).unwrap_or_default()
    }

    /// How full this shard's part of each segment is.
    pub(crate) fn shares(&self) -> Shares {
        let keys = self.keys.borrow();
        let share = |gauges: perigee_master::SegmentGauges| {
            (gauges.segment, (gauges.allocated_bytes, gauges.largest_free_bytes))
        };
        keys.segment_gauges().map(share).collect()
    }
}

/// Adds the shares of all shards to the listed segments.
pub(crate) fn combine(listed: Vec<(u32, SegmentUsage)>, shares: &[Shares]) -> Vec<SegmentUsage> {
    let add = |(index, mut segment): (u32, SegmentUsage)| {
        for (allocated, largest_free) in shares.iter().filter_map(|shares| shares.get(&index)) {
            segment.allocated_bytes += allocated;
            segment.largest_free_bytes = segment.largest_free_bytes.max(*largest_free);
        }
        segment
    };
    listed.into_iter().map(add).collect()
}

fn unused(spec: &Arc<SegmentSpec>, state: u8) -> SegmentUsage {
    SegmentUsage { spec: spec.clone(), state, allocated_bytes: 0, largest_free_bytes: 0 }
}
