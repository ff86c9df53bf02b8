//! Bytes of frames as they arrive, judged before more is asked for. Pure.
//! Invariant: [`FrameBuffer::missing`] never asks for bytes of a payload that follows a frame, unless it was told to
//! take early bytes too.

use crate::limits::BODY_BYTES_MAX;
use crate::wire::invalid;
use perigee_schemas::frame::{HEADER_BYTES, Header};
use std::io;

/// The beginning of a frame, up to the whole of it.
#[derive(Debug)]
pub(crate) struct FrameBuffer {
    bytes: Vec<u8>,
    /// Length of the shortest frame that payload may follow.
    least: usize,
    /// Bytes of payload that may be received with a frame.
    early: usize,
}

impl FrameBuffer {
    /// For frames that payload may follow only if they have at least `least` bytes.
    pub(crate) fn new(least: usize) -> Self {
        Self {
            bytes: Vec::new(),
            least,
            early: 0,
        }
    }

    /// How many bytes may be received next; 0 when a whole frame is there.
    ///
    /// # Errors
    /// What arrived is not the beginning of a frame, or the frame is too long.
    pub(crate) fn missing(&self) -> io::Result<usize> {
        let total = self.total()?;
        if total.is_some_and(|total| self.bytes.len() >= total) {
            return Ok(0);
        }
        Ok(total.unwrap_or(0).max(self.least + self.early) - self.bytes.len())
    }

    /// From now on a frame may be received with this many bytes of what follows it.
    pub(crate) fn expect_early(&mut self, bytes: usize) {
        self.early = bytes;
    }

    /// Takes payload that came with its frame: what there is, at most `limit`.
    pub(crate) fn take_early(&mut self, limit: usize) -> Vec<u8> {
        let count = self.bytes.len().min(limit);
        self.bytes.drain(..count).collect()
    }

    /// Whether nothing has arrived yet.
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Lends the vector that the next bytes are appended to, with room for them.
    pub(crate) fn lend(&mut self, missing: usize) -> Vec<u8> {
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.reserve(missing);
        bytes
    }

    /// Takes the vector back.
    pub(crate) fn give_back(&mut self, bytes: Vec<u8>) {
        self.bytes = bytes;
    }

    /// Hands the whole frame to `read`, checks it, and drops it.
    ///
    /// # Errors
    /// The frame is not whole or damaged, or `read` refuses it.
    pub(crate) fn take<T>(
        &mut self,
        read: impl FnOnce(Header, &[u8]) -> io::Result<T>,
    ) -> io::Result<T> {
        let total = self.total()?.filter(|total| *total <= self.bytes.len());
        let total = total.ok_or(io::ErrorKind::UnexpectedEof)?;
        let header = self.header()?.ok_or(io::ErrorKind::UnexpectedEof)?;
        let body = &self.bytes[HEADER_BYTES..total];
        header.check(body).map_err(invalid)?;
        let taken = read(header, body);
        self.bytes.drain(..total);
        taken
    }

    fn header(&self) -> io::Result<Option<Header>> {
        let Some((head, _)) = self.bytes.split_first_chunk::<HEADER_BYTES>() else {
            return Ok(None);
        };
        Header::decode(head, BODY_BYTES_MAX)
            .map(Some)
            .map_err(invalid)
    }

    fn total(&self) -> io::Result<Option<usize>> {
        Ok(self
            .header()?
            .map(|header| HEADER_BYTES + header.body_bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perigee_schemas::frame::Kind;
    use proptest::prelude::*;

    proptest! {
        /// However frames are cut, they come out whole, and what follows a long frame is never asked for.
        #[test]
        fn frames_come_out_however_they_arrive(
            bodies in proptest::collection::vec(
                proptest::collection::vec(any::<u8>(), 48..300), 1..6
            ),
            steps in proptest::collection::vec(1usize..90, 1..200),
        ) {
            let mut wire = Vec::new();
            let mut ends = Vec::new();
            for (number, body) in bodies.iter().enumerate() {
                wire.extend_from_slice(&Header::encode(Kind::Move, number as u64, body));
                wire.extend_from_slice(body);
                ends.push(wire.len());
            }
            let mut buffer = FrameBuffer::new(HEADER_BYTES + 40);
            let (mut at, mut taken) = (0, 0);
            for step in steps.into_iter().cycle() {
                let missing = buffer.missing().unwrap();
                if missing == 0 {
                    let body = buffer.take(|_, body| Ok(body.to_vec())).unwrap();
                    prop_assert_eq!(&body, &bodies[taken]);
                    taken += 1;
                    if taken == bodies.len() { break }
                    continue;
                }
                prop_assert!(at + missing <= ends[taken]);
                let mut bytes = buffer.lend(missing);
                let end = at + missing.min(step);
                bytes.extend_from_slice(&wire[at..end]);
                buffer.give_back(bytes);
                at = end;
            }
            prop_assert!(buffer.is_empty());
        }

        #[test]
        fn random_bytes_never_ask_for_more_than_the_limit(
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
        ) {
            let mut buffer = FrameBuffer::new(HEADER_BYTES + 40);
            buffer.give_back(bytes);
            if let Ok(missing) = buffer.missing() {
                prop_assert!(missing <= HEADER_BYTES + BODY_BYTES_MAX);
            }
            let _ = buffer.take(|_, _| Ok(()));
        }
    }
}
