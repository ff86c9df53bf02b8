//! Copies that readers could not read, looked at by the owner of the disk: whether the disk has
//! other bytes than were written there, or they were damaged on their way.
//! Invariant: damage that was found on the disk is counted, and said within bounds.

use super::command::{DiskPiece, ExaminePromise, ExaminedCopy};
use super::driver::DiskDriver;
use super::error::ReadError;
use super::status::count;
use crate::image::is_intact;
use crate::limits::{DAMAGE_PAUSE, READ_DEADLINE};
use perigee_schemas::extent::{extent_bytes, generation_offset};
use perigee_shard::Environment;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

/// What a disk has where a copy was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// The copy as it was written.
    Intact,
    /// Other bytes.
    Damaged,
    /// It could not be read, or its segment has gone.
    Unread,
}

/// When damage was said last, and how often it was not said since.
#[derive(Debug, Default)]
pub(super) struct DamageLog {
    said: Cell<Option<Duration>>,
    unsaid: Cell<u64>,
}

impl DamageLog {
    /// How many lines were left out before this one; none if this one is, too.
    fn admit(&self, now: Duration) -> Option<u64> {
        let is_soon = self.said.get().is_some_and(|said| now.saturating_sub(said) < DAMAGE_PAUSE);
        if is_soon {
            self.unsaid.set(self.unsaid.get() + 1);
            return None;
        }
        self.said.set(Some(now));
        Some(self.unsaid.take())
    }
}

impl<E: Environment> DiskDriver<E> {
    pub(super) fn take_examination(
        self: &Rc<Self>,
        copies: Vec<ExaminedCopy>,
        promise: ExaminePromise,
    ) {
        let driver = self.clone();
        self.environment.spawn(async move {
            let mut findings = Vec::with_capacity(copies.len());
            for copy in &copies {
                findings.push(driver.examine(copy).await);
            }
            debug_assert_eq!(findings.len(), copies.len(), "one finding per copy");
            promise.give(findings);
        });
    }

    async fn examine(self: &Rc<Self>, copy: &ExaminedCopy) -> Finding {
        if !self.takes_reads() {
            return Finding::Unread;
        }
        let bytes = extent_bytes(u64::from(copy.payload_bytes));
        let Ok(bytes) = u32::try_from(bytes) else { return Finding::Unread };
        let piece = DiskPiece { address: copy.address, bytes, guard: None };
        match self.read_alone(piece, self.now() + READ_DEADLINE).await {
            Ok(image) => {
                let image = image.as_slice();
                if is_intact(image, copy.payload_bytes, copy.generation) {
                    return Finding::Intact;
                }
                let at = generation_offset(u64::from(copy.payload_bytes)) as usize;
                let is_whole = image[at..at + 8] == copy.generation.to_le_bytes();
                self.note_damage(
                    copy,
                    if is_whole { "its bytes are others" } else { "it is torn" },
                );
                Finding::Damaged
            }
            Err(ReadError::Forged) => {
                self.note_damage(copy, "it does not verify under its key");
                Finding::Damaged
            }
            Err(_) => Finding::Unread,
        }
    }

    fn note_damage(&self, copy: &ExaminedCopy, how: &str) {
        count(&self.cells.counters.damaged, 1);
        let Some(unlogged) = self.damage.admit(self.now()) else { return };
        tracing::warn!(
            disk = %self.folder.path.display(),
            key_hash = format!("{:016x}", copy.hash),
            segment = copy.address.sequence,
            offset = copy.address.offset,
            bytes = copy.payload_bytes,
            how,
            unlogged,
            "A copy on the disk is not what was written there: it is a miss from now on. After a \
             loss of power some are; otherwise the disk or its file system is damaged"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn much_damage_is_said_seldom_and_none_of_it_is_forgotten() {
        let (log, now) = (DamageLog::default(), Duration::from_secs(50));
        assert_eq!(log.admit(now), Some(0));
        assert_eq!((log.admit(now), log.admit(now + DAMAGE_PAUSE / 2)), (None, None));
        assert_eq!(log.admit(now + DAMAGE_PAUSE), Some(2));
        assert_eq!(log.admit(now + DAMAGE_PAUSE * 2), Some(0));
    }
}
