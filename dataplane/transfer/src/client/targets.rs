//! Owners of segments by endpoint, as connections know them. A name may be given to another host:
//! then its target is another one.
//! Invariant: an endpoint has at most one target at a time, and unused targets are bounded.

use crate::limits::TARGETS_MAX;
use perigee_mover::{
    CONNECT_DEADLINE, CounterTable, Dialect, Names, PeerAddress, PeerError, Target,
};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError, RwLock};

/// All owners that were talked to.
#[derive(Debug)]
pub(crate) struct Targets {
    names: Arc<Names>,
    ledger: CounterTable,
    known: RwLock<HashMap<Arc<str>, Arc<Target>>>,
}

impl Default for Targets {
    fn default() -> Self {
        Self {
            names: Names::new(CONNECT_DEADLINE),
            ledger: CounterTable::default(),
            known: RwLock::default(),
        }
    }
}

impl Targets {
    /// The owner at an endpoint, if its name needs no waiting.
    pub(crate) fn at_hand(&self, endpoint: &Arc<str>) -> Option<Arc<Target>> {
        let address = self.names.at_hand(endpoint)?;
        Some(self.target(endpoint, address))
    }

    /// The owner at an endpoint, after a bounded wait for its name.
    ///
    /// # Errors
    /// The name has no address, or the resolver did not answer in time; or the caller of this
    /// thread breaks off.
    pub(crate) fn resolve(&self, endpoint: &Arc<str>) -> Result<Arc<Target>, PeerError> {
        let address = self.names.resolve(endpoint)?;
        Ok(self.target(endpoint, address))
    }

    /// Closes idle connections of owners that have gone.
    pub(crate) fn sweep(&self) {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.values().for_each(|target| target.sweep());
    }

    /// Closes all idle connections.
    pub(crate) fn close(&self) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        known.drain().for_each(|(_, target)| target.close());
    }

    fn target(&self, endpoint: &Arc<str>, address: SocketAddr) -> Arc<Target> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let found = known.get(endpoint).filter(|target| is_at(target, address));
        if let Some(target) = found {
            return target.clone();
        }
        drop(known);
        let fresh = target_at(endpoint, address, &self.ledger);
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(target) = known.get(endpoint).filter(|target| is_at(target, address)) {
            return target.clone();
        }
        if known.len() >= TARGETS_MAX {
            known.retain(|_, target| Arc::strong_count(target) > 1);
        }
        known.insert(endpoint.clone(), fresh.clone());
        fresh
    }
}

/// The owner of segments at an address.
pub(crate) fn target_at(endpoint: &str, address: SocketAddr, ledger: &CounterTable) -> Arc<Target> {
    let addresses = Box::new([PeerAddress { address, counters: ledger.towards(address) }]);
    let dialect = Dialect::Own { epoch: None };
    Arc::new(Target::new(endpoint, addresses, dialect))
}

fn is_at(target: &Target, address: SocketAddr) -> bool {
    target.addresses().iter().any(|known| known.address == address)
}
