//! Progress of one request: bytes cut into slices, bytes moved, slices under way, and how it ends.
//!
//! A request ends exactly once, and only when nothing of it is on the wire any more: until then a
//! device may still read or write the caller's memory, whatever has been decided.

use crate::slicing::cut;

/// What is left to cut of a request, and what came of the rest. `E` says why it failed.
#[derive(Clone, Debug)]
pub(crate) struct Progress<E> {
    bytes: u64,
    cut: u64,
    moved: u64,
    slices: u32,
    failure: Option<E>,
    /// Broken queue pairs whose packets may still land.
    fences: u32,
    /// Such packets were never ruled out: it has failed, whatever arrived.
    unsure: bool,
    ended: bool,
}

impl<E> Progress<E> {
    /// A request of `bytes`.
    pub(crate) fn new(bytes: u64) -> Self {
        Self {
            bytes,
            cut: 0,
            moved: 0,
            slices: 0,
            failure: None,
            fences: 0,
            unsure: false,
            ended: false,
        }
    }

    /// Bytes that are not cut into slices yet; none once the request has failed or ended.
    pub(crate) fn uncut(&self) -> u64 {
        if self.failure.is_some() || self.ended { 0 } else { self.bytes - self.cut }
    }

    /// First byte that is not cut yet.
    pub(crate) fn cursor(&self) -> u64 {
        self.cut
    }

    /// Why it has failed.
    pub(crate) fn failure(&self) -> Option<&E> {
        self.failure.as_ref()
    }

    /// Cuts the next slice off: its offset and length. `remote` is the address of the cursor,
    /// `room` the bytes up to the next border of a region. `None` if nothing is left.
    pub(crate) fn next_slice(
        &mut self,
        slice_bytes: u64,
        remote: u64,
        room: u64,
    ) -> Option<(u64, u64)> {
        let length = cut(slice_bytes, remote, self.uncut(), room);
        if length == 0 {
            return None;
        }
        let offset = self.cut;
        self.cut += length;
        debug_assert!(self.cut <= self.bytes, "no more is cut than there is");
        self.slices += 1;
        Some((offset, length))
    }

    /// A slice arrived.
    pub(crate) fn slice_moved(&mut self, bytes: u64) {
        debug_assert!(self.slices > 0, "what arrives was on its way");
        self.slices = self.slices.saturating_sub(1);
        self.moved += bytes;
        debug_assert!(self.moved <= self.cut, "a byte arrives once");
    }

    /// A slice came to nothing; the request has failed already, or is failed next.
    pub(crate) fn slice_dropped(&mut self) {
        debug_assert!(self.slices > 0, "what is dropped was a slice");
        self.slices = self.slices.saturating_sub(1);
    }

    /// The request is given up: cancelled, late, or its peer is gone. What is on the wire still has
    /// to end.
    pub(crate) fn fail(&mut self, reason: E) {
        if self.failure.is_none() && self.moved < self.bytes {
            self.failure = Some(reason);
        }
    }

    /// A queue pair broke under a write of this request: it does not end before
    /// [`Progress::unhold`].
    pub(crate) fn hold(&mut self) {
        self.fences += 1;
    }

    /// No packet of one of these queue pairs can land any more.
    pub(crate) fn unhold(&mut self) {
        debug_assert!(self.fences > 0, "each fence is released once");
        self.fences = self.fences.saturating_sub(1);
    }

    /// Panics unless the counts agree.
    #[cfg(test)]
    pub(crate) fn check(&self, slices: usize, fences: usize) {
        assert!(self.moved <= self.cut && self.cut <= self.bytes);
        assert_eq!(self.slices as usize, slices, "slices under way or waiting");
        assert_eq!(self.fences as usize, fences, "broken queue pairs waited for");
        assert!(!self.ended || (slices, fences) == (0, 0), "the end comes last");
    }

    /// Whether packets of broken queue pairs may still land.
    pub(crate) fn is_held(&self) -> bool {
        self.fences > 0
    }

    /// It ends although such packets could not be ruled out.
    pub(crate) fn let_go(&mut self, reason: E) {
        if std::mem::take(&mut self.fences) > 0 {
            self.failure = Some(reason);
            self.unsure = true;
        }
    }

    /// The outcome, once, as soon as nothing of the request is under way.
    pub(crate) fn take_outcome(&mut self) -> Option<Result<(), E>> {
        if self.ended || self.slices > 0 || self.uncut() > 0 || self.fences > 0 {
            return None;
        }
        self.ended = true;
        // Bytes that have all arrived are no failure, even if the request was given up before.
        let incomplete = self.moved < self.bytes || self.unsure;
        // To tell of bytes as moved that are not would be a wrong byte.
        assert!(self.failure.is_some() || !incomplete, "bytes are missing");
        let failure = self.failure.take().filter(|_| incomplete);
        Some(failure.map_or(Ok(()), Err))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_cancelled_request_ends_only_when_nothing_is_on_the_wire() {
        let mut progress = Progress::new(100);
        assert_eq!(progress.next_slice(40, 0, 1000), Some((0, 40)));
        progress.fail("canceled");
        assert_eq!(progress.next_slice(40, 40, 1000), None);
        assert_eq!(progress.take_outcome(), None);
        progress.slice_moved(40);
        assert_eq!(progress.take_outcome(), Some(Err("canceled")));
        assert_eq!(progress.take_outcome(), None);
        assert_eq!(progress.moved, 40);
    }

    #[test]
    fn a_request_whose_late_packets_cannot_be_ruled_out_fails_although_its_bytes_arrived() {
        for confirmed in [true, false] {
            let mut progress = Progress::new(10);
            progress.next_slice(10, 0, 10);
            progress.hold();
            progress.slice_moved(10);
            assert_eq!(progress.take_outcome(), None);
            if confirmed {
                progress.unhold();
                assert_eq!(progress.take_outcome(), Some(Ok(())));
            } else {
                progress.let_go("unfenced");
                assert_eq!(progress.take_outcome(), Some(Err("unfenced")));
            }
        }
    }

    #[test]
    fn a_request_whose_bytes_have_all_arrived_cannot_be_cancelled() {
        let mut progress = Progress::new(10);
        progress.next_slice(10, 0, 10);
        progress.slice_moved(10);
        progress.fail("canceled");
        assert_eq!(progress.take_outcome(), Some(Ok(())));
    }

    #[test]
    fn a_request_of_no_bytes_is_done() {
        assert_eq!(Progress::<()>::new(0).take_outcome(), Some(Ok(())));
    }

    proptest! {
        #[test]
        fn every_byte_is_cut_once_and_the_outcome_comes_once(
            bytes in 1u64..1_000_000, slice in 1u64..100_000,
            events in proptest::collection::vec(0u8..20, 1..300),
        ) {
            let mut progress = Progress::new(bytes);
            let mut flying = Vec::new();
            let (mut outcomes, mut end) = (Vec::new(), 0);
            for event in events.into_iter().chain(std::iter::repeat_n(10, 3)) {
                match (event, flying.pop()) {
                    (0, last) => {
                        flying.extend(last);
                        progress.fail("canceled");
                    }
                    (1, Some(_)) => {
                        progress.slice_dropped();
                        progress.fail("broken");
                    }
                    (2..8, Some(length)) => progress.slice_moved(length),
                    (_, last) => {
                        flying.extend(last);
                        if let Some((offset, length)) = progress.next_slice(slice, end, u64::MAX) {
                            prop_assert_eq!(offset, end);
                            end += length;
                            flying.push(length);
                        }
                    }
                }
                prop_assert_eq!(progress.slices as usize, flying.len());
                prop_assert!(progress.moved <= bytes && end <= bytes);
                outcomes.extend(progress.take_outcome());
            }
            progress.fail("canceled");
            while let Some(length) = flying.pop() {
                progress.slice_moved(length);
            }
            outcomes.extend(progress.take_outcome());
            prop_assert_eq!(outcomes.len(), 1);
            prop_assert_eq!(outcomes[0].is_ok(), progress.moved == bytes);
        }
    }
}
