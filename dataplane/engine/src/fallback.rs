//! Where slices go that a faster route gives back: over TCP, while there is time.

use crate::slice::RequestSlice;
use crate::target::Target;
use perigee_mover::{Order, Shards, Terms};
use std::sync::Arc;

/// The way over TCP for slices of one batch.
#[derive(Clone, Debug)]
pub(crate) struct Fallback {
    pub(crate) shards: Arc<Shards<RequestSlice>>,
    pub(crate) target: Arc<Target>,
    pub(crate) terms: Terms,
}

impl Fallback {
    /// Sends a slice over TCP.
    pub(crate) fn divert(&self, slice: RequestSlice) {
        self.divert_all(std::iter::once(slice));
    }

    /// Sends slices over TCP.
    pub(crate) fn divert_all(&self, slices: impl Iterator<Item = RequestSlice>) {
        let order = |slice| Order {
            target: self.target.tcp.clone(),
            slice,
            terms: self.terms,
        };
        self.shards.submit(slices.map(order));
    }
}
