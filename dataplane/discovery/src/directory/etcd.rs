//! etcd: all entries of this process hang on one lease, so they go together when it dies.
//!
//! Invariant: entries are compared and replaced in transactions; another process's entry under
//! the same key is never removed or refreshed.

use super::backend::{EntryClaim, EntryState, MetadataBackend, PublishedEntry};
use super::gateway::{Gateway, GatewayError};
use crate::error::DiscoveryError;
use crate::settings::DiscoverySettings;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

#[derive(Debug)]
pub(super) struct Etcd {
    gateway: Gateway,
    life: Duration,
    /// Number of the lease, as the gateway writes it; none until the first entry.
    lease: Mutex<Option<String>>,
}

/// A stored value and the lease it hangs on.
struct EtcdRecord {
    value: Vec<u8>,
    lease: String,
}

impl Etcd {
    /// The cluster of a list of endpoints. `None` = it is no such list.
    pub(super) fn new(
        list: &str,
        settings: &DiscoverySettings,
    ) -> Result<Option<Self>, DiscoveryError> {
        let gateway = Gateway::new(list, settings)?;
        Ok(gateway.map(|gateway| Self {
            gateway,
            life: settings.entry_life,
            lease: Mutex::default(),
        }))
    }

    fn slot(&self) -> MutexGuard<'_, Option<String>> {
        self.lease.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lease; a new one if there is none.
    fn lease(&self, until: Instant) -> Result<String, GatewayError> {
        let mut slot = self.slot();
        if let Some(lease) = &*slot {
            return Ok(lease.clone());
        }
        let granted =
            self.gateway.call("lease/grant", &json!({"TTL": self.life.as_secs()}), until)?;
        let lease = granted["ID"].as_str().map(str::to_owned);
        let lease = lease.ok_or_else(|| GatewayError::Other("it granted no lease".to_owned()))?;
        *slot = Some(lease.clone());
        Ok(lease)
    }

    /// Calls with a lease; with a new one if it turns out to have expired.
    fn leased(
        &self,
        until: Instant,
        call: impl Fn(&str) -> Result<Value, GatewayError>,
    ) -> Result<Value, String> {
        let lease = self.lease(until).map_err(GatewayError::words)?;
        match call(&lease) {
            Err(GatewayError::Missing) => {
                self.drop_lease(&lease);
                let lease = self.lease(until).map_err(GatewayError::words)?;
                call(&lease).map_err(GatewayError::words)
            }
            other => other.map_err(GatewayError::words),
        }
    }

    /// Forgets a lease that has expired.
    fn drop_lease(&self, lease: &str) {
        let mut slot = self.slot();
        if slot.as_deref() == Some(lease) {
            *slot = None;
        }
    }

    fn stored(&self, key: &str, until: Instant) -> Result<Option<EtcdRecord>, String> {
        let found = self
            .gateway
            .call("kv/range", &json!({"key": encoded(key)}), until)
            .map_err(GatewayError::words)?;
        let Some(first) = found["kvs"].get(0) else {
            return Ok(None);
        };
        let value = BASE64_STANDARD
            .decode(first["value"].as_str().unwrap_or_default())
            .map_err(|error| format!("it sent a broken value: {error}"))?;
        let lease = first["lease"].as_str().unwrap_or_default().to_owned();
        Ok(Some(EtcdRecord { value, lease }))
    }

    /// Writes a value if the condition still holds; false = it does not.
    fn put_if(
        &self,
        condition: &Value,
        (key, value): (&str, &str),
        until: Instant,
    ) -> Result<bool, String> {
        let done = self.leased(until, |lease| {
            let put = json!({"key": encoded(key), "value": encoded(value), "lease": lease});
            let transaction = json!({
                "compare": [condition],
                "success": [{"requestPut": put}],
            });
            self.gateway.call("kv/txn", &transaction, until)
        })?;
        Ok(done["succeeded"].as_bool().unwrap_or(false))
    }

    /// Writes an entry again if the condition still holds.
    fn restore(
        &self,
        condition: &Value,
        entry: &PublishedEntry,
        until: Instant,
    ) -> Result<EntryState, String> {
        let restored = self.put_if(condition, (&entry.key, &entry.value), until)?;
        Ok(if restored { EntryState::Restored } else { EntryState::Lost })
    }
}

impl MetadataBackend for Etcd {
    fn get(&self, key: &str, until: Instant) -> Result<Option<Vec<u8>>, String> {
        Ok(self.stored(key, until)?.map(|stored| stored.value))
    }

    fn put(&self, key: &str, value: &str, until: Instant) -> Result<(), String> {
        self.leased(until, |lease| {
            let put = json!({"key": encoded(key), "value": encoded(value), "lease": lease});
            self.gateway.call("kv/put", &put, until)
        })?;
        Ok(())
    }

    fn claim(&self, claim: &EntryClaim<'_>, until: Instant) -> Result<bool, String> {
        let condition = match claim.seen {
            Some(seen) => has_value(claim.key, seen),
            None => is_absent(claim.key),
        };
        self.put_if(&condition, (claim.key, claim.value), until)
    }

    fn begin_beat(&self, until: Instant) -> Result<(), String> {
        let Some(lease) = self.slot().clone() else {
            return Ok(());
        };
        let kept = self
            .gateway
            .call("lease/keepalive", &json!({"ID": lease}), until)
            .map_err(GatewayError::words)?;
        // An expired lease is answered with no time left, which JSON leaves out.
        if kept["result"]["TTL"].as_str().is_none_or(|left| left == "0") {
            self.drop_lease(&lease);
        }
        Ok(())
    }

    fn refresh(&self, entry: &PublishedEntry, until: Instant) -> Result<EntryState, String> {
        match self.stored(&entry.key, until)? {
            None => self.restore(&is_absent(&entry.key), entry, until),
            Some(stored) if !entry.wrote(&stored.value) => Ok(EntryState::Lost),
            Some(stored) if Some(&stored.lease) == self.slot().as_ref() => Ok(EntryState::Kept),
            Some(stored) => self.restore(&has_value(&entry.key, &stored.value), entry, until),
        }
    }

    fn remove(&self, entry: &PublishedEntry, until: Instant) -> Result<(), String> {
        for value in [Some(&entry.value), entry.tried.as_ref()].into_iter().flatten() {
            let transaction = json!({
                "compare": [has_value(&entry.key, value.as_bytes())],
                "success": [{"requestDeleteRange": {"key": encoded(&entry.key)}}],
            });
            self.gateway.call("kv/txn", &transaction, until).map_err(GatewayError::words)?;
        }
        Ok(())
    }

    fn end(&self, until: Instant) {
        let Some(lease) = self.slot().take() else {
            return;
        };
        let revoked = self.gateway.call("lease/revoke", &json!({"ID": lease}), until);
        if let Err(refusal) = revoked {
            tracing::debug!(reason = refusal.words(), "A lease was left to expire");
        }
    }
}

fn encoded(text: &str) -> String {
    BASE64_STANDARD.encode(text)
}

fn is_absent(key: &str) -> Value {
    json!({"key": encoded(key), "target": "CREATE", "result": "EQUAL", "createRevision": "0"})
}

fn has_value(key: &str, value: &[u8]) -> Value {
    let value = BASE64_STANDARD.encode(value);
    json!({"key": encoded(key), "target": "VALUE", "result": "EQUAL", "value": value})
}
