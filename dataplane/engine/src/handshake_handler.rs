//! What this engine answers peers on its handshake port. Invariant: no answer waits for another
//! peer.

use crate::notify_inbox::NotifyInbox;
use crate::request::Notify;
use perigee_discovery::{ConnectionMessage, Directory, Handler, NotifyMessage, SegmentDocument};
use std::sync::Arc;

/// The handler of the handshake server.
#[derive(Debug)]
pub(crate) struct HandshakeHandler {
    pub(crate) directory: Directory,
    pub(crate) inbox: Arc<NotifyInbox>,
}

impl Handler for HandshakeHandler {
    /// Engines of Perigee join queue pairs on the data port, under a lease; those of Mooncake,
    /// which know no leases, are served over TCP.
    fn connection(&self, _: ConnectionMessage) -> Result<ConnectionMessage, String> {
        Err("this engine joins queue pairs on its data port only; use tcp, or an engine of Perigee"
            .to_owned())
    }

    fn metadata(&self, _: Option<SegmentDocument>) -> Option<SegmentDocument> {
        self.directory.own().map(|document| (*document).clone())
    }

    fn notify(&self, message: NotifyMessage) -> Result<(), String> {
        self.inbox.put(Notify { name: message.name, message: message.message })
    }
}
