//! Copies that readers could not read, looked at by the owner of the disk: whether the disk has
//! other bytes than were written there, or they were damaged on their way.
//! Invariant: damage that was found on the disk is counted, and said within bounds.

use super::command::{CopyFinding, DiskPiece, ExaminePromise, ExaminedCopy};
use super::driver::DiskDriver;
use super::error::ReadError;
use super::status::count;
use crate::image::is_intact;
use crate::limits::READ_DEADLINE;
use perigee_schemas::extent::{extent_bytes, generation_offset};
use perigee_shard::Environment;
use std::rc::Rc;

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

    async fn examine(self: &Rc<Self>, copy: &ExaminedCopy) -> CopyFinding {
        if !self.takes_reads() {
            return CopyFinding::Unread;
        }
        let bytes = extent_bytes(u64::from(copy.payload_bytes));
        let Ok(bytes) = u32::try_from(bytes) else { return CopyFinding::Unread };
        let piece = DiskPiece { address: copy.address, bytes, guard: None };
        match self.read_alone(piece, self.now() + READ_DEADLINE).await {
            Ok(image) => {
                let image = image.as_slice();
                if is_intact(image, copy.payload_bytes, copy.generation) {
                    return CopyFinding::Intact;
                }
                let at = generation_offset(u64::from(copy.payload_bytes)) as usize;
                let is_whole = image[at..at + 8] == copy.generation.to_le_bytes();
                self.note_damage(
                    copy,
                    if is_whole { "its bytes are others" } else { "it is torn" },
                );
                CopyFinding::Damaged
            }
            Err(ReadError::Forged) => {
                self.note_damage(copy, "it does not verify under its key");
                CopyFinding::Damaged
            }
            Err(_) => CopyFinding::Unread,
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
