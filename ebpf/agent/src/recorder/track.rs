//! Records of one resolution, the oldest first. Invariant: they lie in the order of their times,
//! and are no more than the track may hold; those that a clock leaves ahead of it stay in a file.

use super::file::TrackFile;
use super::record::Record;
use crate::limits::TrackLimits;
use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

/// Turns are about a second apart: a record of ten seconds is that of the nearest turn.
const TURN_SLACK_MS: u64 = 500;
/// What a clock that is set back by less than this leaves ahead of it is not worth a file.
const SET_BACK_MS: u64 = 60_000;

#[derive(Debug)]
pub(super) struct Track {
    limits: &'static TrackLimits,
    records: VecDeque<Record>,
    bytes: usize,
    file: Option<TrackFile>,
}

impl Track {
    /// Goes on from the file in this folder.
    pub(super) fn open(folder: Option<&Path>, limits: &'static TrackLimits) -> Self {
        let mut track = Self { limits, records: VecDeque::new(), bytes: 0, file: None };
        if let Some(folder) = folder {
            let (file, records) = TrackFile::open(&folder.join(limits.file), limits);
            track.file = Some(file);
            records.into_iter().for_each(|record| track.push(record));
        }
        track
    }

    /// Keeps a record, unless the last one is too near.
    pub(super) fn put(&mut self, at_ms: u64, packed: &Arc<[u8]>) {
        self.leave_ahead(at_ms);
        let is_due = at_ms.saturating_sub(self.last_ms()) + TURN_SLACK_MS >= self.limits.step_ms;
        if !is_due && !self.records.is_empty() || packed.len() > self.limits.record_bytes() {
            return;
        }
        let record = Record { at_ms, packed: Arc::clone(packed) };
        self.push(record.clone());
        if let Some(file) = &mut self.file {
            file.append(&record, &self.records);
        }
    }

    fn push(&mut self, record: Record) {
        self.bytes += record.packed.len();
        self.records.push_back(record);
        let oldest_ms = self.last_ms().saturating_sub(self.limits.length_ms);
        while self.bytes > self.limits.bytes || self.first_ms() < oldest_ms {
            let Some(gone) = self.records.pop_front() else {
                break;
            };
            self.bytes -= gone.packed.len();
        }
    }

    /// After the clock was set back: what lies ahead of it would stand between what comes now.
    fn leave_ahead(&mut self, now_ms: u64) {
        let ahead_ms = self.last_ms().saturating_sub(now_ms);
        if ahead_ms >= SET_BACK_MS {
            match &self.file {
                Some(file) => file.set_ahead_aside(ahead_ms),
                None => tracing::warn!(
                    "The clock was set back by {} s: the history ahead of it is gone",
                    ahead_ms / 1000
                ),
            }
        }
        while let Some(gone) = self.records.pop_back_if(|record| record.at_ms >= now_ms) {
            self.bytes -= gone.packed.len();
            self.file.iter_mut().for_each(TrackFile::begin_again);
        }
    }

    /// When the oldest record was taken; 0 if there is none.
    pub(super) fn first_ms(&self) -> u64 {
        self.records.front().map_or(0, |record| record.at_ms)
    }

    /// When the newest was.
    pub(super) fn last_ms(&self) -> u64 {
        self.records.back().map_or(0, |record| record.at_ms)
    }

    /// Records between two moments, both of them included.
    pub(super) fn between(
        &self,
        from_ms: u64,
        to_ms: u64,
    ) -> impl ExactSizeIterator<Item = &Arc<[u8]>> {
        let begin = self.records.partition_point(|record| record.at_ms < from_ms);
        let end = self.records.partition_point(|record| record.at_ms <= to_ms);
        self.records.range(begin..end.max(begin)).map(|record| &record.packed)
    }
}
