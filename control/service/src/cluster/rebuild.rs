//! The time after a restart in which owners announce what lies in their segments: calls about keys
//! that are not known yet wait for them.
//! Invariant: no call waits longer than [`PATIENCE`].

use super::control_shard::ControlShard;
use super::merge::StatusCodes;
use perigee_schemas::Status;
use perigee_shard::Environment;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// Longest that a call waits for owners.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long after the start of a master who knew an earlier one is waited for.
const RETURN: Duration = Duration::from_secs(2);
/// Pause between two looks.
const PAUSE: Duration = Duration::from_millis(5);

/// What the shards of a master know of its restart. They share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct RebuildWindow(Arc<Window>);

#[derive(Debug, Default)]
struct Window {
    /// Somebody has met an earlier life of this master.
    has_predecessor: AtomicBool,
    /// Shares of segments that owners have not announced whole.
    incomplete: AtomicUsize,
}

impl RebuildWindow {
    fn is_incomplete(&self) -> bool {
        self.0.incomplete.load(Ordering::Relaxed) > 0
    }

    /// The number of a shard's shares that are being rebuilt has changed.
    fn note(&self, before: usize, now: usize) {
        self.0.incomplete.fetch_add(now, Ordering::Relaxed);
        self.0.incomplete.fetch_sub(before, Ordering::Relaxed);
    }
}

impl<E: Environment> ControlShard<E> {
    /// A peer has met the master in the life of this epoch, if that is not 0.
    pub(crate) fn note_met(&self, epoch: u64) {
        if epoch != 0 && epoch != self.epoch {
            self.window.0.has_predecessor.store(true, Ordering::Relaxed);
        }
    }

    /// Counts the segments that are being rebuilt again.
    pub(super) fn count_rebuilding(&self) {
        let now = self.keys.borrow().rebuilding();
        let before = self.rebuilding.replace(now);
        if before != now {
            self.window.note(before, now);
        }
    }

    /// Whether owners may still have something to announce.
    fn is_rebuilding(&self) -> bool {
        let is_young = self.environment.now().saturating_sub(self.began) < RETURN;
        let has_predecessor = self.window.0.has_predecessor.load(Ordering::Relaxed);
        self.window.is_incomplete() || (is_young && has_predecessor)
    }

    /// Waits while some of these keys are unknown and owners may still announce them.
    pub(crate) async fn wait_for_keys(&self, keys: &[&[u8]]) {
        let end = self.environment.now() + PATIENCE;
        while self.is_rebuilding() && self.environment.now() < end {
            let known: StatusCodes = self
                .scatter(keys, |owner, _, share, codes: &mut StatusCodes| {
                    owner.known(share.keys, &mut codes.0);
                })
                .await;
            if known.0.iter().all(|code| *code == Status::Ok.code()) {
                return;
            }
            self.environment.sleep(PAUSE).await;
        }
    }

    /// Waits while owners may still announce objects.
    pub(crate) async fn wait_for_owners(&self) {
        let end = self.environment.now() + PATIENCE;
        while self.is_rebuilding() && self.environment.now() < end {
            self.environment.sleep(PAUSE).await;
        }
    }

    /// Waits while puts may find no room, or a key of theirs taken, for segments that are being
    /// rebuilt.
    pub(crate) async fn wait_for_room(&self) {
        let end = self.environment.now() + PATIENCE;
        let is_early = || {
            let has_room = self.keys.borrow().has_room();
            self.window.is_incomplete() || (!has_room && self.is_rebuilding())
        };
        while is_early() && self.environment.now() < end {
            self.environment.sleep(PAUSE).await;
        }
    }
}
