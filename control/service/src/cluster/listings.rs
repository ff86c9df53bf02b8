//! How many listings walk over keys at a time. Invariant: every wait has a deadline.

use perigee_schemas::Status;
use perigee_shard::Environment;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Pages of listings that are made at a time, on all shards together.
const AT_A_TIME_MAX: usize = 2;
/// Longest wait for a turn.
const PATIENCE: Duration = Duration::from_secs(4);
/// Pause between two looks for a turn.
const PAUSE: Duration = Duration::from_millis(5);

/// The turns; clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Listings(Arc<AtomicUsize>);

/// A turn; given back when it is dropped.
#[derive(Debug)]
pub(crate) struct ListingTurn(Arc<AtomicUsize>);

impl Listings {
    /// A turn, if there is one now.
    pub(crate) fn try_turn(&self) -> Option<ListingTurn> {
        let take = |taken: usize| (taken < AT_A_TIME_MAX).then_some(taken + 1);
        let taken = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        taken.is_ok().then(|| ListingTurn(self.0.clone()))
    }

    /// Waits for a turn.
    ///
    /// # Errors
    /// `RpcTimeout`: others took all turns for too long; ask again.
    pub(crate) async fn turn(&self, environment: &impl Environment) -> Result<ListingTurn, Status> {
        let deadline = environment.now() + PATIENCE;
        loop {
            if let Some(turn) = self.try_turn() {
                return Ok(turn);
            }
            if environment.now() >= deadline {
                return Err(Status::RpcTimeout);
            }
            environment.sleep(PAUSE).await;
        }
    }
}

impl Drop for ListingTurn {
    fn drop(&mut self) {
        let taken = self.0.fetch_sub(1, Ordering::Relaxed);
        debug_assert!((1..=AT_A_TIME_MAX).contains(&taken), "a turn is given back once");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_listings_have_a_turn_and_the_third_when_one_has_ended() {
        let listings = Listings::default();
        let first = listings.try_turn();
        let second = listings.clone().try_turn();
        assert!(first.is_some() && second.is_some());
        assert!(listings.try_turn().is_none());
        drop(first);
        assert!(listings.try_turn().is_some());
    }
}
