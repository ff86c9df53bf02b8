//! Telling the master what a disk has, after this client or the master has started again.
//! Invariant: what the master does not take is made void, so that it is never announced again; the
//! announcement ends only after that, because the master forgets then what it has refused.

use super::keeper::KeptDisk;
use super::owner::{DiskCalls, DiskOwner};
use crate::limits::{BURIAL_WAIT, DISK_LIST_WAIT, KEY_BYTES_PER_CALL, KEYS_PER_CALL};
use perigee_rpc::{CallError, FoundCopy};
use perigee_schemas::Status;
use perigee_ssd::recovery::Survivor;
use perigee_ssd::{ListCursor, ListedPage, VoidCopy};

impl KeptDisk {
    /// First from where on the log can be read, then all that is there: so a copy in a segment that
    /// has gone is refused at once. False if it did not come to an end.
    pub(super) async fn announce(&mut self, owner: &impl DiskOwner) -> Result<bool, CallError> {
        let _in_order = owner.in_order().await;
        let mounts = owner.mounts();
        if !self.tell_oldest(owner, self.disk.oldest()).await? {
            return Ok(false);
        }
        (self.announced, self.is_whole, self.refused) = (0, false, Vec::new());
        let mut copies = 0;
        if let Some(found) = self.found.take() {
            // Not kept for the next time: some of it may be void by then.
            if !self.tell(owner, &found).await? {
                return Ok(false);
            }
            copies += found.len();
        } else {
            let mut from = None;
            loop {
                let Some(ListedPage { objects, next }) = self.page(owner, from).await else {
                    return Ok(false);
                };
                if !self.tell(owner, &objects).await? {
                    return Ok(false);
                }
                copies += objects.len();
                if next.is_none() {
                    break;
                }
                from = next;
            }
        }
        // 0 stands for a disk that no master has heard of.
        debug_assert!((1..=owner.mounts()).contains(&mounts), "mounts are counted from 1, upwards");
        self.announced = mounts;
        tracing::info!(disk = %self.id, copies, "The master knows what a disk has");
        self.end_announcement(owner).await?;
        Ok(true)
    }

    /// Makes void what was refused, then tells that all was announced. What cannot be made void at
    /// the moment is tried again later.
    pub(super) async fn end_announcement(
        &mut self,
        owner: &impl DiskOwner,
    ) -> Result<(), CallError> {
        if !self.refused.is_empty() {
            let buried = owner.answered(self.disk.bury(self.refused.clone()), BURIAL_WAIT).await;
            if !matches!(buried, Ok(Ok(()))) {
                return Ok(());
            }
            for copy in self.refused.drain(..) {
                owner.void().forget(copy.generation);
            }
        }
        debug_assert!(self.found.is_none(), "what was found comes before the end");
        owner.master().announce_copies(self.id, &[], true).await?;
        self.is_whole = true;
        Ok(())
    }

    /// Some of what the disk has now; `None` if it cannot say.
    async fn page(&self, owner: &impl DiskOwner, from: Option<ListCursor>) -> Option<ListedPage> {
        let error = match owner.answered(self.disk.list(from), DISK_LIST_WAIT).await {
            Ok(Ok(page)) => return Some(page),
            Ok(Err(error)) => error.to_string(),
            Err(error) => error.to_string(),
        };
        tracing::warn!(error, disk = %self.id, "A disk cannot say what it has; it is asked again");
        None
    }

    /// Announces some copies, in calls of bounded size; false if the master does not know the disk
    /// everywhere yet. It must not hear the end of an announcement that it has not heard: it would
    /// forget which of the copies are void.
    async fn tell(
        &mut self,
        owner: &impl DiskOwner,
        found: &[Survivor],
    ) -> Result<bool, CallError> {
        let mut rest = found;
        while !rest.is_empty() {
            let (page, after) = rest.split_at(page_len(rest));
            debug_assert!(!page.is_empty(), "each call announces some");
            // An earlier life of the master has said so, and this one may not know it.
            let (void, page): (Vec<&Survivor>, Vec<&Survivor>) =
                page.iter().partition(|it| owner.void().has(it.generation));
            let copies: Vec<FoundCopy<'_>> = page.iter().map(|it| found_copy(it)).collect();
            let verdicts = owner.master().announce_copies(self.id, &copies, false).await?;
            if verdicts.contains(&Status::SegmentNotFound) {
                return Ok(false);
            }
            // A copy without a verdict would be neither known to the master nor void.
            debug_assert_eq!(verdicts.len(), page.len(), "one verdict per copy");
            let refused = page.iter().zip(verdicts);
            let refused = refused.filter(|(_, verdict)| *verdict == Status::ObjectNotFound);
            let void = void.into_iter().chain(refused.map(|(it, _)| *it));
            let void = void.map(|it| VoidCopy { hash: it.hash, generation: it.generation });
            self.refused.extend(void);
            rest = after;
        }
        Ok(true)
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
