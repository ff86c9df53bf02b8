//! Peers' segments by name: their documents turned into targets, kept until a transfer shows that they are out of date.
//! Invariant: a name has at most one target at a time.

use crate::error::EngineError;
use crate::ledger::Ledger;
use crate::limits::{LINE_SWEEP, PEERS_REMEMBERED_MAX};
use crate::rdma::{Rdma, RemoteRails};
use crate::request::Request;
use crate::shared_memory::Neighbour;
use crate::target::{Dialect, Target};
use perigee_discovery::{Directory, SegmentDocument};
use perigee_shard::monotonic;
use std::collections::HashMap;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// All peers that were talked to.
#[derive(Debug)]
pub(crate) struct Segments {
    directory: Directory,
    rdma: Option<Arc<Rdma>>,
    targets: RwLock<HashMap<String, Arc<Target>>>,
    /// The life in which each peer was last met.
    lives: Mutex<HashMap<String, u64>>,
    swept: Mutex<Duration>,
    ledger: Arc<Ledger>,
    /// Whether peers on this host may be reached through memory.
    shares_memory: bool,
}

impl Segments {
    pub(crate) fn new(
        directory: Directory,
        rdma: Option<Arc<Rdma>>,
        ledger: Arc<Ledger>,
        shares_memory: bool,
    ) -> Self {
        Self {
            directory,
            rdma,
            swept: Mutex::default(),
            targets: RwLock::default(),
            lives: Mutex::default(),
            ledger,
            shares_memory,
        }
    }

    /// The target of a name; asks for its document if there is none yet, at most until `due`.
    pub(crate) fn open(
        &self,
        name: &str,
        due: Instant,
        requests: &[Request],
    ) -> Result<Arc<Target>, EngineError> {
        self.sweep();
        let known = self
            .targets
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(name)
            .cloned();
        if let Some(target) = known {
            return Ok(target);
        }
        let target = Arc::new(self.find(name, due, requests)?);
        let mut targets = self.targets.write().unwrap_or_else(PoisonError::into_inner);
        Ok(targets.entry(name.to_owned()).or_insert(target).clone())
    }

    /// The next transfer asks for the document again.
    pub(crate) fn forget(&self, target: &Arc<Target>) {
        let mut targets = self.targets.write().unwrap_or_else(PoisonError::into_inner);
        if targets
            .get(&*target.name)
            .is_some_and(|known| Arc::ptr_eq(known, target))
        {
            targets.remove(&*target.name);
            self.directory.forget(&target.name);
        }
        drop(targets);
        target.close();
    }

    /// The present document of a name.
    pub(crate) fn document(&self, name: &str) -> Result<Arc<SegmentDocument>, EngineError> {
        Ok(self.directory.reload(name)?)
    }

    /// Asks for the keys of a peer again, if that is worth it.
    pub(crate) fn refresh_keys(&self, target: &Target) {
        let Some(rails) = target.rails.as_ref().filter(|rails| rails.wants_refresh()) else {
            return;
        };
        let asked_at = monotonic();
        match self.directory.reload(&target.name) {
            Ok(document) => rails.refresh(&document, asked_at),
            Err(error) => tracing::debug!(%error, peer = &*target.name, "No newer keys"),
        }
    }

    /// Closes idle connections of peers that have gone, now and then.
    fn sweep(&self) {
        let now = monotonic();
        let Ok(mut swept) = self.swept.try_lock() else {
            return;
        };
        if now.saturating_sub(*swept) < LINE_SWEEP {
            return;
        }
        *swept = now;
        let targets = self.targets.read().unwrap_or_else(PoisonError::into_inner);
        targets.values().for_each(|target| target.sweep());
    }

    /// Closes all idle connections.
    pub(crate) fn close(&self) {
        let mut targets = self.targets.write().unwrap_or_else(PoisonError::into_inner);
        targets.drain().for_each(|(_, target)| target.close());
    }

    fn find(&self, name: &str, due: Instant, requests: &[Request]) -> Result<Target, EngineError> {
        let asked_at = monotonic();
        let document = self.directory.segment(name)?;
        let own = document
            .perigee
            .as_ref()
            .filter(|extra| !extra.data_endpoint.is_empty());
        if let Some(extra) = own {
            let epoch =
                u128::from_str_radix(&extra.epoch, 16).map_err(|_| unusable(name, "epoch"))?;
            let epoch = epoch as u64;
            self.meet(name, epoch)?;
            let address = resolve(name, &extra.data_endpoint)?;
            let mut target = self.target(name, address, Dialect::Own { epoch });
            let rdma = self.rdma.as_ref();
            target.rails = rdma.and_then(|rdma| RemoteRails::open(rdma, name, extra, asked_at));
            target.neighbour = Neighbour::of(extra).filter(|_| self.shares_memory);
            return Ok(target);
        }
        if document.tcp_data_port == 0 {
            return Err(EngineError::Unsupported(format!(
                "peer {name} offers no TCP data port"
            )));
        }
        let endpoint = (self.data_host(name, &document)?, document.tcp_data_port);
        let dialect = Dialect::Upstream {
            with_status: document.tcp_proto_version >= 2,
        };
        Ok(self.target(name, resolve(name, endpoint)?, dialect))
    }

    fn target(&self, name: &str, address: SocketAddr, dialect: Dialect) -> Target {
        Target::new(name, address, dialect, self.ledger.towards(address))
    }

    /// Notes the life of a peer. One that has changed is an error once, before any byte goes to the new life: the caller's
    /// addresses are of the earlier one.
    fn meet(&self, name: &str, epoch: u64) -> Result<(), EngineError> {
        let mut lives = self.lives.lock().unwrap_or_else(PoisonError::into_inner);
        if lives.len() >= PEERS_REMEMBERED_MAX {
            lives.clear();
        }
        match lives.insert(name.to_owned(), epoch) {
            Some(before) if before != epoch => {
                self.directory.forget(name);
                Err(EngineError::Restarted {
                    peer: name.to_owned(),
                })
            }
            _ => Ok(()),
        }
    }

    fn data_host(&self, name: &str, document: &SegmentDocument) -> Result<String, EngineError> {
        if !document.tcp_data_host.is_empty() {
            return Ok(document.tcp_data_host.clone());
        }
        Ok(self.directory.rpc_meta(name)?.ip_or_host_name)
    }
}

fn unusable(name: &str, what: &str) -> EngineError {
    EngineError::Metadata(format!("the document of {name} has an unusable {what}"))
}

fn resolve(name: &str, endpoint: impl ToSocketAddrs) -> Result<SocketAddr, EngineError> {
    let found = endpoint.to_socket_addrs().map(|mut all| all.next());
    let reason = match found {
        Ok(Some(address)) => return Ok(address),
        Ok(None) => "the name has no address".to_owned(),
        Err(error) => error.to_string(),
    };
    Err(EngineError::Resolve {
        peer: name.to_owned(),
        reason,
    })
}
