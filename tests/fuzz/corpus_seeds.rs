//! Writes the seed inputs of the fuzzers: one well-formed message of each kind.
//! Invariant: equal schemas give equal seeds, so that running it again changes nothing.
//!
//! usage: cargo run -p perigee-tests --example corpus_seeds

use std::path::{Path, PathBuf};

use flatbuffers::FlatBufferBuilder;
use perigee_discovery::handshake::frame::{Frame, HandshakeKind as PeerKind};
use perigee_rails::{
    EndpointAnswer, EndpointDescriptor, EndpointOffer, FencedPair, GidDescriptor, PairAnswer,
    PairOffer, PeerDescriptor, Placement as RailPlacement, ProofDescriptor, RailDescriptor,
    RegionDescriptor,
};
use perigee_rdma::wire::{
    RailsReply, RailsRequest, encode_answer, encode_offer, encode_reply, encode_request,
};
use perigee_schemas::frame::{FrameHeader, HEADER_BYTES, MessageKind};
use perigee_schemas::object::{Location, Placement, PlacementArgs, Segment, SegmentArgs};
use perigee_schemas::record::{Record, RecordOp, RecordPart};
use perigee_schemas::session::{Hello, Role, encode_failure};
use perigee_schemas::trace::{ServiceTimes, TraceContext};
use perigee_schemas::{Identity, PartLayout, Status, master as rpc, mover};
use perigee_ssd::format::{
    BlockRoom, Entry, EntryKind, Footer, Labels, SEAL_BYTES, SegmentHeader, SegmentTrailer,
    Summary, Superblock,
};

type Builder = FlatBufferBuilder<'static>;

/// Writes all seeds below the corpus folder.
fn main() -> std::io::Result<()> {
    let corpus = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus");
    for (choice, (name, body)) in requests().into_iter().enumerate() {
        let choice = u8::try_from(choice).expect("there are few kinds");
        write(&corpus, "message", name, &[&[choice], body.as_slice()].concat())?;
        if name == "reply" {
            let timed = [&[choice], moved_reply().as_slice()].concat();
            write(&corpus, "message", "move_reply", &timed)?;
        }
        let header = FrameHeader::encode(MessageKind::Exist, 7, &body);
        write(&corpus, "frame", name, &[header.as_slice(), &body].concat())?;
    }
    let hello = Hello::new(Role::Node, Identity(u128::MAX / 3));
    let welcome = hello.answer(9).encode();
    let failure = encode_failure(3, Status::InvalidParams, "Bad frame");
    for (name, frame) in [("hello", hello.encode()), ("welcome", welcome), ("failure", failure)] {
        write(&corpus, "session", name, &frame[HEADER_BYTES..])?;
        write(&corpus, "frame", name, &frame)?;
    }
    for (name, kind, json) in DOCUMENTS {
        write(&corpus, "document", name, json.as_bytes())?;
        let frame = Frame::new(kind, json.to_owned());
        write(&corpus, "handshake", name, &frame.encode())?;
    }
    for (name, frame) in rails() {
        write(&corpus, "rails", name, &frame[HEADER_BYTES..])?;
        write(&corpus, "frame", name, &frame)?;
    }
    for (name, op) in [
        ("commit", RecordOp::Commit),
        ("free", RecordOp::Free),
        ("flags", RecordOp::Flags),
        ("removed", RecordOp::Removed),
        ("removed_pattern", RecordOp::RemovedPattern),
    ] {
        write(&corpus, "record", name, &record(op, None))?;
    }
    let layout = PartLayout { payload_bytes: 12, part_bytes: 5 };
    let part = RecordPart { layout, checksum: 7, number: 1 };
    write(&corpus, "record", "commit_of_a_part", &record(RecordOp::Commit, Some(part)))?;
    for (choice, name, structure) in disk() {
        write(&corpus, "disk", name, &[&[choice], structure.as_slice()].concat())?;
    }
    for (name, traceparent) in [("version_0", TRACEPARENT), ("later", TRACEPARENT_OF_LATER)] {
        write(&corpus, "traceparent", name, traceparent.as_bytes())?;
    }
    if let Some(context) = TraceContext::parse(TRACEPARENT) {
        let times = ServiceTimes { waited_ns: 9, served_ns: 51_000 };
        for (name, trailer) in [("traced", context.encode()), ("timed", times.encode())] {
            let header = FrameHeader::encode_with_trailer(MessageKind::Exist, 7, &[], &trailer);
            write(&corpus, "frame", name, &[header.as_slice(), &trailer].concat())?;
        }
    }
    let untyped = Frame { typed: false, ..Frame::new(PeerKind::Connection, CONNECTION.to_owned()) };
    write(&corpus, "handshake", "untyped", &untyped.encode())
}

/// What calls may belong to, in this version of the standard and in a later one.
const TRACEPARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const TRACEPARENT_OF_LATER: &str = "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-03-more";
/// A connection message with all fields.
const CONNECTION: &str = r#"{"local_nic_path":"h:1@mlx5_0","peer_nic_path":"p:2@mlx5_1",
"local_lid":3,"local_gid":"fe:80","qp_num":[7,4294967295],"reply_msg":"","ready_ack":true,
"payload":"x","new":[null]}"#;
const TCP_SEGMENT: &str = r#"{"buffers":[{"addr":140373959634960,"length":2147483648,
"name":"h:1"}],"name":"h:1","protocol":"tcp","rdma_server_name":"","tcp_data_host":"127.0.0.1",
"tcp_data_port":16233,"tcp_proto_version":2,"timestamp":"2026-11-21 12:06:54.945639"}"#;
const RDMA_SEGMENT: &str = r#"{"name":"h:1","protocol":"rdma",
"devices":[{"name":"mlx5_0","lid":3,"gid":"fe:80"}],
"buffers":[{"name":"cpu:0","addr":4096,"length":8192,"rkey":[1],"lkey":[7]}],
"priority_matrix":{"cpu:0":[["mlx5_0"],[]]},
"perigee":{"version":1,"epoch":"0123","data_endpoint":"h:2","rails":[{}]},"other":1}"#;
/// One of each document and message, with the kind of the frame it travels in.
const DOCUMENTS: [(&str, PeerKind, &str); 4] = [
    ("connection", PeerKind::Connection, CONNECTION),
    ("tcp_segment", PeerKind::Metadata, TCP_SEGMENT),
    ("rdma_segment", PeerKind::Metadata, RDMA_SEGMENT),
    ("notify", PeerKind::Notify, r#"{"name":"a","notify_msg":"b"}"#),
];

/// The frame of each message about rails.
fn rails() -> [(&'static str, Vec<u8>); 4] {
    let endpoint =
        EndpointDescriptor { gid: [1; 16], lid: 0, queue_pair: 256, sequence: 7, mtu_bytes: 4096 };
    let proof = ProofDescriptor { address: 4096, remote_key: 9 };
    let gid = GidDescriptor { index: 3, address: [1; 16], roce_v1: false };
    let rail =
        RailDescriptor { device: "mlx5_0".to_owned(), infiniband: false, lid: 0, gids: vec![gid] };
    let region = RegionDescriptor {
        epoch: 7,
        generation: 3,
        address: 4096,
        bytes: 6 << 20,
        lease_ms: Some(10_000),
        borders: vec![2 << 20, 4 << 20],
        remote_keys: vec![vec![1, 2, 3], Vec::new(), vec![4, 5, u32::MAX]],
        placement: RailPlacement::of(vec![1], vec![0, 2], true),
    };
    let request = RailsRequest { epoch: u64::MAX, fence: true, version: 3, returned: vec![4, 5] };
    let reply = RailsReply {
        peer: PeerDescriptor { epoch: 7, rails: vec![rail] },
        regions: vec![(Identity(77), region)],
        version: 6,
        lease_ms: 10_000,
    };
    let offer = EndpointOffer {
        name: "h:1".to_owned(),
        epoch: u64::MAX,
        peer_epoch: 2,
        shard: 3,
        pairs: vec![PairOffer { lane: 0, peer_rail: 1, peer_gid_index: 3, endpoint, proof }],
        fenced: vec![FencedPair { lane: 1, queue_pair: 257 }],
    };
    let answer = EndpointAnswer {
        epoch: 2,
        pairs: vec![
            PairAnswer::Joined { endpoint, proof },
            PairAnswer::Refused { reason: "port of mlx5_0 is down".to_owned() },
        ],
        fenced: 1,
    };
    [
        ("rails_request", encode_request(&request)),
        ("rails_reply", encode_reply(&reply)),
        ("offer", encode_offer(&offer)),
        ("answer", encode_answer(&Ok(answer))),
    ]
}

/// One record of a journal.
fn record(op: RecordOp, part: Option<RecordPart>) -> Vec<u8> {
    let record = Record {
        op,
        flags: Record::HARD_PIN,
        checksum: 1,
        sequence: 2,
        generation: 3,
        offset: 4096,
        payload_bytes: 5,
        client: Identity(6),
        key: b"one",
        group: b"two",
        part,
    };
    let mut bytes = Vec::new();
    record.encode(&mut bytes);
    bytes
}

fn write(corpus: &Path, decoder: &str, name: &str, bytes: &[u8]) -> std::io::Result<()> {
    let folder = corpus.join(decoder);
    std::fs::create_dir_all(&folder)?;
    std::fs::write(folder.join(name), bytes)
}

/// Disk, sequence, and where the footer is: a body has nothing behind its last field.
const TRAILER_BODY_BYTES: usize = 16 + 3 * 4;

/// One structure of each kind, and those of an encrypted disk, with the numbers that the disk
/// decoder gives them: a body of a structure that is encrypted itself has its seal from there.
fn disk() -> [(u8, &'static str, Vec<u8>); 8] {
    let (disk, sequence, segment_bytes) = (Identity(7), 3, 16 << 20);
    let labels = Labels { key: b"key".to_vec(), tenant: b"a".to_vec(), group: b"g".to_vec() };
    let object = EntryKind::Object {
        offset: 12_288,
        payload_bytes: 100,
        checksum: 5,
        flags: 1,
        frequency: 2,
        labels,
    };
    let tombstone = EntryKind::Tombstone { sequence: 2 };
    let entry = |hash, kind| Entry { hash, generation: 9, kind };
    let entries = vec![entry(1, object), entry(2, tombstone)];
    let cluster = "mooncake_cluster".to_owned();
    let (serial, segments, void_before, key_check) = (1, 4, 2, None);
    let superblock =
        Superblock { disk, cluster, serial, segment_bytes, segments, void_before, key_check };
    let encrypted = Superblock { key_check: Some(u128::MAX / 3), ..superblock.clone() };
    let header = SegmentHeader { disk, sequence, segment_bytes, salt: None };
    let salted = SegmentHeader { salt: Some(u128::MAX / 5), ..header };
    let summary =
        Summary { disk, sequence, batch: 0, batch_bytes: 16_384, entries: entries.clone() };
    let footer = Footer { disk, sequence, entries };
    let trailer = SegmentTrailer { disk, sequence, footer_offset: 20_480, footer_bytes: 4096 };
    let beside = SegmentTrailer { footer_offset: 20_400, footer_bytes: 4080, ..trailer };
    let beside = beside.encode(BlockRoom::BesideTag);
    let room = BlockRoom::Whole;
    [
        (0, "superblock", without_padding(superblock.encode())),
        (1, "segment_header", without_padding(header.encode())),
        (2, "summary", without_padding(summary.encode(room))),
        (3, "footer", without_padding(footer.encode(room))),
        (4, "trailer", without_padding(trailer.encode(room))),
        (0, "superblock_encrypted", without_padding(encrypted.encode())),
        (1, "segment_header_encrypted", without_padding(salted.encode())),
        (14, "trailer_encrypted", beside[SEAL_BYTES..SEAL_BYTES + TRAILER_BODY_BYTES].to_vec()),
    ]
}

/// The zeros that fill a block tell a fuzzer nothing.
fn without_padding(mut structure: Vec<u8>) -> Vec<u8> {
    let end = structure.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    // The last fields may be zeros themselves: a tombstone ends in empty ones.
    structure.truncate((end + 64).min(structure.len()));
    structure
}

/// One body of each kind, in the order in which the message decoder numbers the kinds.
fn requests() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("exist", exist()),
        ("get_replicas", get_replicas()),
        ("put_start", put_start()),
        ("put_end", put_end()),
        ("put_revoke", put_revoke()),
        ("remove", remove()),
        ("remove_by_regex", remove_by_regex()),
        ("list_by_regex", list_by_regex()),
        ("replica_clear", replica_clear()),
        ("mount", mount()),
        ("unmount", unmount()),
        ("ping", ping()),
        ("query_segments", query_segments()),
        ("move", moved()),
        ("reply", get_replicas_reply()),
        ("leave", leave()),
        ("fetch_moves", fetch_moves()),
        ("end_moves", end_moves()),
        ("create_task", create_task()),
        ("query_task", query_task()),
        ("give_back", give_back()),
        ("follow", follow()),
        ("announce", announce()),
        ("records", records()),
        ("fetch_demotions", fetch_demotions()),
        ("end_demotions", end_demotions()),
        ("fetch_tombstones", fetch_tombstones()),
        ("confirm_tombstones", confirm_tombstones()),
        ("announce_copies", announce_copies()),
        ("recycled", recycled()),
        ("query_addresses", query_addresses()),
    ]
}

macro_rules! keys {
    ($builder:ident) => {{
        let words = ["one", "two", ""].map(|key| $builder.create_string(key));
        Some($builder.create_vector(&words))
    }};
}

fn finished<T>(mut builder: Builder, root: flatbuffers::WIPOffset<T>) -> Vec<u8> {
    builder.finish_minimal(root);
    builder.finished_data().to_vec()
}

fn exist() -> Vec<u8> {
    let mut b = Builder::new();
    let keys = keys!(b);
    let root = rpc::ExistRequest::create(&mut b, &rpc::ExistRequestArgs { keys, single: true });
    finished(b, root)
}

fn get_replicas() -> Vec<u8> {
    let mut b = Builder::new();
    let keys = keys!(b);
    let none = rpc::UnreadableCopy::default();
    let copies = [rpc::UnreadableCopy::new(1, u64::MAX, 1 << 32 | 4096, 7), none, none];
    let unreadable = Some(b.create_vector(&copies));
    let arguments = rpc::GetReplicasRequestArgs { keys, unreadable, ..Default::default() };
    let root = rpc::GetReplicasRequest::create(&mut b, &arguments);
    finished(b, root)
}

fn put_start() -> Vec<u8> {
    let mut b = Builder::new();
    let keys = keys!(b);
    let group_ids = keys!(b);
    let payload_bytes = Some(b.create_vector(&[1u64, 2, u64::MAX]));
    let placement = Some(Placement::create(&mut b, &PlacementArgs::default()));
    let arguments = rpc::PutStartRequestArgs {
        client_high: 1,
        client_low: 2,
        keys,
        payload_bytes,
        group_ids,
        placement,
        upsert: true,
        single: false,
        parts: true,
    };
    let root = rpc::PutStartRequest::create(&mut b, &arguments);
    finished(b, root)
}

fn put_end() -> Vec<u8> {
    let mut b = Builder::new();
    let keys = keys!(b);
    let checksum = Some(b.create_vector(&[1u32, 2, 3]));
    let part_count = Some(b.create_vector(&[0u8, 2, 0]));
    let part_checksum = Some(b.create_vector(&[4u32, 5]));
    let arguments =
        rpc::PutEndRequestArgs { keys, checksum, part_count, part_checksum, ..Default::default() };
    let root = rpc::PutEndRequest::create(&mut b, &arguments);
    finished(b, root)
}

fn put_revoke() -> Vec<u8> {
    let mut b = Builder::new();
    let keys = keys!(b);
    let arguments = rpc::PutRevokeRequestArgs { keys, ..Default::default() };
    let root = rpc::PutRevokeRequest::create(&mut b, &arguments);
    finished(b, root)
}

fn remove() -> Vec<u8> {
    let mut b = Builder::new();
    let keys = keys!(b);
    let arguments = rpc::RemoveRequestArgs { keys, force: true, single: true };
    let root = rpc::RemoveRequest::create(&mut b, &arguments);
    finished(b, root)
}

fn remove_by_regex() -> Vec<u8> {
    let mut b = Builder::new();
    let pattern = Some(b.create_string("^a.*"));
    let tenant = Some(b.create_string("one"));
    let arguments = rpc::RemoveByRegexRequestArgs { pattern, force: false, tenant };
    let root = rpc::RemoveByRegexRequest::create(&mut b, &arguments);
    finished(b, root)
}

fn list_by_regex() -> Vec<u8> {
    let mut b = Builder::new();
    let pattern = Some(b.create_string("("));
    let arguments = rpc::ListByRegexRequestArgs {
        pattern,
        limit: 9,
        cursor: Some(b.create_vector(&[0u64, 4, 9])),
        tenant: Some(b.create_string("one")),
    };
    let root = rpc::ListByRegexRequest::create(&mut b, &arguments);
    finished(b, root)
}

fn replica_clear() -> Vec<u8> {
    let mut b = Builder::new();
    let keys = keys!(b);
    let segment_name = Some(b.create_string("127.0.0.1:1"));
    let arguments = rpc::ReplicaClearRequestArgs { keys, segment_name, ..Default::default() };
    let root = rpc::ReplicaClearRequest::create(&mut b, &arguments);
    finished(b, root)
}

fn mount() -> Vec<u8> {
    let mut b = Builder::new();
    let name = Some(b.create_string("127.0.0.1:1"));
    let arguments = SegmentArgs { name, bytes: 1 << 30, ..Default::default() };
    let segment = Segment::create(&mut b, &arguments);
    let segments = Some(b.create_vector(&[segment]));
    let arguments = rpc::MountRequestArgs { segments, remount: true, ..Default::default() };
    let root = rpc::MountRequest::create(&mut b, &arguments);
    finished(b, root)
}

fn unmount() -> Vec<u8> {
    let mut b = Builder::new();
    let segment_high = Some(b.create_vector(&[1u64, 2]));
    let segment_low = Some(b.create_vector(&[3u64]));
    let arguments = rpc::UnmountRequestArgs { segment_high, segment_low, ..Default::default() };
    let root = rpc::UnmountRequest::create(&mut b, &arguments);
    finished(b, root)
}

fn ping() -> Vec<u8> {
    let mut b = Builder::new();
    let segment_high = Some(b.create_vector(&[1u64]));
    let segment_low = Some(b.create_vector(&[2u64]));
    let (path, reason) = (Some(b.create_string("/kv")), Some(b.create_string("no space")));
    let report = rpc::DiskReportArgs { disk_high: 3, disk_low: 4, health: 3, path, reason };
    let report = rpc::DiskReport::create(&mut b, &report);
    let arguments = rpc::PingRequestArgs {
        client_high: 1,
        client_low: 2,
        segment_high,
        segment_low,
        mounts: 1,
        usable_bytes: Some(b.create_vector(&[1u64 << 20])),
        disks: Some(b.create_vector(&[report])),
        asks_shared: true,
        unbacked: Some(b.create_vector(&[rpc::Unbacked::new(0, 1 << 19, 1 << 19)])),
    };
    let root = rpc::PingRequest::create(&mut b, &arguments);
    finished(b, root)
}

fn follow() -> Vec<u8> {
    let mut b = Builder::new();
    let taken = Some(b.create_vector(&[0u32, 2]));
    let arguments = rpc::FollowRequestArgs { segment_low: 1, taken, ..Default::default() };
    let root = rpc::FollowRequest::create(&mut b, &arguments);
    finished(b, root)
}

fn announce() -> Vec<u8> {
    let mut b = Builder::new();
    let records = Some(b.create_vector(&[1u8, 2, 3]));
    let free_offset = Some(b.create_vector(&[0u64]));
    let free_bytes = Some(b.create_vector(&[4096u64]));
    let arguments = rpc::AnnounceRequestArgs {
        segment_low: 1,
        records,
        free_offset,
        free_bytes,
        is_last: true,
        ..Default::default()
    };
    let root = rpc::AnnounceRequest::create(&mut b, &arguments);
    finished(b, root)
}

fn records() -> Vec<u8> {
    let mut b = Builder::new();
    let records = Some(b.create_vector(&[1u8, 2, 3]));
    let root = rpc::Records::create(&mut b, &rpc::RecordsArgs { records, is_whole: true });
    finished(b, root)
}

fn give_back() -> Vec<u8> {
    let mut b = Builder::new();
    let lease = Some(b.create_vector(&[1u64 << 32, u64::MAX]));
    let generation = Some(b.create_vector(&[7u64, 8]));
    let root = rpc::GiveBack::create(&mut b, &rpc::GiveBackArgs { lease, generation });
    finished(b, root)
}

fn query_segments() -> Vec<u8> {
    let mut b = Builder::new();
    let names = keys!(b);
    let arguments = rpc::QuerySegmentsRequestArgs { names, from: 9, disks: true, tenants: true };
    let root = rpc::QuerySegmentsRequest::create(&mut b, &arguments);
    finished(b, root)
}

fn moved() -> Vec<u8> {
    let mut b = Builder::new();
    let pieces = [mover::Piece::new(4096, 64), mover::Piece::new(u64::MAX, 2)];
    let guards = [mover::Guard::new(8, 5), mover::Guard::new(u64::MAX, 0)];
    let arguments = mover::MoveRequestArgs {
        direction: mover::Direction::Write,
        epoch: 9,
        segment_low: 3,
        pieces: Some(b.create_vector(&pieces)),
        guards: Some(b.create_vector(&guards)),
        checksum: Some(b.create_vector(&[1u32, 2])),
        tenant: Some(b.create_string("one")),
        ..Default::default()
    };
    let root = mover::MoveRequest::create(&mut b, &arguments);
    finished(b, root)
}

fn leave() -> Vec<u8> {
    let mut b = Builder::new();
    let root = rpc::LeaveRequest::create(&mut b, &rpc::LeaveRequestArgs::default());
    finished(b, root)
}

fn fetch_moves() -> Vec<u8> {
    let mut b = Builder::new();
    let arguments = rpc::FetchMovesRequestArgs { client_high: 1, client_low: 2, limit: u32::MAX };
    let root = rpc::FetchMovesRequest::create(&mut b, &arguments);
    finished(b, root)
}

fn create_task() -> Vec<u8> {
    let mut b = Builder::new();
    let targets = [b.create_string("127.0.0.1:1"), b.create_string("")];
    let arguments = rpc::CreateTaskRequestArgs {
        task_high: 1,
        task_low: 2,
        key: Some(b.create_string("key")),
        kind: rpc::TaskKind::Move,
        source: Some(b.create_string("127.0.0.1:2")),
        targets: Some(b.create_vector(&targets)),
    };
    let root = rpc::CreateTaskRequest::create(&mut b, &arguments);
    finished(b, root)
}

fn query_task() -> Vec<u8> {
    let mut b = Builder::new();
    let arguments = rpc::QueryTaskRequestArgs { task_high: 1, task_low: u64::MAX };
    let root = rpc::QueryTaskRequest::create(&mut b, &arguments);
    finished(b, root)
}

fn query_addresses() -> Vec<u8> {
    let mut b = Builder::new();
    let arguments = rpc::QueryAddressesRequestArgs {
        client_high: Some(b.create_vector(&[1u64, 0])),
        client_low: Some(b.create_vector(&[u64::MAX, 2])),
    };
    let root = rpc::QueryAddressesRequest::create(&mut b, &arguments);
    finished(b, root)
}

fn end_moves() -> Vec<u8> {
    let mut b = Builder::new();
    let keys = keys!(b);
    let arguments = rpc::EndMovesRequestArgs {
        client_high: 1,
        client_low: 2,
        keys,
        generation: Some(b.create_vector(&[7u64, 8, 9])),
        status: Some(b.create_vector(&[0i32, -900, 1])),
        in_flight: Some(b.create_vector(&[false, true])),
    };
    let root = rpc::EndMovesRequest::create(&mut b, &arguments);
    finished(b, root)
}

fn fetch_demotions() -> Vec<u8> {
    let mut b = Builder::new();
    let arguments = rpc::FetchDemotionsRequestArgs {
        client_high: 1,
        client_low: 2,
        limit: u32::MAX,
        leaves: true,
    };
    let root = rpc::FetchDemotionsRequest::create(&mut b, &arguments);
    finished(b, root)
}

fn end_demotions() -> Vec<u8> {
    let mut b = Builder::new();
    let keys = keys!(b);
    let arguments = rpc::EndDemotionsRequestArgs {
        client_high: 1,
        client_low: 2,
        keys,
        generation: Some(b.create_vector(&[7u64, 8, 9])),
        status: Some(b.create_vector(&[0i32, -900])),
        address: Some(b.create_vector(&[1u64 << 32 | 4096, u64::MAX])),
    };
    let root = rpc::EndDemotionsRequest::create(&mut b, &arguments);
    finished(b, root)
}

fn fetch_tombstones() -> Vec<u8> {
    let mut b = Builder::new();
    let arguments =
        rpc::FetchTombstonesRequestArgs { disk_low: 3, limit: u32::MAX, ..Default::default() };
    let root = rpc::FetchTombstonesRequest::create(&mut b, &arguments);
    finished(b, root)
}

fn confirm_tombstones() -> Vec<u8> {
    let mut b = Builder::new();
    let number = Some(b.create_vector(&[0u64, u64::MAX]));
    let arguments = rpc::ConfirmTombstonesRequestArgs { disk_low: 3, number, ..Default::default() };
    let root = rpc::ConfirmTombstonesRequest::create(&mut b, &arguments);
    finished(b, root)
}

fn announce_copies() -> Vec<u8> {
    let mut b = Builder::new();
    let keys = keys!(b);
    let groups = keys!(b);
    let arguments = rpc::AnnounceCopiesRequestArgs {
        disk_low: 3,
        keys,
        groups,
        generation: Some(b.create_vector(&[7u64, 8, 9])),
        payload_bytes: Some(b.create_vector(&[0u64, 1, u64::MAX])),
        checksum: Some(b.create_vector(&[1u32, 2, 3])),
        address: Some(b.create_vector(&[0u64, u64::MAX])),
        is_last: true,
        ..Default::default()
    };
    let root = rpc::AnnounceCopiesRequest::create(&mut b, &arguments);
    finished(b, root)
}

fn recycled() -> Vec<u8> {
    let mut b = Builder::new();
    let arguments = rpc::RecycledRequestArgs { disk_low: 3, oldest: 9, ..Default::default() };
    let root = rpc::RecycledRequest::create(&mut b, &arguments);
    finished(b, root)
}

fn moved_reply() -> Vec<u8> {
    let mut b = Builder::new();
    let arguments = mover::MoveReplyArgs {
        status: Some(b.create_vector(&[0i32, -600])),
        checksum: Some(b.create_vector(&[1u32, 0])),
        payload_bytes: 64,
        times: Some(&mover::Times::new(u64::MAX, u32::MAX, 7)),
        places: Some(b.create_vector(&[1u64 << 40, 0])),
        ticket: Some(1 << 32),
    };
    let root = mover::MoveReply::create(&mut b, &arguments);
    finished(b, root)
}

fn get_replicas_reply() -> Vec<u8> {
    let mut b = Builder::new();
    let status = Some(b.create_vector(&[0i32, -704]));
    let location_count = Some(b.create_vector(&[2u8, 0]));
    // Two parts of one object.
    let parts = [Location::new(0, 0x103, 64, 64, 5), Location::new(0, 0x203, 0, 7, 6)];
    let locations = Some(b.create_vector(&parts));
    let part_checksum = Some(b.create_vector(&[8u32, 9]));
    let arguments = rpc::GetReplicasReplyArgs {
        status,
        location_count,
        locations,
        part_checksum,
        ..Default::default()
    };
    let root = rpc::GetReplicasReply::create(&mut b, &arguments);
    finished(b, root)
}
