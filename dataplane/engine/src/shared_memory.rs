//! The route of peers on this host: memory that the owner handed out is mapped here and copied into and out of directly.
//!
//! Only whole registered segments are handed out (`perigee_memory::shared`), so a mapping reaches exactly what was
//! registered. The invariant: before a copy begins the owner was seen alive and has not taken its segments back, and it
//! gives memory up only when no guest is still copying.

mod copiers;
mod copy_route;

pub(crate) use copiers::Copiers;
pub(crate) use copy_route::CopyRoute;

use crate::registry::Registry;
use perigee_discovery::Extra;
use perigee_memory::Segment;
use perigee_memory::shared::{Guest, Owner, OwnerMemory, SegmentSource, host_id};
use perigee_schemas::Identity;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// Name of the document's field that tells where segments are handed out.
const FIELD: &str = "shared_memory";

/// Hands out the registered segments of an engine.
pub(crate) fn owner(identity: Identity, registry: Arc<Registry>) -> Owner {
    Owner::new(format!("perigee-engine-{identity}"), registry)
}

/// Writes into a document where an owner hands out its segments: only processes of the same kernel can come.
pub(crate) fn advertise(owner: &Owner, extra: &mut Extra) {
    let host = host_id();
    if !host.is_empty() {
        let value = json!({"host": host, "socket": owner.socket()});
        extra.unknown.insert(FIELD.to_owned(), value);
    }
}

impl SegmentSource for Registry {
    /// Segments by first address: no buffer begins at 0.
    fn segments(&self) -> Vec<(u128, Arc<Segment>)> {
        let number = |(address, segment)| (u128::from(address), segment);
        self.shared().into_iter().map(number).collect()
    }
}

/// A peer on this host that hands out its segments.
#[derive(Debug)]
pub(crate) struct LocalPeer {
    socket: String,
    guest: Arc<Guest>,
}

impl LocalPeer {
    /// The peer of a document, if it is on this host and hands out segments.
    pub(crate) fn of(extra: &Extra, guest: &Arc<Guest>) -> Option<Self> {
        let field = extra.unknown.get(FIELD)?;
        let text = |name: &str| field.get(name).and_then(Value::as_str);
        let (host, socket) = (text("host")?, text("socket")?);
        (!host.is_empty() && host == host_id()).then(|| Self {
            socket: socket.to_owned(),
            guest: guest.clone(),
        })
    }

    /// The peer's memory, if it lives and all of its ranges were handed out. Asks the peer if that was not done, for at most
    /// `limit`.
    pub(crate) fn reach(
        &self,
        ranges: impl Iterator<Item = (u64, u64)> + Clone,
        limit: Duration,
    ) -> Option<Arc<OwnerMemory>> {
        let has_all = |memory: &OwnerMemory| {
            let has = |(address, bytes)| range(memory, address, bytes).is_some();
            memory.is_alive() && ranges.clone().all(has)
        };
        self.guest.find(&self.socket, limit, has_all)
    }

    /// Drops the mappings.
    pub(crate) fn close(&self) {
        self.guest.leave(&self.socket);
    }
}

/// The local address of a range of a peer, if it lies in one segment.
fn range(memory: &OwnerMemory, address: u64, bytes: u64) -> Option<*mut u8> {
    memory.segments().find_map(|(first, mapping)| {
        let offset = address.checked_sub(u64::try_from(first).ok()?)?;
        mapping.range_mut(offset, bytes)
    })
}
