//! A peer on this host: where it hands out its segments, and which of its addresses are mapped
//! here.
//! Invariant: an address is found only inside a segment that the peer handed out.

use perigee_discovery::Extra;
use perigee_memory::shared::{Guest, OwnerMemory, host_id};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

/// Name of the document's field that tells where segments are handed out.
pub(crate) const FIELD: &str = "shared_memory";

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
        (!host.is_empty() && host == host_id())
            .then(|| Self { socket: socket.to_owned(), guest: guest.clone() })
    }

    /// The peer's memory, if it lives and all of its ranges were handed out. Asks the peer if that
    /// was not done, for at most `limit`.
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
pub(crate) fn range(memory: &OwnerMemory, address: u64, bytes: u64) -> Option<*mut u8> {
    memory.segments().find_map(|(first, mapping)| {
        let offset = address.checked_sub(u64::try_from(first).ok()?)?;
        mapping.range_mut(offset, bytes)
    })
}
