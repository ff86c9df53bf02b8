//! The words of Mooncake's TCP data protocol, as its 0.3.13 engine speaks it. Pure.
//!
//! ```text
//! request: | bytes u64 | address u64 | opcode u8 | 7 bytes padding |
//!          opcode: 0 read, 1 write; with 0x80 it is answered with a status
//! status:  | u64: high half "MCTV", low half 0 done, 1 address refused |
//! ```
//! A write's bytes follow its header, a read's bytes follow the status (or come at once without
//! one).

use perigee_schemas::{Direction, Status};

/// Bytes of a request's header.
pub(crate) const HEADER_BYTES: usize = 24;
pub(crate) const STATUS_BYTES: usize = 8;
const _: () = assert!(HEADER_BYTES == 3 * size_of::<u64>() && STATUS_BYTES == size_of::<u64>());
/// "MCTV", the high half of every status.
const STATUS_MARK: u32 = 0x4d43_5456;
const WITH_STATUS: u8 = 0x80;

// Its opcodes are the numbers of our directions.
const _: () = assert!(Direction::Read as u8 == 0 && Direction::Write as u8 == 1);

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MooncakeHeader {
    pub(crate) direction: Direction,
    pub(crate) with_status: bool,
    pub(crate) address: u64,
    pub(crate) bytes: u64,
}

impl MooncakeHeader {
    pub(crate) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0..8].copy_from_slice(&self.bytes.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.address.to_le_bytes());
        bytes[16] = self.direction as u8 | if self.with_status { WITH_STATUS } else { 0 };
        bytes
    }

    /// `None` for an opcode that does not exist.
    pub(crate) fn decode(bytes: &[u8; HEADER_BYTES]) -> Option<Self> {
        let word = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(word)
        };
        Some(Self {
            direction: Direction::from_number(bytes[16] & !WITH_STATUS)?,
            with_status: bytes[16] & WITH_STATUS != 0,
            address: word(8),
            bytes: word(0),
        })
    }
}

/// The word that tells a verdict.
pub(crate) fn encode_status(status: Status) -> u64 {
    u64::from(STATUS_MARK) << 32 | u64::from(status != Status::Ok)
}

/// The verdict of a word; `None` if it is not a status.
pub(crate) fn decode_status(word: u64) -> Option<Status> {
    match (word >> 32 == u64::from(STATUS_MARK), word as u32) {
        (false, _) => None,
        (true, 0) => Some(Status::Ok),
        (true, 1) => Some(Status::InvalidParams),
        (true, _) => Some(Status::TransferFail),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_header_has_the_bytes_that_the_real_engine_sends() {
        let header = MooncakeHeader {
            direction: Direction::Write,
            with_status: true,
            address: 0x0102_0304_0506_0708,
            bytes: 4096,
        };
        let bytes = header.encode();
        assert_eq!(bytes[..3], [0, 16, 0]);
        assert_eq!((bytes[8], bytes[15], bytes[16]), (8, 1, 0x81));
    }

    #[test]
    fn statuses_are_distinguished_from_payload() {
        assert_eq!(decode_status(encode_status(Status::Ok)), Some(Status::Ok));
        assert_eq!(
            decode_status(encode_status(Status::InvalidParams)),
            Some(Status::InvalidParams)
        );
        assert_eq!(decode_status(7), None);
    }

    proptest! {
        #[test]
        fn headers_round_trip_or_are_refused(bytes: [u8; HEADER_BYTES]) {
            if let Some(header) = MooncakeHeader::decode(&bytes) {
                prop_assert_eq!(&header.encode()[..17], &bytes[..17]);
            } else {
                prop_assert!(bytes[16] & 0x7f > 1);
            }
        }
    }
}
