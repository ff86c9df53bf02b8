//! Where engines say what they offer and find what others offer.
//!
//! Invariant: an entry of this process lives only as long as the process: it goes when the
//! directory closes, and where the metadata server can, soon after the process died.

mod backend;
mod cache;
mod etcd;
mod gateway;
mod http;
mod name_claim;
mod own_document;
mod redis;
mod renewal;
mod server;
mod timed_mutex;
mod tls_files;
mod web;

use crate::address::{PEER_TO_PEER, split_peer};
use crate::document::{self, SegmentDocument};
use crate::error::DiscoveryError;
use crate::handshake::client::HandshakeClient;
use crate::message::RpcMeta;
use crate::settings::DiscoverySettings;
use cache::Cache;
use own_document::{OwnDocument, written};
use perigee_settings::SettingError;
use renewal::EntryRenewer;
use server::NamedBackend;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use own_document::Compose;

/// Documents of segments and places of engines. Cheap to clone, usable from any thread; the last
/// clone that is dropped closes it.
#[derive(Clone, Debug)]
pub struct Directory {
    inner: Arc<DirectoryState>,
}

#[derive(Debug)]
struct DirectoryState {
    settings: DiscoverySettings,
    handshake: HandshakeClient,
    /// Without one, peers are asked.
    renewer: Option<EntryRenewer>,
    cache: Cache,
    own: Arc<OwnDocument>,
}

impl Directory {
    /// Chooses the backend that `metadata_server` names; connects to nothing yet.
    ///
    /// # Errors
    /// The text names no backend, or one with an unusable address.
    pub fn open(
        metadata_server: &str,
        settings: DiscoverySettings,
    ) -> Result<Self, DiscoveryError> {
        let given = metadata_server.trim();
        let renewer = if given.eq_ignore_ascii_case(PEER_TO_PEER) {
            None
        } else {
            let server = NamedBackend::open(given, &settings)?;
            Some(EntryRenewer::new(server, settings.entry_life))
        };
        Ok(Self {
            inner: Arc::new(DirectoryState {
                handshake: HandshakeClient::new(&settings),
                cache: Cache::new(&settings),
                renewer,
                settings,
                own: Arc::default(),
            }),
        })
    }

    /// Peers are asked themselves, by names like `host:port`.
    pub fn is_peer_to_peer(&self) -> bool {
        self.inner.renewer.is_none()
    }

    /// Says where this engine's handshake is served. An engine that is gone loses its name to
    /// this one. In P2P mode there is nothing to say.
    ///
    /// # Errors
    /// A living engine has the name, the name is empty or too long, or the metadata server fails.
    pub fn publish_rpc(&self, name: &str, meta: &RpcMeta) -> Result<(), DiscoveryError> {
        let Some(renewer) = &self.inner.renewer else {
            return Ok(());
        };
        document::name("name", name).map_err(|error| unusable(name, error))?;
        let keys = self.keys(name);
        name_claim::take(renewer, &keys, name, meta, &self.inner.handshake)?;
        renewer.reclaim([&keys.rpc_meta, &keys.segment]);
        Ok(())
    }

    /// Takes who composes what this engine offers, for [`Directory::publish_newest`].
    ///
    /// # Errors
    /// The document breaks a limit.
    pub fn speak_for(&self, compose: Compose) -> Result<(), DiscoveryError> {
        let own = &self.inner.own;
        own.speak(compose)?;
        if let (Some(renewer), Some(name)) = (&self.inner.renewer, own.name()) {
            let own = own.clone();
            renewer.renew_with(&self.keys(name).segment, Box::new(move || own.compose()?.ok()));
        }
        Ok(())
    }

    /// Says what this engine offers now; again after each change. Of several calls at the same time
    /// the last one writes what is newest. In P2P mode it is composed when a peer asks for it.
    ///
    /// # Errors
    /// The engine offers no document, the document breaks a limit, another engine has taken the
    /// name, or the metadata server fails; in that case a later renewal writes the document as it
    /// is then.
    pub fn publish_newest(&self) -> Result<(), DiscoveryError> {
        let inner = &self.inner;
        inner.own.change();
        let Some(renewer) = &inner.renewer else {
            return Ok(());
        };
        let until = Instant::now() + inner.settings.call_deadline;
        let unspoken = || DiscoveryError::Closed;
        let key = self.keys(inner.own.name().ok_or_else(unspoken)?).segment;
        renewer.publish(&key, until, || inner.own.compose().ok_or_else(unspoken)?)
    }

    /// What this engine offers has changed once more after a publication of it that failed: it is
    /// composed again for the next reader, and written with the next renewal.
    pub fn publish_later(&self) {
        self.inner.own.change();
        if let Some(renewer) = &self.inner.renewer {
            renewer.renew_soon();
        }
    }

    /// Publishes a document that another component composed.
    ///
    /// # Errors
    /// As [`Directory::publish_newest`]; then the document published before remains.
    pub fn publish(&self, document: &SegmentDocument) -> Result<(), DiscoveryError> {
        let json = written(document)?;
        if let Some(renewer) = &self.inner.renewer {
            let until = Instant::now() + self.inner.settings.call_deadline;
            renewer.publish(&self.keys(&document.name).segment, until, || Ok(json))?;
        }
        self.inner.own.set(document.clone());
        Ok(())
    }

    /// Says what a client of a store offers, in the records that engines have. The name is not
    /// claimed, because the store's master settles who has it: the client that came last has the
    /// records. In P2P mode there is nothing to say.
    ///
    /// # Errors
    /// The metadata server fails.
    pub fn record(&self, meta: &RpcMeta, document: &SegmentDocument) -> Result<(), DiscoveryError> {
        let Some(renewer) = &self.inner.renewer else {
            return Ok(());
        };
        let keys = self.keys(&document.name);
        renewer.reclaim([&keys.rpc_meta, &keys.segment]);
        self.record_changed(meta, document)
    }

    /// Changes what [`Directory::record`] said.
    ///
    /// # Errors
    /// Another client has the records now, or the metadata server fails; in that case a later
    /// renewal writes the document as it is then, if the client still offers one.
    pub fn record_changed(
        &self,
        meta: &RpcMeta,
        document: &SegmentDocument,
    ) -> Result<(), DiscoveryError> {
        let Some(renewer) = &self.inner.renewer else {
            return Ok(());
        };
        let keys = self.keys(&document.name);
        let until = Instant::now() + self.inner.settings.call_deadline;
        renewer.publish(&keys.segment, until, || Ok(document.encode()))?;
        renewer.publish(&keys.rpc_meta, until, || Ok(meta.encode()))
    }

    /// What this engine offers.
    pub fn own(&self) -> Option<Arc<SegmentDocument>> {
        self.inner.own.document()
    }

    /// The document of a segment, from the cache if it may come from there.
    ///
    /// # Errors
    /// It is not registered, its engine or the metadata server does not answer, or what they answer
    /// is no document.
    pub fn segment(&self, name: &str) -> Result<Arc<SegmentDocument>, DiscoveryError> {
        self.segment_within(name, Duration::MAX)
    }

    /// As [`Directory::segment`], for a caller who waits no longer than `limit`.
    ///
    /// # Errors
    /// As [`Directory::segment`].
    pub fn segment_within(
        &self,
        name: &str,
        limit: Duration,
    ) -> Result<Arc<SegmentDocument>, DiscoveryError> {
        if let Some(own) = self.own().filter(|own| own.name == name) {
            return Ok(own);
        }
        if let Some(fresh) = self.inner.cache.fresh(name) {
            return Ok(fresh);
        }
        match self.reload_within(name, limit) {
            // An old document is better than none while the server is away; a name that is gone
            // is gone.
            Err(error) if !matches!(error, DiscoveryError::NotFound { .. }) => {
                self.inner.cache.any(name).ok_or(error)
            }
            other => other,
        }
    }

    /// The document of a segment as it is now, for example after a transfer failed.
    ///
    /// # Errors
    /// As [`Directory::segment`].
    pub fn reload(&self, name: &str) -> Result<Arc<SegmentDocument>, DiscoveryError> {
        self.reload_within(name, Duration::MAX)
    }

    /// As [`Directory::reload`], for a caller who waits no longer than `limit`.
    ///
    /// # Errors
    /// As [`Directory::segment`].
    pub fn reload_within(
        &self,
        name: &str,
        limit: Duration,
    ) -> Result<Arc<SegmentDocument>, DiscoveryError> {
        let fetched = match &self.inner.renewer {
            None => self.ask_peer(name, limit),
            Some(renewer) => self.fetch(renewer.server(), name, limit),
        };
        match fetched {
            Ok(document) => {
                let document = Arc::new(document);
                self.inner.cache.keep(name, &document);
                Ok(document)
            }
            Err(error) => {
                if matches!(error, DiscoveryError::NotFound { .. }) {
                    self.inner.cache.forget(name);
                }
                Err(error)
            }
        }
    }

    /// Drops a document from the cache.
    pub fn forget(&self, name: &str) {
        self.inner.cache.forget(name);
    }

    /// Where an engine's handshake is served. In P2P mode its name says it.
    ///
    /// # Errors
    /// The name is not registered, it is no `host:port`, or the metadata server fails.
    pub fn rpc_meta(&self, name: &str) -> Result<RpcMeta, DiscoveryError> {
        let Some(renewer) = &self.inner.renewer else {
            return self.place_in_name(name);
        };
        let server = renewer.server();
        let until = server.until(Duration::MAX);
        let found = server.get(&self.keys(name).rpc_meta, until)?;
        let json = found.ok_or_else(|| not_found(name, server))?;
        RpcMeta::decode(&json).map_err(|error| unusable(name, error))
    }

    /// Takes this process's entries back and ends the renewals. Bounded in time even when the
    /// metadata server is away; then its entries expire by themselves if it can do that.
    pub fn close(&self) {
        self.inner.close();
    }

    fn keys(&self, name: &str) -> RecordKeys {
        RecordKeys::of(&self.inner.settings.cluster, name)
    }

    fn fetch(
        &self,
        server: &NamedBackend,
        name: &str,
        limit: Duration,
    ) -> Result<SegmentDocument, DiscoveryError> {
        let found = server.get(&self.keys(name).segment, server.until(limit))?;
        let json = found.ok_or_else(|| not_found(name, server))?;
        SegmentDocument::decode(&json).map_err(|error| unusable(name, error))
    }

    fn ask_peer(&self, name: &str, limit: Duration) -> Result<SegmentDocument, DiscoveryError> {
        let place = self.place_in_name(name)?;
        let own = self.own().map(|own| own.as_asking()).unwrap_or_default();
        Ok(self.inner.handshake.metadata_within(&place, &own, limit)?)
    }

    fn place_in_name(&self, name: &str) -> Result<RpcMeta, DiscoveryError> {
        let (host, port) = split_peer(name).ok_or_else(|| {
            let reason = "with P2PHANDSHAKE it is host:port of the peer";
            SettingError::new("segment name", name, reason)
        })?;
        let port = port.unwrap_or(self.inner.settings.handshake_port);
        Ok(RpcMeta::new(host, port))
    }
}

impl DirectoryState {
    fn close(&self) {
        if let Some(renewer) = &self.renewer {
            renewer.close();
        }
    }
}

impl Drop for DirectoryState {
    fn drop(&mut self) {
        self.close();
    }
}

/// The two records of one engine.
#[derive(Debug)]
struct RecordKeys {
    segment: String,
    rpc_meta: String,
}

impl RecordKeys {
    fn of(cluster: &str, name: &str) -> Self {
        let prefix = match cluster {
            "" => "mooncake/".to_owned(),
            cluster if cluster.ends_with('/') => format!("mooncake/{cluster}"),
            cluster => format!("mooncake/{cluster}/"),
        };
        Self {
            segment: format!("{prefix}ram/{name}"),
            rpc_meta: format!("{prefix}rpc_meta/{name}"),
        }
    }
}

fn not_found(name: &str, server: &NamedBackend) -> DiscoveryError {
    DiscoveryError::NotFound { name: name.to_owned(), server: server.shown().to_owned() }
}

fn unusable(name: &str, error: crate::error::DocumentError) -> DiscoveryError {
    DiscoveryError::Document { name: name.to_owned(), error }
}

#[cfg(test)]
mod tests;
