//! One frame: `u64 length (little endian) | type byte | JSON`; the length counts the type byte.
//!
//! Invariant: the oldest peers, which send no type byte, are understood: their JSON
//! begins with `{`, which is no type. What they send is a connection message.

pub use crate::error::HandshakeFrameError;

/// Bytes of the length.
pub const LENGTH_BYTES: usize = 8;

/// What a frame is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandshakeKind {
    /// Exchange of queue pairs.
    Connection = 0,
    /// Exchange of segment documents.
    Metadata = 1,
    /// Message of an application.
    Notify = 2,
    /// Liveness probe.
    Probe = 3,
}

impl HandshakeKind {
    fn of(byte: u8) -> Result<Self, HandshakeFrameError> {
        match byte {
            0 => Ok(Self::Connection),
            1 => Ok(Self::Metadata),
            2 => Ok(Self::Notify),
            3 => Ok(Self::Probe),
            other => Err(HandshakeFrameError::UnknownKind(other)),
        }
    }
}

/// A frame without its length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// What it is about.
    pub kind: HandshakeKind,
    /// The sender knows type bytes.
    pub typed: bool,
    /// Its content.
    pub json: Vec<u8>,
}

impl Frame {
    /// A frame with a type byte.
    pub fn new(kind: HandshakeKind, json: String) -> Self {
        Self { kind, typed: true, json: json.into_bytes() }
    }

    /// The frame as bytes, with its length.
    pub fn encode(&self) -> Vec<u8> {
        let bytes = self.json.len() + usize::from(self.typed);
        let mut frame = Vec::with_capacity(LENGTH_BYTES + bytes);
        frame.extend_from_slice(&(bytes as u64).to_le_bytes());
        if self.typed {
            frame.push(self.kind as u8);
        }
        frame.extend_from_slice(&self.json);
        frame
    }

    /// Reads what came after the length.
    ///
    /// # Errors
    /// There is nothing, or the type byte is unknown.
    pub fn decode(mut bytes: Vec<u8>) -> Result<Self, HandshakeFrameError> {
        let first = *bytes.first().ok_or(HandshakeFrameError::Empty)?;
        if first == b'{' {
            return Ok(Self { kind: HandshakeKind::Connection, typed: false, json: bytes });
        }
        let kind = HandshakeKind::of(first)?;
        bytes.remove(0);
        Ok(Self { kind, typed: true, json: bytes })
    }
}

/// Reads a length; `limit` is in bytes.
///
/// # Errors
/// The frame would be empty or longer than `limit`.
pub fn decode_length(
    bytes: [u8; LENGTH_BYTES],
    limit: usize,
) -> Result<usize, HandshakeFrameError> {
    let bytes = u64::from_le_bytes(bytes);
    match usize::try_from(bytes) {
        Ok(0) => Err(HandshakeFrameError::Empty),
        Ok(length) if length <= limit => Ok(length),
        _ => Err(HandshakeFrameError::TooLong { bytes, limit }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn real_probe_is_written_byte_for_byte() {
        let frame = Frame::new(HandshakeKind::Probe, "{}\n".to_owned());
        assert_eq!(frame.encode(), b"\x04\0\0\0\0\0\0\0\x03{}\n");
    }

    #[test]
    fn frames_of_the_oldest_peers_are_connections() {
        let frame = Frame::decode(b"{}".to_vec()).unwrap();
        assert_eq!((frame.kind, frame.typed), (HandshakeKind::Connection, false));
        assert_eq!(frame.json, b"{}");
    }

    #[test]
    fn impossible_lengths_and_types_are_refused() {
        let huge = u64::MAX.to_le_bytes();
        assert!(matches!(decode_length(huge, 9), Err(HandshakeFrameError::TooLong { .. })));
        assert_eq!(decode_length([0; 8], 9), Err(HandshakeFrameError::Empty));
        assert_eq!(decode_length(9u64.to_le_bytes(), 9), Ok(9));
        assert!(decode_length(10u64.to_le_bytes(), 9).is_err());
        assert_eq!(Frame::decode(vec![4, b'{']), Err(HandshakeFrameError::UnknownKind(4)));
        assert_eq!(Frame::decode(Vec::new()), Err(HandshakeFrameError::Empty));
    }

    proptest! {
        #[test]
        fn frames_survive_the_way(kind in 0u8..4, body in any::<Vec<u8>>()) {
            let frame = Frame { kind: HandshakeKind::of(kind).unwrap(), typed: true, json: body };
            let bytes = frame.encode();
            let (length, rest) = bytes.split_first_chunk().unwrap();
            prop_assert_eq!(decode_length(*length, 1000), Ok(rest.len()));
            prop_assert_eq!(Frame::decode(rest.to_vec()), Ok(frame));
        }
    }
}
