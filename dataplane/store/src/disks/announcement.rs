//! Telling the master what a disk has, after this client or the master has started again.
//! Invariant: what the master does not take is made void, so that it is never announced again.

use super::context::DiskContext;
use super::keeper::KeptDisk;
use crate::limits::{DISK_LIST_WAIT, KEY_BYTES_PER_CALL, KEYS_PER_CALL};
use perigee_rpc::{CallError, FoundCopy};
use perigee_schemas::Status;
use perigee_ssd::recovery::Survivor;
use perigee_ssd::{ListCursor, ListedPage, VoidCopy};
use std::sync::atomic::Ordering;

impl KeptDisk {
    /// First from where on the log can be read, then all that is there: so a copy in a segment that
    /// has gone is refused at once. False if it did not come to an end.
    pub(super) fn announce(&mut self, context: &DiskContext) -> Result<bool, CallError> {
        let _in_order = context.in_order();
        let mounts = context.mounts.load(Ordering::Acquire);
        if !self.tell_oldest(context, self.disk.oldest())? {
            return Ok(false);
        }
        let mut copies = 0;
        if let Some(found) = self.found.take() {
            self.tell(context, &found, true)?;
            copies += found.len();
        } else {
            let mut from = None;
            loop {
                let Some(ListedPage { objects, next }) = self.page(from) else {
                    return Ok(false);
                };
                self.tell(context, &objects, next.is_none())?;
                copies += objects.len();
                if next.is_none() {
                    break;
                }
                from = next;
            }
        }
        self.announced = mounts;
        tracing::info!(disk = %self.id, copies, "The master knows what a disk has");
        Ok(true)
    }

    /// Some of what the disk has now; `None` if it cannot say.
    fn page(&self, from: Option<ListCursor>) -> Option<ListedPage> {
        let error = match self.disk.list(from).wait(DISK_LIST_WAIT) {
            Ok(Ok(page)) => return Some(page),
            Ok(Err(error)) => error.to_string(),
            Err(error) => error.to_string(),
        };
        tracing::warn!(error, disk = %self.id, "A disk cannot say what it has; it is asked again");
        None
    }

    /// Announces some copies, in calls of bounded size.
    fn tell(
        &self,
        context: &DiskContext,
        found: &[Survivor],
        is_last: bool,
    ) -> Result<(), CallError> {
        let mut rest = found;
        loop {
            let (page, after) = rest.split_at(page_len(rest));
            let copies: Vec<FoundCopy<'_>> = page.iter().map(found_copy).collect();
            let verdicts =
                context.master.announce_copies(self.id, &copies, is_last && after.is_empty())?;
            let refused = page.iter().zip(verdicts);
            let refused = refused.filter(|(_, verdict)| *verdict == Status::ObjectNotFound);
            let void: Vec<VoidCopy> = refused
                .map(|(it, _)| VoidCopy { hash: it.hash, generation: it.generation })
                .collect();
            if !void.is_empty() {
                drop(self.disk.bury(void));
            }
            rest = after;
            if rest.is_empty() {
                return Ok(());
            }
        }
    }
}

/// How many of the first survivors go into one call.
fn page_len(survivors: &[Survivor]) -> usize {
    let mut bytes = 0;
    let fits = |one: &&Survivor| {
        bytes += one.labels.key.len() + one.labels.group.len();
        bytes <= KEY_BYTES_PER_CALL
    };
    survivors.iter().take(KEYS_PER_CALL).take_while(fits).count().max(1).min(survivors.len())
}

fn found_copy(survivor: &Survivor) -> FoundCopy<'_> {
    // Keys come from calls, which carry them as texts; what is none is refused under no name.
    FoundCopy {
        key: text_of(&survivor.labels.key),
        group: text_of(&survivor.labels.group),
        generation: survivor.generation,
        payload_bytes: survivor.payload_bytes.into(),
        checksum: survivor.checksum,
        address: survivor.address.pack(),
    }
}

fn text_of(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap_or_default()
}
