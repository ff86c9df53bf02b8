//! Memory that callers registered, as devices know it.
//! Invariant: no range is listed whose registration was revoked.

use perigee_rails::{Preference, RailEngine, RailError, Registration};
use perigee_verbs::RegionAccess;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

/// Registered memory by address.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    entries: RwLock<BTreeMap<u64, Arc<Registration>>>,
}

impl Buffers {
    /// Registers memory with every rail.
    ///
    /// # Safety
    /// The memory stays mapped until it is unregistered here or the rails are closed.
    ///
    /// # Errors
    /// A device refuses; the message names the remedy.
    pub(crate) unsafe fn register(
        &self,
        engine: &RailEngine,
        address: u64,
        bytes: u64,
    ) -> Result<(), RailError> {
        // SAFETY: the caller's promise is the same.
        let made = unsafe {
            engine.register(address, bytes, RegionAccess::LOCAL, &Preference::default())
        }?;
        debug_assert!(made.contains(address, bytes), "devices know all of it");
        let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
        entries.insert(address, made);
        Ok(())
    }

    /// Ends the registration of the memory at an address; afterwards no device touches it.
    pub(crate) fn unregister(&self, address: u64) {
        let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
        let found = entries.remove(&address);
        drop(entries);
        if let Some(Err(error)) = found.map(|registration| registration.revoke()) {
            tracing::warn!(%error, address, "A device still holds memory that was unregistered");
        }
    }

    /// Ends all registrations.
    pub(crate) fn clear(&self) {
        let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
        let all = std::mem::take(&mut *entries);
        drop(entries);
        for (address, registration) in all {
            if let Err(error) = registration.revoke() {
                tracing::warn!(%error, address, "A device still holds registered memory");
            }
        }
    }

    /// The registration that covers a range.
    pub(crate) fn find(&self, address: u64, bytes: u64) -> Option<Arc<Registration>> {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        let (_, found) = entries.range(..=address).next_back()?;
        found.contains(address, bytes).then(|| found.clone())
    }
}
