//! One entry per decoder of bytes that a stranger can send or a crash can leave; fuzzers and corpus
//! replay call these.
//! Invariant: whatever the bytes, an entry returns, and what it accepted it has read to the end.

mod discovery;
mod disk;
mod rails;

use perigee_schemas::frame::{FrameHeader, HEADER_BYTES, MessageKind};
use perigee_schemas::limits::HELLO_BODY_BYTES_MAX;
use perigee_schemas::master as rpc;
use perigee_schemas::message::decode;
use perigee_schemas::record::Record;
use perigee_schemas::session::{Hello, Welcome, decode_failure};
use perigee_schemas::trace::{ServiceTimes, TraceContext};
use perigee_schemas::{mover, rails as rails_rpc};

/// A decoder under test: its name, which is also its corpus folder, and its entry, which tells
/// whether it took the bytes for a message.
pub type Decoder = (&'static str, fn(&[u8]) -> bool);

/// All of them.
pub const DECODERS: [Decoder; 9] = [
    ("frame", frame),
    ("session", session),
    ("message", message),
    ("handshake", discovery::handshake),
    ("document", discovery::document),
    ("rails", rails::rails),
    ("record", record),
    ("traceparent", traceparent),
    ("disk", disk::disk),
];

/// A whole frame: header, checksum, and the body as what the header says it is.
pub fn frame(bytes: &[u8]) -> bool {
    let Some((header, body)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
        return false;
    };
    let Ok(judged) = FrameHeader::decode(header, HELLO_BODY_BYTES_MAX) else {
        return false;
    };
    assert!(judged.body_bytes <= HELLO_BODY_BYTES_MAX, "the limit holds");
    let Some(body) = body.get(..judged.body_bytes) else {
        return false;
    };
    if judged.check(body).is_err() {
        return false;
    }
    let again = FrameHeader::encode(judged.kind, judged.request, body);
    assert!(FrameHeader::decode(&again, HELLO_BODY_BYTES_MAX).is_ok(), "encoding is stable");
    if let Some(trailer) = judged.trailer(body) {
        let context = TraceContext::decode(trailer);
        assert!(context.is_none() || ServiceTimes::decode(trailer).is_none(), "one meaning");
    }
    body_of(judged.kind, body);
    true
}

/// The three messages of the session, each on the same bytes.
pub fn session(bytes: &[u8]) -> bool {
    let hello = Hello::decode(bytes);
    if let Ok(hello) = &hello {
        let again = Hello::decode(&hello.encode()[HEADER_BYTES..]);
        assert_eq!(again.ok().as_ref(), Some(hello), "a greeting survives encoding");
        let welcome = hello.answer(1);
        assert!(welcome.protocol <= hello.protocol_max, "no newer version than asked for");
    }
    hello.is_ok() | Welcome::decode(bytes).is_ok() | decode_failure(bytes).is_ok()
}

/// A message body; the first byte chooses the kind.
pub fn message(bytes: &[u8]) -> bool {
    const KINDS: [MessageKind; 33] = [
        MessageKind::Exist,
        MessageKind::GetReplicas,
        MessageKind::PutStart,
        MessageKind::PutEnd,
        MessageKind::PutRevoke,
        MessageKind::Remove,
        MessageKind::RemoveByRegex,
        MessageKind::ListByRegex,
        MessageKind::ReplicaClear,
        MessageKind::Mount,
        MessageKind::Unmount,
        MessageKind::Ping,
        MessageKind::QuerySegments,
        MessageKind::Move,
        MessageKind::Reply,
        MessageKind::Leave,
        MessageKind::FetchMoves,
        MessageKind::EndMoves,
        MessageKind::CreateTask,
        MessageKind::QueryTask,
        MessageKind::GiveBack,
        MessageKind::Follow,
        MessageKind::Announce,
        MessageKind::Records,
        MessageKind::FetchDemotions,
        MessageKind::EndDemotions,
        MessageKind::FetchTombstones,
        MessageKind::ConfirmTombstones,
        MessageKind::AnnounceCopies,
        MessageKind::Recycled,
        MessageKind::QueryAddresses,
        MessageKind::Rails,
        MessageKind::Pairs,
    ];
    let Some((choice, body)) = bytes.split_first() else {
        return false;
    };
    body_of(KINDS[usize::from(*choice) % KINDS.len()], body)
}

/// The first record of a journal.
pub fn record(bytes: &[u8]) -> bool {
    let Ok(record) = Record::decode(bytes) else {
        return false;
    };
    let mut again = Vec::new();
    record.encode(&mut again);
    assert!(bytes.starts_with(&again), "a record has one encoding");
    true
}

/// What a program says its calls belong to.
pub fn traceparent(bytes: &[u8]) -> bool {
    let context = std::str::from_utf8(bytes).ok().and_then(TraceContext::parse);
    if let Some(context) = context {
        assert_eq!(
            TraceContext::parse(&context.traceparent()),
            Some(context),
            "it is written well"
        );
        assert_eq!(TraceContext::decode(&context.encode()), Some(context), "it travels well");
    }
    context.is_some()
}

/// Decodes and walks a body. Debug output visits every field of every table.
fn body_of(kind: MessageKind, body: &[u8]) -> bool {
    macro_rules! walk {
        ($($message:ty),+) => {{
            let mut taken = false;
            $(if let Ok(message) = decode::<$message>(body) {
                std::hint::black_box(format!("{message:?}"));
                taken = true;
            })+
            taken
        }};
    }
    match kind {
        MessageKind::Hello | MessageKind::Welcome | MessageKind::Failure => session(body),
        MessageKind::Exist => walk!(rpc::ExistRequest<'_>),
        MessageKind::GetReplicas => walk!(rpc::GetReplicasRequest<'_>),
        MessageKind::PutStart => walk!(rpc::PutStartRequest<'_>),
        MessageKind::PutEnd => walk!(rpc::PutEndRequest<'_>),
        MessageKind::PutRevoke => walk!(rpc::PutRevokeRequest<'_>),
        MessageKind::Remove => walk!(rpc::RemoveRequest<'_>),
        MessageKind::RemoveByRegex => walk!(rpc::RemoveByRegexRequest<'_>),
        MessageKind::RemoveAll => walk!(rpc::RemoveAllRequest<'_>),
        MessageKind::ListByRegex => walk!(rpc::ListByRegexRequest<'_>),
        MessageKind::ReplicaClear => walk!(rpc::ReplicaClearRequest<'_>),
        MessageKind::Mount => walk!(rpc::MountRequest<'_>),
        MessageKind::Unmount => walk!(rpc::UnmountRequest<'_>),
        MessageKind::Ping => walk!(rpc::PingRequest<'_>),
        MessageKind::Leave => walk!(rpc::LeaveRequest<'_>),
        MessageKind::QuerySegments => walk!(rpc::QuerySegmentsRequest<'_>),
        MessageKind::FetchMoves => walk!(rpc::FetchMovesRequest<'_>),
        MessageKind::EndMoves => walk!(rpc::EndMovesRequest<'_>),
        MessageKind::CreateTask => walk!(rpc::CreateTaskRequest<'_>),
        MessageKind::QueryTask => walk!(rpc::QueryTaskRequest<'_>),
        MessageKind::GiveBack => walk!(rpc::GiveBack<'_>),
        MessageKind::QueryAddresses => walk!(rpc::QueryAddressesRequest<'_>),
        MessageKind::Follow => walk!(rpc::FollowRequest<'_>),
        MessageKind::Announce => walk!(rpc::AnnounceRequest<'_>),
        MessageKind::Records => walk!(rpc::Records<'_>),
        MessageKind::Move => walk!(mover::MoveRequest<'_>),
        MessageKind::Rails => walk!(rails_rpc::RailsRequest<'_>),
        MessageKind::Pairs => walk!(rails_rpc::PairsRequest<'_>),
        MessageKind::FetchDemotions => walk!(rpc::FetchDemotionsRequest<'_>),
        MessageKind::EndDemotions => walk!(rpc::EndDemotionsRequest<'_>),
        MessageKind::FetchTombstones => walk!(rpc::FetchTombstonesRequest<'_>),
        MessageKind::ConfirmTombstones => walk!(rpc::ConfirmTombstonesRequest<'_>),
        MessageKind::AnnounceCopies => walk!(rpc::AnnounceCopiesRequest<'_>),
        MessageKind::Recycled => walk!(rpc::RecycledRequest<'_>),
        MessageKind::Reply => walk!(
            rpc::ExistReply<'_>,
            rpc::GetReplicasReply<'_>,
            rpc::PutStartReply<'_>,
            rpc::StatusReply<'_>,
            rpc::CountReply<'_>,
            rpc::ListReply<'_>,
            rpc::PingReply<'_>,
            rpc::QuerySegmentsReply<'_>,
            rpc::FetchMovesReply<'_>,
            rpc::FetchDemotionsReply<'_>,
            rpc::FetchTombstonesReply<'_>,
            rpc::CreateTaskReply<'_>,
            rpc::QueryTaskReply<'_>,
            rpc::QueryAddressesReply<'_>,
            rpc::FollowReply<'_>,
            mover::MoveReply<'_>,
            rails_rpc::RailsReply<'_>,
            rails_rpc::PairsReply<'_>
        ),
    }
}
