//! Spans of one request under way. Invariant: they are written where they stay, and their places
//! are used again, so a usual request asks for no memory.

use crate::span::Span;

/// Spans below a call that stand alone; further exchanges count with others of their link.
pub(super) const SPANS_PER_CALL: usize = 48;

/// The spans, and the place of the next one.
#[derive(Debug, Default)]
pub(super) struct GatheredSpans {
    places: Vec<Span>,
    /// How many places, the first ones, are taken.
    taken: usize,
    /// Spans that found neither room nor another one of their link.
    left_out: u32,
}

impl GatheredSpans {
    /// Forgets all of them.
    pub(super) fn clear(&mut self) {
        (self.taken, self.left_out) = (0, 0);
    }

    /// Those that are shown.
    pub(super) fn shown(&self) -> &[Span] {
        &self.places[..self.taken]
    }

    /// How many there are, with those that are not shown.
    pub(super) fn count(&self) -> u32 {
        self.left_out.saturating_add(self.taken as u32)
    }

    /// Where the next span is written: behind those that are shown.
    pub(super) fn free_place(&mut self) -> &mut Span {
        if self.taken == self.places.len() {
            self.places.push(Span::BLANK);
        }
        &mut self.places[self.taken]
    }

    /// The span in the free place is whole. Where all are shown that may be, it counts with another
    /// one of its link.
    pub(super) fn take_place(&mut self) {
        if self.taken < SPANS_PER_CALL {
            self.taken += 1;
            return;
        }
        let (shown, more) = self.places.split_at_mut(self.taken);
        match shown.iter_mut().rev().find(|other| other.is_alike(&more[0])) {
            Some(alike) => alike.absorb(&more[0]),
            None => self.left_out += 1,
        }
    }
}
