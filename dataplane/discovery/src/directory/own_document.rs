//! What this process offers: the document it shows to others. Invariant: a document that is asked
//! for contains every reported change.

use crate::document::SegmentDocument;
use crate::error::DiscoveryError;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Composes an engine's document as it is now; `None` once the engine is gone.
pub type Compose = Box<dyn Fn() -> Option<SegmentDocument> + Send + Sync>;

#[derive(Default)]
pub(super) struct OwnDocument {
    /// The engine's name, and who composes its document.
    speaker: OnceLock<(String, Compose)>,
    known: Mutex<LastDocument>,
}

#[derive(Debug, Default)]
struct LastDocument {
    document: Option<Arc<SegmentDocument>>,
    /// Something has changed since it was composed.
    is_stale: bool,
}

impl OwnDocument {
    /// Takes who composes the document, which must keep the limits.
    pub(super) fn speak(&self, compose: Compose) -> Result<(), DiscoveryError> {
        if let Some(document) = compose() {
            let name = document.name.clone();
            written(&document)?;
            self.set(document);
            // An engine publishes its own document once, when it starts.
            let _ = self.speaker.set((name, compose));
        }
        Ok(())
    }

    /// Name of the engine that composes its document.
    pub(super) fn name(&self) -> Option<&str> {
        self.speaker.get().map(|(name, _)| name.as_str())
    }

    /// The document as it is now, as JSON; `None` if it is not composed here.
    pub(super) fn compose(&self) -> Option<Result<String, DiscoveryError>> {
        let (_, compose) = self.speaker.get()?;
        compose().map(|document| written(&document))
    }

    /// Something has changed: it is composed again when it is asked for.
    pub(super) fn change(&self) {
        self.lock().is_stale = true;
    }

    /// Takes a finished document.
    pub(super) fn set(&self, document: SegmentDocument) {
        *self.lock() = LastDocument { document: Some(Arc::new(document)), is_stale: false };
    }

    pub(super) fn document(&self) -> Option<Arc<SegmentDocument>> {
        let mut known = self.lock();
        if std::mem::take(&mut known.is_stale)
            && let Some((_, compose)) = self.speaker.get()
            && let Some(newest) = compose()
        {
            known.document = Some(Arc::new(newest));
        }
        known.document.clone()
    }

    fn lock(&self) -> MutexGuard<'_, LastDocument> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for OwnDocument {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("Offer");
        shown.field("name", &self.name()).finish_non_exhaustive()
    }
}

/// A document as it is written, if it keeps the limits.
pub(super) fn written(document: &SegmentDocument) -> Result<String, DiscoveryError> {
    document
        .to_json()
        .map_err(|error| DiscoveryError::Document { name: document.name.clone(), error })
}
