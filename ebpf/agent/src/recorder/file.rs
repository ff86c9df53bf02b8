//! A track in a file: a head, then records, each with its length and sum. Invariant: a record is
//! appended whole or is not there for the next agent; the file is at most twice as long as what the
//! track holds.

use super::record::Record;
use crate::limits::TrackLimits;
use crc_fast::{CrcAlgorithm, checksum};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

/// Head of the file; its last byte is the version.
const HEAD: &[u8; 8] = b"PERIHIS\x01";
/// Time, length and sum before each record.
const RECORD_HEAD: usize = 16;
/// Appends after a failed one before the file is tried again.
const PAUSE: u32 = 60;

#[derive(Debug)]
pub(super) struct TrackFile {
    path: PathBuf,
    limits: &'static TrackLimits,
    /// `None` until it is written again, at the next record.
    open: Option<File>,
    bytes: usize,
    pause: u32,
}

/// Why a file is not as this build writes it.
enum Damage {
    Version,
    Record(usize),
}

impl TrackFile {
    /// The file and what it holds. One that is damaged, or of another version, is set aside; the
    /// records before the damage are kept.
    pub(super) fn open(path: &Path, limits: &'static TrackLimits) -> (Self, VecDeque<Record>) {
        let file = Self { path: path.to_owned(), limits, open: None, bytes: 0, pause: 0 };
        let mut bytes = Vec::new();
        let limit = 2 * limits.bytes as u64 + 1;
        let read = File::open(path).and_then(|file| file.take(limit).read_to_end(&mut bytes));
        match read {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                tracing::warn!(file = %path.display(), %error, "The history cannot be read");
            }
        }
        let (records, damage) = decode(&bytes, limits);
        if let Some(damage) = damage.filter(|_| !bytes.is_empty()) {
            file.set_aside(&damage);
        }
        (file, records)
    }

    fn set_aside(&self, damage: &Damage) {
        let aside = self.path.with_extension("damaged");
        let why = match damage {
            Damage::Version => "is not of this version".to_owned(),
            Damage::Record(at) => format!("is damaged at byte {at}"),
        };
        let renamed = std::fs::rename(&self.path, &aside);
        let error = renamed.err().map(|error| error.to_string()).unwrap_or_default();
        let (file, aside) = (self.path.display(), aside.display());
        tracing::warn!(%file, %aside, %error, "A file of the history {why} and is set aside");
    }

    /// Records were left out: the file is written again with the next one.
    pub(super) fn begin_again(&mut self) {
        self.open = None;
    }

    /// The clock was set back, and the last record lies so far ahead of it.
    pub(super) fn set_ahead_aside(&self, ahead_ms: u64) {
        let aside = self.path.with_extension("ahead");
        let renamed = std::fs::rename(&self.path, &aside);
        let error = renamed.err().map(|error| error.to_string()).unwrap_or_default();
        let (file, aside, seconds) = (self.path.display(), aside.display(), ahead_ms / 1000);
        tracing::warn!(
            %file, %aside, %error,
            "The clock was set back by {seconds} s: the history that lies ahead of it is no longer \
             shown, and its file is set aside"
        );
    }

    /// Adds a record, the last of `all`.
    pub(super) fn append(&mut self, record: &Record, all: &VecDeque<Record>) {
        if self.pause > 0 {
            self.pause -= 1;
            return;
        }
        let added = match &mut self.open {
            Some(file) if self.bytes < self.limits.file_bytes() => {
                let bytes = encode(record);
                self.bytes += bytes.len();
                file.write_all(&bytes)
            }
            _ => self.write(all),
        };
        if let Err(error) = added {
            let file = self.path.display();
            tracing::warn!(%file, %error, "The history cannot be kept over a restart of the agent");
            self.open = None;
            self.pause = PAUSE;
        }
    }

    /// Replaces the file by one that holds these records and nothing else.
    fn write(&mut self, all: &VecDeque<Record>) -> io::Result<()> {
        if let Some(folder) = self.path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let new = self.path.with_extension("new");
        let mut file = BufWriter::new(File::create(&new)?);
        let mut bytes = HEAD.len();
        file.write_all(HEAD)?;
        for record in all {
            let record = encode(record);
            bytes += record.len();
            file.write_all(&record)?;
        }
        let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
        std::fs::rename(&new, &self.path)?;
        (self.open, self.bytes) = (Some(file), bytes);
        Ok(())
    }
}

fn encode(record: &Record) -> Vec<u8> {
    let length = record.packed.len() as u32;
    let mut bytes = record.at_ms.to_le_bytes().to_vec();
    bytes.extend(length.to_le_bytes());
    bytes.extend(sum(record.at_ms, &record.packed).to_le_bytes());
    bytes.extend(&record.packed[..]);
    bytes
}

fn sum(at_ms: u64, packed: &[u8]) -> u32 {
    let sum = checksum(CrcAlgorithm::Crc32Iscsi, packed) as u32;
    sum ^ at_ms as u32 ^ (at_ms >> 32) as u32
}

/// The records up to the first that is not whole. A last one that was cut off is no damage: the
/// agent was killed while it wrote it.
fn decode(bytes: &[u8], limits: &TrackLimits) -> (VecDeque<Record>, Option<Damage>) {
    let mut records = VecDeque::new();
    let Some(mut rest) = bytes.strip_prefix(HEAD) else {
        return (records, Some(Damage::Version));
    };
    while let Some((head, behind)) = rest.split_first_chunk::<RECORD_HEAD>() {
        let word =
            |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let at_ms = u64::from(word(0)) | u64::from(word(4)) << 32;
        let length = word(8) as usize;
        if length > limits.record_bytes() {
            return (records, Some(Damage::Record(bytes.len() - rest.len())));
        }
        let Some((packed, next)) = behind.split_at_checked(length) else {
            break;
        };
        let last = records.back().map_or(0, |record: &Record| record.at_ms);
        if sum(at_ms, packed) != word(12) || at_ms < last {
            return (records, Some(Damage::Record(bytes.len() - rest.len())));
        }
        records.push_back(Record { at_ms, packed: packed.into() });
        rest = next;
    }
    (records, None)
}
