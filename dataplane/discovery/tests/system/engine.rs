//! An engine reduced to its discovery: a handshake server and entries in a directory.
//! Invariant: it answers the handshake with the document it published.

use perigee_discovery::{
    ConnectionMessage, Directory, DiscoveryError, DiscoverySettings, Extra, Handler,
    HandshakeServer, NotifyMessage, RpcMeta, SegmentDocument, new_epoch,
};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Settings with a short life of entries, on loopback only.
pub(crate) fn settings() -> DiscoverySettings {
    DiscoverySettings {
        entry_life: Duration::from_secs(3),
        bind_address: Some([127, 0, 0, 1].into()),
        ..DiscoverySettings::default()
    }
}

/// A directory at `address`.
pub(crate) fn directory(address: &str) -> Directory {
    Directory::open(address, settings()).unwrap()
}

/// Answers with what the directory published; remembers what peers sent.
#[derive(Debug)]
pub(crate) struct Answers {
    directory: Directory,
    pub(crate) notifies: Mutex<Vec<NotifyMessage>>,
    pub(crate) peers: Mutex<Vec<SegmentDocument>>,
}

impl Answers {
    pub(crate) fn new(directory: Directory) -> Self {
        Self { directory, notifies: Mutex::default(), peers: Mutex::default() }
    }
}

impl Handler for Answers {
    fn connection(&self, message: ConnectionMessage) -> Result<ConnectionMessage, String> {
        if message.qp_num.is_empty() {
            return Err("no queue pairs".to_owned());
        }
        Ok(ConnectionMessage {
            local_nic_path: message.peer_nic_path,
            peer_nic_path: message.local_nic_path,
            qp_num: message.qp_num.iter().map(|number| number + 1).collect(),
            ..ConnectionMessage::default()
        })
    }

    fn metadata(&self, peer: Option<SegmentDocument>) -> Option<SegmentDocument> {
        self.peers.lock().unwrap().extend(peer);
        self.directory.own().map(|own| (*own).clone())
    }

    fn notify(&self, message: NotifyMessage) -> Result<(), String> {
        if message.name == "full" {
            return Err("queue is full".to_owned());
        }
        self.notifies.lock().unwrap().push(message);
        Ok(())
    }
}

#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) directory: Directory,
    pub(crate) server: HandshakeServer,
    pub(crate) document: SegmentDocument,
    pub(crate) answers: Arc<Answers>,
}

impl Engine {
    /// An engine registered under `name` at the metadata server `address`.
    pub(crate) fn start(address: &str, name: &str) -> Result<Self, DiscoveryError> {
        Self::start_with(address, name, settings())
    }

    /// As [`Engine::start`], with other settings.
    pub(crate) fn start_with(
        address: &str,
        name: &str,
        settings: DiscoverySettings,
    ) -> Result<Self, DiscoveryError> {
        let directory = Directory::open(address, settings.clone())?;
        let bound = HandshakeServer::bind(None, &settings)?;
        let name = match name {
            "" => format!("127.0.0.1:{}", bound.port()),
            name => name.to_owned(),
        };
        let mut document = SegmentDocument::new(&name, "tcp");
        document.perigee = Some(Extra::new(&new_epoch().unwrap()));
        let answers = Arc::new(Answers::new(directory.clone()));
        let server = bound.serve(Arc::clone(&answers) as _)?;
        let engine = Self { directory, server, document, answers };
        engine.directory.publish_rpc(&name, &engine.place())?;
        engine.directory.publish(&engine.document)?;
        Ok(engine)
    }

    pub(crate) fn place(&self) -> RpcMeta {
        let epoch = &self.document.perigee.as_ref().unwrap().epoch;
        RpcMeta::new("127.0.0.1", self.server.port()).of_life(epoch)
    }
}
