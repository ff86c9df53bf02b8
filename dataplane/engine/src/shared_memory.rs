//! The route of peers on this host: memory that the owner handed out is mapped here and copied into
//! and out of directly.
//!
//! Only whole registered segments are handed out (`perigee_memory::shared`), so a mapping reaches
//! exactly what was registered. The invariant: before a copy begins the owner was seen alive and
//! has not taken its segments back, and it gives memory up only when no guest is still copying.

mod copiers;
mod copy_route;
pub(crate) mod local_peer;

pub(crate) use copiers::Copiers;
pub(crate) use copy_route::CopyRoute;

use crate::registry::MemoryRegistry;
use local_peer::FIELD;
use perigee_discovery::Extra;
use perigee_memory::Segment;
use perigee_memory::shared::{Owner, SegmentSource, host_id};
use perigee_schemas::Identity;
use serde_json::json;
use std::sync::Arc;

/// Hands out the registered segments of an engine.
pub(crate) fn owner(identity: Identity, registry: Arc<MemoryRegistry>) -> Owner {
    Owner::new(format!("perigee-engine-{identity}"), registry)
}

/// Writes into a document where an owner hands out its segments: only processes of the same kernel
/// can come.
pub(crate) fn advertise(owner: &Owner, extra: &mut Extra) {
    let host = host_id();
    if !host.is_empty() {
        let value = json!({"host": host, "socket": owner.socket()});
        extra.unknown.insert(FIELD.to_owned(), value);
    }
}

impl SegmentSource for MemoryRegistry {
    /// Segments by first address: no buffer begins at 0.
    fn segments(&self) -> Vec<(u128, Arc<Segment>)> {
        let number = |(address, segment)| (u128::from(address), segment);
        self.shared().into_iter().map(number).collect()
    }
}
