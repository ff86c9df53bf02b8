//! Framing of every message: a fixed header with magic, version, kind, length, request and CRC-32C,
//! then the body.
//!
//! ```text
//! 0      2        3      4     6          8            12         16            24
//! | magic | version | zero | kind | marks    | body_bytes | checksum | request     | body ...
//! ```
//!
//! The checksum covers the header without itself and the marks, and the body. One mark says that
//! the body ends with a trailer ([`crate::trace`]). Bulk payload that follows some
//! frames is not covered: it carries its own block checksums. A header is judged before anything is
//! allocated for its body.

use crate::checksum::crc32c;
use crate::limits::FRAME_BODY_BYTES_MAX;
use crate::trace::{FrameTrailer, TRAILER_BYTES};

/// Bytes of a frame header.
pub const HEADER_BYTES: usize = 24;
/// Version of this layout; it changes only if the header itself does.
pub const FRAME_VERSION: u8 = 1;
const MAGIC: u16 = 0x4750;
/// In the first byte of the marks: the body ends with a trailer. Older peers do not look there.
const HAS_TRAILER: u8 = 1;

/// What the body of a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
#[expect(missing_docs, reason = "each variant is named after the message it announces")]
pub enum MessageKind {
    Hello = 1,
    Welcome = 2,
    Failure = 3,
    Exist = 10,
    GetReplicas = 11,
    PutStart = 12,
    PutEnd = 13,
    PutRevoke = 14,
    Remove = 15,
    RemoveByRegex = 16,
    RemoveAll = 17,
    ListByRegex = 18,
    ReplicaClear = 19,
    Mount = 20,
    Unmount = 21,
    Ping = 22,
    Leave = 23,
    QuerySegments = 24,
    FetchMoves = 25,
    EndMoves = 26,
    CreateTask = 27,
    QueryTask = 28,
    /// Answered by nothing.
    GiveBack = 29,
    QueryAddresses = 30,
    Move = 41,
    Rails = 42,
    Pairs = 43,
    Follow = 50,
    Announce = 51,
    /// Sent by the master to who follows a segment, and answered by nothing.
    Records = 52,
    FetchDemotions = 60,
    EndDemotions = 61,
    FetchTombstones = 62,
    ConfirmTombstones = 63,
    AnnounceCopies = 64,
    Recycled = 65,
    /// Answer to a request of any kind; the body is that kind's reply.
    Reply = 100,
}

impl MessageKind {
    const ALL: [MessageKind; 37] = [
        MessageKind::Hello,
        MessageKind::Welcome,
        MessageKind::Failure,
        MessageKind::Exist,
        MessageKind::GetReplicas,
        MessageKind::PutStart,
        MessageKind::PutEnd,
        MessageKind::PutRevoke,
        MessageKind::Remove,
        MessageKind::RemoveByRegex,
        MessageKind::RemoveAll,
        MessageKind::ListByRegex,
        MessageKind::ReplicaClear,
        MessageKind::Mount,
        MessageKind::Unmount,
        MessageKind::Ping,
        MessageKind::Leave,
        MessageKind::QuerySegments,
        MessageKind::FetchMoves,
        MessageKind::EndMoves,
        MessageKind::CreateTask,
        MessageKind::QueryTask,
        MessageKind::GiveBack,
        MessageKind::QueryAddresses,
        MessageKind::Move,
        MessageKind::Rails,
        MessageKind::Pairs,
        MessageKind::Follow,
        MessageKind::Announce,
        MessageKind::Records,
        MessageKind::FetchDemotions,
        MessageKind::EndDemotions,
        MessageKind::FetchTombstones,
        MessageKind::ConfirmTombstones,
        MessageKind::AnnounceCopies,
        MessageKind::Recycled,
        MessageKind::Reply,
    ];

    /// Each kind at its number.
    const BY_NUMBER: [Option<MessageKind>; 101] = {
        let (mut kinds, mut index) = ([None; 101], 0);
        while index < MessageKind::ALL.len() {
            kinds[MessageKind::ALL[index] as usize] = Some(MessageKind::ALL[index]);
            index += 1;
        }
        kinds
    };

    /// The kind with a number; `None` for one that this build does not know.
    pub fn from_wire(value: u16) -> Option<MessageKind> {
        *MessageKind::BY_NUMBER.get(usize::from(value))?
    }
}

/// The first two bytes of what servers of HTTP answer, as a magic number.
const HTTP: u16 = u16::from_le_bytes(*b"HT");

/// What speaks on a port where no frame begins.
fn strange(magic: u16) -> String {
    match magic {
        HTTP => "HTTP is spoken on that port; give the RPC port, a master's is 50051 unless \
                 --rpc_port says otherwise"
            .to_owned(),
        magic => format!("Not a Perigee frame (magic {magic:#06x})"),
    }
}

/// Why a frame was refused. The connection it came on cannot be used further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// The first bytes are not ours: another protocol speaks on this port.
    #[error("{}", strange(*.0))]
    Magic(u16),
    /// The header layout is of another version.
    #[error("Frame version {0} is not {FRAME_VERSION}; upgrade the older side")]
    Version(u8),
    /// A kind this build does not know.
    #[error("Unknown frame kind {0}")]
    Kind(u16),
    /// The announced body is over the limit.
    #[error("Frame body of {bytes} bytes is over the limit of {limit}")]
    Length {
        /// Announced bytes.
        bytes: usize,
        /// Most bytes allowed here.
        limit: usize,
    },
    /// The bytes changed on the way.
    #[error("Frame checksum {found:#010x} is not {expected:#010x}")]
    Checksum {
        /// Checksum of the bytes that arrived.
        found: u32,
        /// Checksum in the header.
        expected: u32,
    },
}

/// A judged header: its kind is known and its length within bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// What the body is.
    pub kind: MessageKind,
    /// Bytes of the body.
    pub body_bytes: usize,
    /// Number that ties a reply to its request.
    pub request: u64,
    checksum: u32,
    has_trailer: bool,
}

impl FrameHeader {
    /// Judges the header of a frame whose body may have at most `limit` bytes.
    pub fn decode(bytes: &[u8; HEADER_BYTES], limit: usize) -> Result<FrameHeader, FrameError> {
        let magic = u16::from_le_bytes([bytes[0], bytes[1]]);
        if magic != MAGIC {
            return Err(FrameError::Magic(magic));
        }
        if bytes[2] != FRAME_VERSION {
            return Err(FrameError::Version(bytes[2]));
        }
        let kind = u16::from_le_bytes([bytes[4], bytes[5]]);
        let kind = MessageKind::from_wire(kind).ok_or(FrameError::Kind(kind))?;
        let body_bytes = read_u32(bytes, 8) as usize;
        let limit = limit.min(FRAME_BODY_BYTES_MAX);
        if body_bytes > limit {
            return Err(FrameError::Length { bytes: body_bytes, limit });
        }
        let request = u64::from(read_u32(bytes, 16)) | (u64::from(read_u32(bytes, 20)) << 32);
        let (checksum, has_trailer) = (read_u32(bytes, 12), bytes[6] & HAS_TRAILER != 0);
        Ok(FrameHeader { kind, body_bytes, request, checksum, has_trailer })
    }

    /// The trailer of the body that came with this header, if it has one.
    pub fn trailer<'a>(&self, body: &'a [u8]) -> Option<&'a FrameTrailer> {
        body.last_chunk::<TRAILER_BYTES>().filter(|_| self.has_trailer)
    }

    /// Checks a body against the header it came with.
    pub fn check(&self, body: &[u8]) -> Result<(), FrameError> {
        let found = crc32c([&self.encode_unsummed(), body]);
        if found == self.checksum {
            Ok(())
        } else {
            Err(FrameError::Checksum { found, expected: self.checksum })
        }
    }

    /// Writes the header of `body` into the first [`HEADER_BYTES`] of a buffer. The caller sees to
    /// it that the body is within [`FRAME_BODY_BYTES_MAX`]; no peer takes a longer one.
    pub fn encode(kind: MessageKind, request: u64, body: &[u8]) -> [u8; HEADER_BYTES] {
        Self::encode_parts(kind, request, body, None)
    }

    /// As [`FrameHeader::encode`], for a body that is followed by a trailer, which counts as its
    /// end.
    pub fn encode_with_trailer(
        kind: MessageKind,
        request: u64,
        body: &[u8],
        trailer: &FrameTrailer,
    ) -> [u8; HEADER_BYTES] {
        Self::encode_parts(kind, request, body, Some(trailer))
    }

    fn encode_parts(
        kind: MessageKind,
        request: u64,
        body: &[u8],
        trailer: Option<&FrameTrailer>,
    ) -> [u8; HEADER_BYTES] {
        let end = trailer.map_or(&[][..], |trailer| trailer);
        let (body_bytes, has_trailer) = (body.len() + end.len(), trailer.is_some());
        debug_assert!(body_bytes <= FRAME_BODY_BYTES_MAX);
        let header = FrameHeader { kind, body_bytes, request, checksum: 0, has_trailer };
        let mut bytes = header.encode_unsummed();
        let sum = crc32c([&bytes, body, end]);
        bytes[12..16].copy_from_slice(&sum.to_le_bytes());
        if has_trailer {
            bytes[6] = HAS_TRAILER;
        }
        bytes
    }

    fn encode_unsummed(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0..2].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[2] = FRAME_VERSION;
        bytes[4..6].copy_from_slice(&(self.kind as u16).to_le_bytes());
        bytes[8..12].copy_from_slice(&(self.body_bytes as u32).to_le_bytes());
        bytes[16..24].copy_from_slice(&self.request.to_le_bytes());
        bytes
    }
}

fn read_u32(bytes: &[u8; HEADER_BYTES], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_answer_of_an_http_server_is_recognised() {
        let mut answer = [0; HEADER_BYTES];
        answer[..8].copy_from_slice(b"HTTP/1.1");
        let error = FrameHeader::decode(&answer, 4096).unwrap_err().to_string();
        assert!(error.contains("HTTP is spoken") && error.contains("50051"), "{error}");
        let error = FrameHeader::decode(&[0xff; HEADER_BYTES], 4096).unwrap_err().to_string();
        assert!(error.contains("0xffff"), "{error}");
    }

    proptest! {
        #[test]
        fn frames_round_trip(request: u64, body in proptest::collection::vec(any::<u8>(), 0..300)) {
            let bytes = FrameHeader::encode(MessageKind::Exist, request, &body);
            let header = FrameHeader::decode(&bytes, 4096).unwrap();
            prop_assert_eq!(header.kind, MessageKind::Exist);
            prop_assert_eq!(header.request, request);
            prop_assert_eq!(header.body_bytes, body.len());
            prop_assert!(header.check(&body).is_ok());
        }

        /// A peer of an older build sees the marks as zero, and the trailer as the body's end.
        #[test]
        fn a_trailer_is_found_and_an_older_peer_passes_it_over(
            request: u64,
            body in proptest::collection::vec(any::<u8>(), 0..300),
            trailer: [u8; TRAILER_BYTES],
        ) {
            let mut bytes =
                FrameHeader::encode_with_trailer(MessageKind::Exist, request, &body, &trailer);
            let whole = [&body[..], &trailer].concat();
            let header = FrameHeader::decode(&bytes, 4096).unwrap();
            prop_assert_eq!(header.trailer(&whole), Some(&trailer));
            bytes[6] = 0;
            let older = FrameHeader::decode(&bytes, 4096).unwrap();
            prop_assert_eq!((older.body_bytes, older.trailer(&whole)), (whole.len(), None));
            prop_assert!(header.check(&whole).is_ok() && older.check(&whole).is_ok());
        }

        #[test]
        fn any_flipped_bit_is_noticed(
            bit in 0usize..8 * (HEADER_BYTES + 40),
            body in any::<[u8; 40]>(),
        ) {
            let mut whole = FrameHeader::encode(MessageKind::PutEnd, 7, &body).to_vec();
            whole.extend_from_slice(&body);
            whole[bit / 8] ^= 1 << (bit % 8);
            let mut header = [0; HEADER_BYTES];
            header.copy_from_slice(&whole[..HEADER_BYTES]);
            let noticed = match FrameHeader::decode(&header, 4096) {
                Err(_) => true,
                Ok(decoded) => {
                    decoded.body_bytes != 40 || decoded.check(&whole[HEADER_BYTES..]).is_err()
                }
            };
            // Bytes 3, 6 and 7 are rebuilt as zero; a trailer that is not there has no tag.
            prop_assert!(noticed || matches!(bit / 8, 3 | 6 | 7));
        }

        #[test]
        fn random_headers_never_pass_the_limit(bytes: [u8; HEADER_BYTES]) {
            if let Ok(header) = FrameHeader::decode(&bytes, 1000) {
                prop_assert!(header.body_bytes <= 1000);
            }
        }
    }
}
