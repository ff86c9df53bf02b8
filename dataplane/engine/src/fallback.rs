//! Where slices go that a faster route gives back: over TCP, while there is time.

use crate::client::{Order, Terms};
use crate::shards::Shards;
use crate::slice::Slice;
use crate::target::Target;
use std::sync::Arc;

/// The way over TCP for slices of one batch.
#[derive(Clone, Debug)]
pub(crate) struct Fallback {
    pub(crate) shards: Arc<Shards>,
    pub(crate) target: Arc<Target>,
    pub(crate) terms: Terms,
}

impl Fallback {
    /// Sends a slice over TCP.
    pub(crate) fn divert(&self, slice: Slice) {
        self.divert_all(std::iter::once(slice));
    }

    /// Sends slices over TCP.
    pub(crate) fn divert_all(&self, slices: impl Iterator<Item = Slice>) {
        let order = |slice| Order {
            target: self.target.clone(),
            slice,
            terms: self.terms,
        };
        self.shards.submit(slices.map(order));
    }
}
