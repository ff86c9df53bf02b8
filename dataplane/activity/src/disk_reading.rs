//! A disk of a process, as its page has it. Invariant: what another process wrote is shown only if
//! it was whole, and as text that moves no cursor.

use crate::disk_cells::{DISK_WORDS, TEXT_WORDS};
use crate::layout::text;
use crate::limits::{DISK_PATH_BYTES, DISK_REASON_BYTES, DISK_STATE_BYTES, LATENCY_BUCKETS};

/// A disk as its process shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskReading {
    /// The folder that its user has named.
    pub path: String,
    /// The name of its state.
    pub state: String,
    /// Why it is not healthy; empty if it is.
    pub reason: String,
    /// When it is tried again, in milliseconds since 1970; 0 if it is not.
    pub retry_ms: u64,
    /// Most bytes of its log.
    pub capacity_bytes: u64,
    /// Bytes of its log that can be read.
    pub used_bytes: u64,
    /// Bytes that were read since it was opened.
    pub read_bytes: u64,
    /// Bytes that were written since then.
    pub written_bytes: u64,
    /// Operations that failed since then.
    pub errors: u64,
    /// How long reads of its files took.
    pub reads: DiskLatency,
    /// How long writes and syncs took.
    pub writes: DiskLatency,
}

/// How long operations took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskLatency {
    /// Nanoseconds of all.
    pub sum_ns: u64,
    /// Operations by latency: bucket `n` holds `[2^n, 2^(n+1))` ns.
    pub buckets: [u64; LATENCY_BUCKETS],
}

impl Default for DiskLatency {
    fn default() -> Self {
        Self { sum_ns: 0, buckets: [0; LATENCY_BUCKETS] }
    }
}

impl DiskReading {
    pub(crate) fn encode(&self) -> [u64; DISK_WORDS] {
        let mut bytes = [0; 8 * TEXT_WORDS];
        let (path, rest) = bytes.split_at_mut(DISK_PATH_BYTES);
        let (reason, state) = rest.split_at_mut(DISK_REASON_BYTES);
        for (room, text) in [(path, &self.path), (reason, &self.reason), (state, &self.state)] {
            let end = text.floor_char_boundary(room.len());
            room[..end].copy_from_slice(&text.as_bytes()[..end]);
        }
        let texts = bytes.chunks_exact(8).map(|chunk| {
            let mut word = [0; 8];
            word.copy_from_slice(chunk);
            u64::from_ne_bytes(word)
        });
        let numbers = [
            self.retry_ms,
            self.capacity_bytes,
            self.used_bytes,
            self.read_bytes,
            self.written_bytes,
            self.errors,
            self.reads.sum_ns,
            self.writes.sum_ns,
        ];
        let times = [self.reads.buckets, self.writes.buckets].into_iter().flatten();
        let mut words = [0; DISK_WORDS];
        for (cell, word) in words.iter_mut().zip(texts.chain(numbers).chain(times)) {
            *cell = word;
        }
        words
    }

    /// A disk of another process, from two copies of its place; none if there is none, or if it was
    /// written in between.
    pub(crate) fn decode(one: &[u8], other: &[u8]) -> Option<Self> {
        let number = u64::from_ne_bytes(*one.first_chunk()?);
        if one != other || number == 0 || number % 2 == 1 {
            return None;
        }
        let body = &one[8..];
        let (path, rest) = body.split_at_checked(DISK_PATH_BYTES)?;
        let (reason, rest) = rest.split_at_checked(DISK_REASON_BYTES)?;
        let (state, rest) = rest.split_at_checked(DISK_STATE_BYTES)?;
        let mut words = rest.chunks_exact(8).filter_map(|chunk| chunk.first_chunk::<8>());
        let mut next = || words.next().map_or(0, |word| u64::from_ne_bytes(*word));
        let mut disk = Self {
            path: text(path),
            state: text(state),
            reason: text(reason),
            retry_ms: next(),
            capacity_bytes: next(),
            used_bytes: next(),
            read_bytes: next(),
            written_bytes: next(),
            errors: next(),
            ..Self::default()
        };
        (disk.reads.sum_ns, disk.writes.sum_ns) = (next(), next());
        disk.reads.buckets = std::array::from_fn(|_| next());
        disk.writes.buckets = std::array::from_fn(|_| next());
        Some(disk)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk_cells::DISK_BYTES;

    #[test]
    fn what_is_being_written_or_no_text_is_not_taken_as_it_is() {
        let mut bytes = vec![0; DISK_BYTES];
        assert_eq!(DiskReading::decode(&bytes, &bytes), None, "there is none");
        bytes[..8].copy_from_slice(&3_u64.to_ne_bytes());
        assert_eq!(DiskReading::decode(&bytes, &bytes), None, "it is being written");
        bytes[..8].copy_from_slice(&4_u64.to_ne_bytes());
        bytes[8..12].copy_from_slice(b"/\x1b[\n");
        let read = DiskReading::decode(&bytes, &bytes).unwrap();
        assert_eq!(read.path, "/\u{fffd}[\u{fffd}");
        let other = vec![0; DISK_BYTES];
        assert_eq!(DiskReading::decode(&bytes, &other), None, "it has changed");
    }
}
