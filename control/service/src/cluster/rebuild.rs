//! The time after a restart in which owners announce what lies in their segments: calls about keys
//! that are not known yet wait for them.
//! Invariant: no call waits longer than [`PATIENCE`].

use super::control_shard::ControlShard;
use super::merge::StatusCodes;
use super::rebuild_window::Awaited;
use perigee_schemas::Status;
use perigee_shard::Environment;
use std::time::Duration;

/// Longest that a call waits for owners.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long after the start of a master who knew an earlier one is waited for.
const RETURN: Duration = Duration::from_secs(2);
/// Pause between two looks.
const PAUSE: Duration = Duration::from_millis(5);

impl<E: Environment> ControlShard<E> {
    /// A peer has met the master in the life of this epoch, if that is not 0.
    pub(crate) fn note_met(&self, epoch: u64) {
        if epoch != 0 && epoch != self.epoch {
            self.window.note_predecessor();
        }
    }

    /// Looks again what calls wait for here: after each change of segments, and as time passes
    /// while there is something.
    pub(super) fn count_awaited(&self) {
        let (keys, now_ms) = (self.keys.borrow(), self.now_ms());
        let now = Awaited { shares: keys.awaited(now_ms), room: keys.awaits_room(now_ms) };
        let before = self.awaited.replace(now);
        if before != now {
            self.window.note(before, now);
            self.cells.awaited_segments.set(now.shares as u64);
        }
    }

    /// Counts objects that were taken over just now.
    pub(super) fn count_adopted(&self, adopted: usize) {
        if adopted > 0 {
            self.cells.adopted_objects.add(adopted as u64);
            let since_start = self.environment.now().saturating_sub(self.began);
            self.cells.rebuild_ns.set(since_start.as_nanos() as u64);
        }
    }

    /// Whether calls wait for something here.
    pub(super) fn awaits(&self) -> bool {
        self.awaited.get() != Awaited::default()
    }

    /// Whether owners may still come that have something to announce.
    fn may_return(&self) -> bool {
        self.window.has_predecessor() && self.environment.now().saturating_sub(self.began) < RETURN
    }

    /// Whether owners may still have objects to announce.
    fn is_rebuilding(&self) -> bool {
        self.window.awaits_objects() || self.may_return()
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

    /// Waits while puts would find no room because no segment takes them yet.
    pub(crate) async fn wait_for_room(&self) {
        let end = self.environment.now() + PATIENCE;
        let is_early =
            || self.window.awaits_room() || (self.may_return() && !self.keys.borrow().has_room());
        while is_early() && self.environment.now() < end {
            self.environment.sleep(PAUSE).await;
        }
    }
}
