//! The flight recorder: what the host did in the last quarter of an hour, second by second, and in
//! the last day, ten seconds by ten. Invariant: it holds at most [`FINE`] and [`COARSE`], in memory
//! and on disk; a time that was not watched has no record.

mod file;
mod moment;
mod record;
mod track;

use crate::limits::{COARSE, FINE, HISTORY_POINTS_MAX};
use crate::snapshot::Snapshot;
use flate2::Compression;
use flate2::write::{DeflateDecoder, DeflateEncoder};
use moment::moment;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use track::Track;

/// What was recorded.
#[derive(Debug)]
pub(crate) struct Recorder {
    fine: Track,
    coarse: Track,
    /// When the last record was taken, in milliseconds since 1970.
    last_ms: u64,
}

/// Records of a stretch of time, still packed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct HistoryWindow {
    /// The first and the last moment that there are records of; 0 if there are none.
    pub(crate) first_ms: u64,
    pub(crate) last_ms: u64,
    /// Longest time between two records of a stretch that was watched.
    pub(crate) step_ms: u64,
    records: Vec<Arc<[u8]>>,
}

impl Recorder {
    /// Goes on from what an earlier agent left in this folder.
    pub(crate) fn open(folder: Option<&Path>) -> Self {
        let (fine, coarse) = (Track::open(folder, &FINE), Track::open(folder, &COARSE));
        let last_ms = fine.last_ms().max(coarse.last_ms());
        Self { fine, coarse, last_ms }
    }

    /// Keeps a snapshot.
    pub(crate) fn put(&mut self, snapshot: &Snapshot) {
        let packed = match pack(&moment(snapshot, self.last_ms)) {
            Ok(packed) => Arc::from(packed),
            Err(error) => return tracing::warn!(%error, "A moment cannot be recorded"),
        };
        let at_ms = snapshot.taken_ms;
        self.last_ms = at_ms;
        self.fine.put(at_ms, &packed);
        self.coarse.put(at_ms, &packed);
    }

    /// What there is between two moments, in the finer steps if they reach back that far; at most
    /// [`HISTORY_POINTS_MAX`] records.
    pub(crate) fn window(&self, from_ms: u64, to_ms: u64) -> HistoryWindow {
        let (first_ms, last_ms) = (self.coarse.first_ms(), self.fine.last_ms());
        let is_fine = self.fine.first_ms() <= from_ms.max(first_ms);
        let (track, step_ms) = match is_fine {
            true => (&self.fine, FINE.step_ms),
            false => (&self.coarse, COARSE.step_ms),
        };
        let found = track.between(from_ms, to_ms);
        // Counters only grow, so records between may be left out.
        let every = found.len().div_ceil(HISTORY_POINTS_MAX).max(1);
        let skipped = (found.len() + every - 1) % every;
        let records = found.skip(skipped).step_by(every).cloned().collect();
        HistoryWindow { first_ms, last_ms, step_ms: step_ms * every as u64, records }
    }
}

impl HistoryWindow {
    /// The records as JSON.
    ///
    /// # Errors
    /// One of them is damaged.
    pub(crate) fn json(&self) -> io::Result<Vec<u8>> {
        let mut text = format!(
            "{{\"schema\":{},\"first_ms\":{},\"last_ms\":{},\"step_ms\":{},\"snapshots\":[",
            Snapshot::SCHEMA,
            self.first_ms,
            self.last_ms,
            self.step_ms
        )
        .into_bytes();
        for (number, record) in self.records.iter().enumerate() {
            if number > 0 {
                text.push(b',');
            }
            let mut unpacking = DeflateDecoder::new(text);
            unpacking.write_all(record)?;
            text = unpacking.finish()?;
        }
        text.extend_from_slice(b"]}");
        Ok(text)
    }
}

fn pack(snapshot: &Snapshot) -> io::Result<Vec<u8>> {
    let mut packing = DeflateEncoder::new(Vec::new(), Compression::fast());
    packing.write_all(&serde_json::to_vec(snapshot)?)?;
    packing.finish()
}

#[cfg(test)]
mod tests;
