//! The slices of a blocking call that are not settled. Invariant: each is either still to be sent,
//! or under way in the order in which it was sent.

use crate::error::PeerError;
use crate::slice::Slice;
use perigee_schemas::Direction;
use std::collections::VecDeque;

/// Slices of a call that are not settled.
#[derive(Debug)]
pub(super) struct Unsettled<S> {
    pub(super) todo: VecDeque<S>,
    pub(super) under_way: VecDeque<S>,
}

impl<S: Slice> Unsettled<S> {
    pub(super) fn new(slices: impl Iterator<Item = S>) -> Self {
        Self { todo: slices.collect(), under_way: VecDeque::new() }
    }

    /// Whether all of it may go over another connection: bytes of a write that was sent may arrive
    /// late, when something newer lies there.
    pub(super) fn may_go_again(&self) -> bool {
        let reads = |slice: &S| slice.header().direction == Direction::Read;
        self.under_way.iter().all(reads)
    }

    /// Everything goes again over another connection.
    pub(super) fn rewind(&mut self) {
        while let Some(slice) = self.under_way.pop_back() {
            self.todo.push_front(slice);
        }
        debug_assert!(self.under_way.is_empty());
    }

    pub(super) fn is_empty(&self) -> bool {
        self.todo.is_empty() && self.under_way.is_empty()
    }

    pub(super) fn first(&self) -> Option<&S> {
        self.under_way.front().or(self.todo.front())
    }

    /// Fails what is left.
    pub(super) fn fail(&mut self, error: &PeerError) {
        self.rewind();
        self.todo.drain(..).for_each(|slice| slice.fail(error));
    }
}
