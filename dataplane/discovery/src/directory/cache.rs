//! Documents of peers, remembered. Invariant: at most `CACHED_DOCUMENTS_MAX`, the oldest goes
//! first; with `MC_DISABLE_METACACHE` none at all.

use crate::document::SegmentDocument;
use crate::limits::CACHED_DOCUMENTS_MAX;
use crate::settings::DiscoverySettings;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

#[derive(Debug)]
pub(super) struct Cache {
    enabled: bool,
    /// Age at which a document is asked for again; none = never.
    refresh: Option<Duration>,
    known: Mutex<HashMap<String, CachedDocument>>,
}

#[derive(Debug)]
struct CachedDocument {
    document: Arc<SegmentDocument>,
    since: Instant,
}

impl Cache {
    pub(super) fn new(settings: &DiscoverySettings) -> Self {
        Self { enabled: settings.cache, refresh: settings.refresh, known: Mutex::default() }
    }

    /// A document that need not be asked for.
    pub(super) fn fresh(&self, name: &str) -> Option<Arc<SegmentDocument>> {
        let known = self.lock();
        let known = known.get(name)?;
        let old = self.refresh.is_some_and(|age| known.since.elapsed() >= age);
        (!old).then(|| Arc::clone(&known.document))
    }

    /// A document of any age.
    pub(super) fn any(&self, name: &str) -> Option<Arc<SegmentDocument>> {
        self.lock().get(name).map(|known| Arc::clone(&known.document))
    }

    pub(super) fn keep(&self, name: &str, document: &Arc<SegmentDocument>) {
        if !self.enabled {
            return;
        }
        let mut known = self.lock();
        if known.len() >= CACHED_DOCUMENTS_MAX && !known.contains_key(name) {
            let oldest = known.iter().min_by_key(|(_, known)| known.since);
            if let Some(oldest) = oldest.map(|(name, _)| name.clone()) {
                known.remove(&oldest);
            }
        }
        let entry = CachedDocument { document: Arc::clone(document), since: Instant::now() };
        known.insert(name.to_owned(), entry);
    }

    pub(super) fn forget(&self, name: &str) {
        self.lock().remove(name);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, CachedDocument>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(change: impl Fn(&mut DiscoverySettings)) -> Cache {
        let mut settings = DiscoverySettings::default();
        change(&mut settings);
        Cache::new(&settings)
    }

    fn keep(cache: &Cache, name: &str) {
        cache.keep(name, &Arc::new(SegmentDocument::new(name, "tcp")));
    }

    #[test]
    fn documents_stay_until_forgotten() {
        let cache = cache(|_| ());
        keep(&cache, "a");
        assert!(cache.fresh("a").is_some());
        cache.forget("a");
        assert!(cache.any("a").is_none());
    }

    #[test]
    fn old_documents_are_not_fresh_but_there() {
        let cache = cache(|settings| settings.refresh = Some(Duration::ZERO));
        keep(&cache, "a");
        assert!(cache.fresh("a").is_none());
        assert!(cache.any("a").is_some());
    }

    #[test]
    fn switched_off_it_keeps_nothing() {
        let cache = cache(|settings| settings.cache = false);
        keep(&cache, "a");
        assert!(cache.any("a").is_none());
    }

    #[test]
    fn the_oldest_document_makes_room() {
        let cache = cache(|_| ());
        for index in 0..=CACHED_DOCUMENTS_MAX {
            keep(&cache, &index.to_string());
        }
        assert!(cache.any("0").is_none());
        assert!(cache.any("1").is_some());
        assert_eq!(cache.lock().len(), CACHED_DOCUMENTS_MAX);
    }
}
