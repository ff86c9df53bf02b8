//! Decoders of what peers and metadata servers send: handshake frames and documents.
//! Invariant: what is taken comes out of the encoder again as the same value.

use perigee_discovery::handshake::frame::{Frame, HandshakeKind, LENGTH_BYTES, decode_length};
use perigee_discovery::limits::FRAME_BYTES_DEFAULT;
use perigee_discovery::{ConnectionMessage, NotifyMessage, RpcMeta, SegmentDocument};

/// A whole frame of the handshake: length, type byte, and the JSON as what the type says.
pub(super) fn handshake(bytes: &[u8]) -> bool {
    let Some((length, rest)) = bytes.split_first_chunk::<LENGTH_BYTES>() else {
        return false;
    };
    let Ok(length) = decode_length(*length, FRAME_BYTES_DEFAULT) else {
        return false;
    };
    assert!(length <= FRAME_BYTES_DEFAULT, "the limit holds");
    let Some(body) = rest.get(..length) else {
        return false;
    };
    let Ok(frame) = Frame::decode(body.to_vec()) else {
        return false;
    };
    assert_eq!(frame.encode(), bytes[..LENGTH_BYTES + length], "encoding is stable");
    match frame.kind {
        HandshakeKind::Connection => connection(&frame.json),
        HandshakeKind::Metadata => segment(&frame.json),
        HandshakeKind::Notify => notify(&frame.json),
        HandshakeKind::Probe => true,
    }
}

/// JSON as each of the documents and messages.
pub(super) fn document(bytes: &[u8]) -> bool {
    segment(bytes) | place(bytes) | connection(bytes) | notify(bytes)
}

macro_rules! survives {
    ($name:ident, $message:ty) => {
        fn $name(json: &[u8]) -> bool {
            let Ok(message) = <$message>::decode(json) else {
                return false;
            };
            let again = <$message>::decode(message.encode().as_bytes());
            assert_eq!(again, Ok(message), "what was taken survives encoding");
            true
        }
    };
}

survives!(segment, SegmentDocument);
survives!(place, RpcMeta);
survives!(connection, ConnectionMessage);
survives!(notify, NotifyMessage);
