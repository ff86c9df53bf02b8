//! The front of a byte stream, cut into frames; it does no I/O and knows no clock.
//! Invariant: memory for a body is asked for only after its header was judged, and no byte is asked
//! for that could belong to what the caller did not announce as welcome behind a frame.

use crate::frame::{FrameError, FrameHeader, HEADER_BYTES};

/// What has arrived and was not taken yet: the beginning of a frame, up to whole frames and what
/// follows them.
///
/// A receiver asks for [`FrameBuffer::missing`], appends that many bytes or fewer through
/// [`FrameBuffer::lend`] and [`FrameBuffer::give_back`], looks at [`FrameBuffer::frame`], and drops
/// it with [`FrameBuffer::consume`].
#[derive(Debug)]
pub struct FrameBuffer {
    bytes: Vec<u8>,
    /// Largest body in bytes.
    limit: usize,
    /// Bytes of the shortest frame that can come.
    least: usize,
    /// Bytes behind a frame that may be received with it.
    ahead: usize,
}

/// A buffer with more room than this is not kept after its frame, in bytes.
const KEPT_BYTES_MAX: usize = 256 << 10;

impl FrameBuffer {
    /// For frames with bodies of at most `limit` bytes. Nothing behind a frame is received with it.
    pub fn new(limit: usize) -> Self {
        Self { bytes: Vec::new(), limit, least: HEADER_BYTES, ahead: 0 }
    }

    /// From now on no frame has fewer than `least` bytes, its header included: so many are asked
    /// for at once.
    pub fn expect_least(&mut self, least: usize) {
        self.least = least.max(HEADER_BYTES);
    }

    /// From now on so many bytes of what follows a short frame may be received with it.
    pub fn expect_ahead(&mut self, bytes: usize) {
        self.ahead = bytes;
    }

    /// From now on bodies have at most `limit` bytes.
    pub fn expect_at_most(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Whether nothing is there, not even the beginning of a frame.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// How many bytes may be received next; 0 when a whole frame is there.
    ///
    /// # Errors
    /// What arrived is not the beginning of a frame, or the frame is too long.
    pub fn missing(&self) -> Result<usize, FrameError> {
        let total = self.frame_bytes()?;
        if total.is_some_and(|total| self.bytes.len() >= total) {
            return Ok(0);
        }
        Ok(total.unwrap_or(0).max(self.least + self.ahead) - self.bytes.len())
    }

    /// Bytes of the frame at the front, its header included; `None` until its header is there.
    ///
    /// # Errors
    /// What arrived is not the beginning of a frame, or the frame is too long.
    pub fn frame_bytes(&self) -> Result<Option<usize>, FrameError> {
        Ok(self.header()?.map(|header| HEADER_BYTES + header.body_bytes))
    }

    /// Lends the vector that the next bytes are appended to, with room for `missing` of them.
    pub fn lend(&mut self, missing: usize) -> Vec<u8> {
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.reserve_exact(missing);
        bytes
    }

    /// Takes the vector back with what was appended.
    pub fn give_back(&mut self, bytes: Vec<u8>) {
        self.bytes = bytes;
    }

    /// The whole frame at the front, with its checksum verified; `None` while bytes of it are
    /// missing.
    ///
    /// # Errors
    /// It is damaged, or no frame.
    pub fn frame(&self) -> Result<Option<(FrameHeader, &[u8])>, FrameError> {
        let Some(header) = self.header()? else {
            return Ok(None);
        };
        let Some(body) = self.bytes.get(HEADER_BYTES..HEADER_BYTES + header.body_bytes) else {
            return Ok(None);
        };
        header.check(body)?;
        Ok(Some((header, body)))
    }

    /// Drops the frame at the front, whole or not.
    pub fn consume(&mut self) {
        let total = self.frame_bytes().ok().flatten().unwrap_or(self.bytes.len());
        self.bytes.drain(..total.min(self.bytes.len()));
        if self.bytes.is_empty() && self.bytes.capacity() > KEPT_BYTES_MAX {
            self.bytes = Vec::new();
        }
    }

    /// Takes what came behind the last frame: what there is, at most `limit` bytes.
    pub fn take_ahead(&mut self, limit: usize) -> Vec<u8> {
        let count = self.bytes.len().min(limit);
        self.bytes.drain(..count).collect()
    }

    fn header(&self) -> Result<Option<FrameHeader>, FrameError> {
        let head = self.bytes.first_chunk::<HEADER_BYTES>();
        head.map(|head| FrameHeader::decode(head, self.limit)).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::MessageKind;
    use proptest::prelude::*;

    const LEAST: usize = HEADER_BYTES + 40;

    fn frames(bodies: &[Vec<u8>]) -> (Vec<u8>, Vec<usize>) {
        let (mut wire, mut ends) = (Vec::new(), Vec::new());
        for (number, body) in bodies.iter().enumerate() {
            wire.extend_from_slice(&FrameHeader::encode(MessageKind::Move, number as u64, body));
            wire.extend_from_slice(body);
            ends.push(wire.len());
        }
        (wire, ends)
    }

    proptest! {
        /// However frames are cut, they come out whole, and without `ahead` nothing behind a frame
        /// is asked for.
        #[test]
        fn frames_come_out_however_they_arrive(
            bodies in proptest::collection::vec(
                proptest::collection::vec(any::<u8>(), 48..300), 1..6
            ),
            steps in proptest::collection::vec(1usize..90, 1..200),
            ahead in prop_oneof![Just(0usize), 1usize..200],
        ) {
            let (wire, ends) = frames(&bodies);
            let mut buffer = FrameBuffer::new(1000);
            buffer.expect_least(LEAST);
            buffer.expect_ahead(ahead);
            let (mut at, mut taken) = (0, 0);
            for step in steps.into_iter().cycle() {
                let missing = buffer.missing().unwrap();
                if missing == 0 {
                    let (header, body) = buffer.frame().unwrap().unwrap();
                    prop_assert_eq!((header.request, body), (taken as u64, &bodies[taken][..]));
                    buffer.consume();
                    taken += 1;
                    if taken == bodies.len() { break }
                    continue;
                }
                prop_assert!(buffer.frame().unwrap().is_none());
                prop_assert!(at + missing <= ends[taken] + ahead);
                let mut bytes = buffer.lend(missing);
                let end = (at + missing.min(step)).min(wire.len());
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
            let mut buffer = FrameBuffer::new(4096);
            buffer.give_back(bytes);
            if let Ok(missing) = buffer.missing() {
                prop_assert!(missing <= HEADER_BYTES + 4096);
            }
            let _ = buffer.frame();
            buffer.consume();
        }
    }

    #[test]
    fn what_came_behind_a_frame_is_taken_apart() {
        let mut buffer = FrameBuffer::new(1000);
        let (mut wire, _) = frames(&[vec![1; 10]]);
        wire.extend_from_slice(b"payload");
        buffer.give_back(wire);
        buffer.consume();
        assert_eq!(buffer.take_ahead(3), b"pay");
        assert_eq!(buffer.take_ahead(100), b"load");
        assert!(buffer.is_empty());
    }
}
