//! Write sessions: objects put together range by range in this process, stored when they end.
//! Invariant: staged bytes are invisible to all readers until their session ends, and their sum is
//! bounded.

use crate::arguments::Count;
use crate::buffer_handle::OwnedBytes;
use crate::limits::MAX_SESSION_STAGING_BYTES;
use crate::lock::lock;
use crate::replicate_config::OwnedConfig;
use perigee_schemas::Status;
use perigee_store::Store;
use perigee_store::api::CallerRange;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// One object being put together.
pub(crate) struct Draft {
    bytes: OwnedBytes,
    /// Held while ranges are copied; true from the end of the session on.
    ended: Mutex<bool>,
    /// Placement of the call that started the session.
    pub(crate) placement: Arc<OwnedConfig>,
    /// Group of this object.
    pub(crate) group: Option<String>,
}

impl Draft {
    /// The whole object.
    pub(crate) fn piece(&self) -> CallerRange {
        self.bytes.piece()
    }

    /// Copies the pieces to their offsets; returns the bytes copied. Nothing is copied if one does
    /// not fit, or when the session has ended: the bytes may be on their way already.
    pub(crate) fn write(
        &self,
        store: &Store,
        pieces: &[CallerRange],
        offsets: &[Count],
    ) -> Result<u64, Status> {
        let whole = self.bytes.piece();
        let fits = |piece: &CallerRange, offset: &Count| {
            let end = offset.0.checked_add(piece.bytes as u64);
            end.is_some_and(|end| end <= whole.bytes as u64)
        };
        if pieces.len() != offsets.len() || !pieces.iter().zip(offsets).all(|(p, o)| fits(p, o)) {
            return Err(Status::InvalidParams);
        }
        let ended = lock(&self.ended);
        if *ended {
            return Err(Status::InvalidParams);
        }
        let mut copied = 0;
        for (piece, offset) in pieces.iter().zip(offsets) {
            let target = (whole.address + offset.get()) as *mut u8;
            // SAFETY: the target range was checked against the draft's own memory, which nothing
            // else reads or writes under this lock.
            unsafe { store.load(piece, target) }?;
            copied += piece.bytes as u64;
        }
        Ok(copied)
    }
}

/// All objects of one store that are being put together.
#[derive(Default)]
pub(crate) struct Staging {
    drafts: HashMap<String, Arc<Draft>>,
    staged_bytes: u64,
}

impl Staging {
    /// Starts a session; refused while one of the same key is open or when the bound is reached.
    pub(crate) fn begin(
        &mut self,
        key: &str,
        bytes: Count,
        placement: &Arc<OwnedConfig>,
        group: Option<&str>,
    ) -> Result<(), Status> {
        if key.is_empty() || bytes.0 == 0 || self.drafts.contains_key(key) {
            return Err(Status::InvalidParams);
        }
        let room = MAX_SESSION_STAGING_BYTES - self.staged_bytes;
        if bytes.0 > room {
            return Err(Status::NoAvailableHandle);
        }
        let draft = Draft {
            bytes: OwnedBytes::zeroed(bytes.0).ok_or(Status::NoAvailableHandle)?,
            ended: Mutex::new(false),
            placement: Arc::clone(placement),
            group: group.map(str::to_owned),
        };
        self.staged_bytes += bytes.0;
        self.drafts.insert(key.to_owned(), Arc::new(draft));
        Ok(())
    }

    /// The open session of a key.
    pub(crate) fn find(&self, key: &str) -> Option<Arc<Draft>> {
        self.drafts.get(key).cloned()
    }

    /// Ends the session of a key and returns what was put together.
    pub(crate) fn take(&mut self, key: &str) -> Option<Arc<Draft>> {
        let draft = self.drafts.remove(key)?;
        *lock(&draft.ended) = true;
        self.staged_bytes -= draft.piece().bytes as u64;
        Some(draft)
    }
}
