//! This process as the guest of owners on its host: their segments, mapped on first use.
//! Invariant: an owner is asked by one thread at a time, and one that did not answer is left alone
//! for a while.

use super::owner_memory::OwnerMemory;
use crate::limits::{HANDOVER_DEADLINE, OWNER_CHECK, OWNER_RETRY};
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{
    Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
};
use std::time::{Duration, Instant};

/// Memory of owners by the socket they listen on.
#[derive(Debug)]
pub struct Guest {
    owners: RwLock<HashMap<Box<str>, KnownOwner>>,
    /// Owners that are being asked.
    asking: Mutex<HashSet<Box<str>>>,
    answered: Condvar,
    since: Instant,
    /// When the owners were last looked at.
    swept_ms: AtomicU64,
}

#[derive(Clone, Debug)]
enum KnownOwner {
    Open(Arc<OwnerMemory>),
    Refused { until: Instant },
}

impl Default for Guest {
    fn default() -> Self {
        Self {
            owners: RwLock::default(),
            asking: Mutex::default(),
            answered: Condvar::new(),
            since: Instant::now(),
            swept_ms: AtomicU64::new(0),
        }
    }
}

impl Guest {
    /// The memory of the owner that listens under `socket`, if all that is wanted is in it. The
    /// owner is asked if that was not done, for at most `limit`.
    pub fn find(
        &self,
        socket: &str,
        limit: Duration,
        has_all: impl Fn(&OwnerMemory) -> bool,
    ) -> Option<Arc<OwnerMemory>> {
        // Twice: what was handed out before may have been taken back, or more may be handed out
        // now.
        for _ in 0..2 {
            let memory = self.memory(socket, limit)?;
            if memory.is_open() && has_all(&memory) {
                return Some(memory);
            }
            if memory.is_alive() && memory.is_open() && !memory.has_news() {
                return None;
            }
            self.forget(socket, &memory);
        }
        None
    }

    /// Drops what an owner has handed out.
    pub fn leave(&self, socket: &str) {
        let left = self.write().remove(socket);
        drop(left);
    }

    /// Drops the memory of owners that have gone or taken it back.
    pub fn sweep(&self) {
        let now = Instant::now();
        let is_over = |entry: &KnownOwner| match entry {
            KnownOwner::Open(memory) => !memory.is_alive() || !memory.is_open(),
            KnownOwner::Refused { until } => now >= *until,
        };
        if self.read().values().any(is_over) {
            // Unmapped when the table is free again: that takes long.
            let over: Vec<_> = self.write().extract_if(|_, it| is_over(it)).collect();
            drop(over);
        }
    }

    /// As [`Guest::sweep`], unless that was done a moment ago. A mapping outlives its owner, so it
    /// says nothing of whether the bytes are still kept: who uses mappings without asking for each
    /// copy asks often.
    pub fn sweep_if_due(&self) {
        let now = self.since.elapsed().as_millis() as u64;
        let swept = self.swept_ms.load(Ordering::Relaxed);
        let order = Ordering::Relaxed;
        let is_due = now >= swept + OWNER_CHECK.as_millis() as u64;
        // One of several callers sweeps; the others need not wait for that.
        if is_due && self.swept_ms.compare_exchange(swept, now, order, order).is_ok() {
            self.sweep();
        }
    }

    fn memory(&self, socket: &str, limit: Duration) -> Option<Arc<OwnerMemory>> {
        match self.known(socket) {
            Some(known) => known.memory(),
            None => self.ask(socket, limit),
        }
    }

    /// What is known of an owner; nothing if it is to be asked.
    fn known(&self, socket: &str) -> Option<KnownOwner> {
        let is_over = |entry: &&KnownOwner| match entry {
            KnownOwner::Refused { until } => Instant::now() >= *until,
            KnownOwner::Open(_) => false,
        };
        let owners = self.read();
        owners.get(socket).filter(|entry| !is_over(entry)).cloned()
    }

    /// Asks an owner, or waits for the answer to another thread that does.
    fn ask(&self, socket: &str, limit: Duration) -> Option<Arc<OwnerMemory>> {
        let limit = limit.min(HANDOVER_DEADLINE);
        let due = Instant::now() + limit;
        let is_asked = |asking: &mut HashSet<Box<str>>| asking.contains(socket);
        let waited = self.answered.wait_timeout_while(self.asking(), limit, is_asked);
        let (mut asking, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() {
            return None;
        }
        if let Some(known) = self.known(socket) {
            return known.memory();
        }
        asking.insert(socket.into());
        drop(asking);
        let entry = match OwnerMemory::ask(socket, due) {
            Ok(memory) => KnownOwner::Open(Arc::new(memory)),
            Err(error) => {
                tracing::debug!(%error, "No shared memory with this peer, another route is used");
                let until = Instant::now() + OWNER_RETRY;
                KnownOwner::Refused { until }
            }
        };
        self.write().insert(socket.into(), entry.clone());
        self.asking().remove(socket);
        self.answered.notify_all();
        entry.memory()
    }

    fn forget(&self, socket: &str, memory: &Arc<OwnerMemory>) {
        let mut owners = self.write();
        let is_same = |entry: &KnownOwner| match entry {
            KnownOwner::Open(known) => Arc::ptr_eq(known, memory),
            KnownOwner::Refused { .. } => false,
        };
        if owners.get(socket).is_some_and(is_same) {
            owners.remove(socket);
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, HashMap<Box<str>, KnownOwner>> {
        self.owners.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, HashMap<Box<str>, KnownOwner>> {
        self.owners.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn asking(&self) -> MutexGuard<'_, HashSet<Box<str>>> {
        self.asking.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KnownOwner {
    fn memory(self) -> Option<Arc<OwnerMemory>> {
        match self {
            KnownOwner::Open(memory) => Some(memory),
            KnownOwner::Refused { .. } => None,
        }
    }
}
