//! The memory a client donates: segments, their server, and what the master was told of them.

use crate::environment::StoreEnvironment;
use crate::error::StoreError;
use crate::host::{data_address, host_of, random_identity};
use perigee_memory::Segment;
use perigee_memory::segment::{Pages, SegmentOptions};
use perigee_rpc::SegmentOffer;
use perigee_schemas::Identity;
use perigee_transfer::{SegmentServer, SegmentTable, ServerOptions};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

/// Segments of this process. The server starts with the first one.
#[derive(Debug)]
pub(crate) struct Donation {
    identity: Identity,
    name: String,
    host_id: String,
    protocol: String,
    environment: StoreEnvironment,
    table: Arc<SegmentTable>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    server: Option<SegmentServer>,
    offers: Vec<SegmentOffer>,
}

impl Donation {
    pub(crate) fn new(
        identity: Identity,
        name: &str,
        host_id: &str,
        protocol: &str,
        environment: &StoreEnvironment,
    ) -> Self {
        Self {
            identity,
            name: name.to_owned(),
            host_id: host_id.to_owned(),
            protocol: protocol.to_owned(),
            environment: environment.clone(),
            table: Arc::default(),
            state: Mutex::default(),
        }
    }

    /// Segments that this process can touch directly.
    pub(crate) fn table(&self) -> &Arc<SegmentTable> {
        &self.table
    }

    /// Allocates a segment and begins to serve it.
    pub(crate) fn add(&self, bytes: u64) -> Result<SegmentOffer, StoreError> {
        let options = SegmentOptions {
            pages: if self.environment.huge_pages {
                Pages::Hugetlb
            } else {
                Pages::Transparent
            },
            numa_node: self.environment.numa_node,
            prefault: true,
        };
        let segment = Segment::create(bytes, &options)?;
        for warning in segment.warnings() {
            tracing::info!("{warning}");
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let endpoint = self.serve(&mut state)?;
        let offer = SegmentOffer {
            id: random_identity()?,
            bytes,
            base: segment.base() as u64,
            name: self.name.clone(),
            endpoint,
            host_id: self.host_id.clone(),
            rendezvous: self.rendezvous(),
            protocol: self.protocol.clone(),
        };
        self.table.insert(offer.id, Arc::new(segment));
        state.offers.push(offer.clone());
        if let Some(server) = &state.server {
            // Peers that mapped earlier segments learn of the new one when they ask again.
            server.withdraw_mappings();
        }
        Ok(offer)
    }

    /// Takes a segment out: no new transfer finds it.
    pub(crate) fn remove(&self, id: Identity) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.offers.retain(|offer| offer.id != id);
        self.table.remove(id);
        if let Some(server) = &state.server {
            server.withdraw_mappings();
        }
    }

    /// What is on offer, for mounting again.
    pub(crate) fn offers(&self) -> Vec<SegmentOffer> {
        self.state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .offers
            .clone()
    }

    /// The data port, if anything is served.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.server.as_ref().map(SegmentServer::address)
    }

    /// Ends the server and gives all memory back.
    pub(crate) fn stop(&self) {
        let state = std::mem::take(&mut *self.state.lock().unwrap_or_else(PoisonError::into_inner));
        for offer in &state.offers {
            self.table.remove(offer.id);
        }
        if let Some(server) = state.server {
            server.stop();
        }
    }

    /// The endpoint of the running server, started if need be.
    fn serve(&self, state: &mut State) -> Result<String, StoreError> {
        if state.server.is_none() {
            let options = ServerOptions {
                address: data_address(&self.name, self.environment.bind_address)?,
                shards: self.environment.data_shards,
                cpus: self.environment.data_cpus.clone(),
                poll: self.environment.poll,
                congestion: self.environment.congestion.clone(),
                rendezvous: Some(self.rendezvous()).filter(|name| !name.is_empty()),
                identity: self.identity,
            };
            state.server = Some(SegmentServer::start(&options, &self.table)?);
        }
        let port = state
            .server
            .as_ref()
            .map_or(0, |server| server.address().port());
        let host = match self.environment.bind_address {
            Some(ip) => ip.to_string(),
            None => host_of(&self.name).to_owned(),
        };
        Ok(if host.contains(':') {
            format!("[{host}]:{port}")
        } else {
            format!("{host}:{port}")
        })
    }

    fn rendezvous(&self) -> String {
        if self.environment.routes.shared_memory {
            format!("perigee-{}", self.identity)
        } else {
            String::new()
        }
    }
}
