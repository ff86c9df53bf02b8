//! What this engine answers peers on its handshake port.
//! Invariant: no answer waits for another peer; joining queue pairs waits for seconds at most.

use crate::inbox::Inbox;
use crate::rdma::Rdma;
use crate::request::Notify;
use perigee_discovery::{ConnectionMessage, Directory, Handler, NotifyMessage, SegmentDocument};
use std::sync::Arc;

/// The handler of the handshake server.
#[derive(Debug)]
pub(crate) struct Desk {
    directory: Directory,
    inbox: Arc<Inbox>,
    rdma: Option<Arc<Rdma>>,
}

impl Desk {
    pub(crate) fn new(directory: &Directory, inbox: &Arc<Inbox>, rdma: Option<&Arc<Rdma>>) -> Self {
        Self {
            directory: directory.clone(),
            inbox: inbox.clone(),
            rdma: rdma.cloned(),
        }
    }
}

impl Handler for Desk {
    fn connection(&self, message: ConnectionMessage) -> Result<ConnectionMessage, String> {
        match &self.rdma {
            Some(rdma) => rdma.accept(&message),
            None => Err("this engine uses no RDMA devices; use tcp".to_owned()),
        }
    }

    fn metadata(&self, _: Option<SegmentDocument>) -> Option<SegmentDocument> {
        self.directory.own().map(|document| (*document).clone())
    }

    fn notify(&self, message: NotifyMessage) -> Result<(), String> {
        self.inbox.put(Notify {
            name: message.name,
            message: message.message,
        })
    }
}
