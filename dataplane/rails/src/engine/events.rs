//! Completion events as what wakes a sleeping shard: its ring watches the channels of its queues.
//!
//! The invariant: a queue that is armed is watched, as long as its channel works, and one whose
//! events were taken is armed again before the next sleep.

use perigee_shard::ShardEnvironment;
use perigee_verbs::CompletionQueue;
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

/// The completion queues of one shard.
pub(super) struct WatchedQueues(Vec<WatchedQueue>);

struct WatchedQueue {
    queue: Arc<dyn CompletionQueue>,
    armed: Cell<bool>,
}

impl WatchedQueues {
    pub(super) fn new(queues: impl Iterator<Item = Arc<dyn CompletionQueue>>) -> Self {
        let unarmed = |queue| WatchedQueue { queue, armed: Cell::new(false) };
        Self(queues.map(unarmed).collect())
    }

    /// Makes the next completion on any of them wake the shard.
    pub(super) fn arm(&self) {
        for watched in self.0.iter().filter(|watched| !watched.armed.get()) {
            match watched.queue.arm() {
                Ok(()) => watched.armed.set(true),
                Err(error) => tracing::warn!(%error, "A completion queue cannot be armed"),
            }
        }
    }

    /// Watches all channels until the returned future is dropped.
    pub(super) async fn watch(&self, environment: &ShardEnvironment) {
        let watch = |watched| Box::pin(WatchedQueue::watch(watched, environment)) as Pin<Box<_>>;
        let mut watches: Vec<Pin<Box<dyn Future<Output = ()>>>> =
            self.0.iter().map(watch).collect();
        poll_fn(|context| {
            watches.retain_mut(|watch| watch.as_mut().poll(context).is_pending());
            Poll::<()>::Pending
        })
        .await;
    }
}

impl WatchedQueue {
    /// Takes events as they come. Ends with a channel that is broken: it would be readable forever.
    async fn watch(&self, environment: &ShardEnvironment) {
        loop {
            if let Err(error) = environment.readable(self.queue.event_fd()).await {
                return tracing::error!(%error, "Completion events cannot be waited for; the shard polls instead");
            }
            let drained = self.queue.drain_events();
            self.armed.set(false);
            match drained {
                Ok(0) => {
                    return tracing::error!(
                        "A completion channel is broken; the shard polls instead"
                    );
                }
                Ok(_) => {}
                Err(error) => {
                    return tracing::error!(%error, "Completion events cannot be read; the shard polls instead");
                }
            }
        }
    }
}
