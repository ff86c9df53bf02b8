//! The bodies of calls to the master, and of their answers.

pub(super) mod disk;

use crate::world::World;
use flatbuffers::{FlatBufferBuilder, ForwardsUOffset, Vector, WIPOffset};
use perigee_rpc::{Location, ReplySegment};
use perigee_schemas::frame::{FrameHeader, MessageKind};
use perigee_schemas::master::UnreadableCopy;
use perigee_schemas::message::decode;
use perigee_schemas::{Identity, SegmentKind, Status, master, object};
use perigee_transfer::{ReplicaAddress, SegmentAddress};
use std::ops::Range;
use std::sync::Arc;

type Builder = FlatBufferBuilder<'static>;
type Strings = WIPOffset<Vector<'static, ForwardsUOffset<&'static str>>>;

/// A read lease that goes back: its name and the generation of the first location.
pub(super) type Given = (u64, u64);

/// One put as the master names it.
pub(super) struct Put<'a> {
    pub(super) client: Identity,
    pub(super) key: &'a str,
    pub(super) generation: u64,
}

/// What is to be put, and how.
pub(super) struct Wanted<'a> {
    pub(super) key: &'a str,
    pub(super) group: &'a str,
    pub(super) bytes: u64,
    pub(super) replicas: u32,
    pub(super) upsert: bool,
    pub(super) hard_pin: bool,
}

/// A segment that a node lends, or a disk.
#[derive(Clone)]
pub(super) struct Offer {
    pub(super) id: Identity,
    pub(super) name: String,
    pub(super) host_id: String,
    pub(super) bytes: u64,
    pub(super) kind: SegmentKind,
}

/// How segments are mounted.
#[derive(Default)]
pub(super) struct Mounting<'a> {
    pub(super) offers: &'a [Offer],
    /// What of them is announced; nothing where it is not said.
    pub(super) announces: &'a [(Identity, master::Announces)],
    pub(super) is_remount: bool,
    pub(super) number: u64,
    /// Largest generation that was heard of.
    pub(super) generation: u64,
}

/// What a heartbeat is answered with.
#[derive(Clone, Copy)]
pub(super) struct Pong {
    pub(super) must_mount: bool,
    pub(super) has_moves: bool,
    pub(super) has_disk_work: bool,
    /// Which life of the master has answered.
    pub(super) epoch: u64,
}

fn strings(builder: &mut Builder, texts: &[&str]) -> Strings {
    let texts: Vec<_> = texts.iter().map(|text| builder.create_string(text)).collect();
    builder.create_vector(&texts)
}

fn finished<T>(mut builder: Builder, root: WIPOffset<T>) -> Vec<u8> {
    builder.finish_minimal(root);
    builder.finished_data().to_vec()
}

/// A whole frame; nothing if there is nothing to give back.
pub(super) fn give_back(leases: &[Given]) -> Vec<u8> {
    if leases.is_empty() {
        return Vec::new();
    }
    let mut builder = Builder::new();
    let (names, generations): (Vec<u64>, Vec<u64>) = leases.iter().copied().unzip();
    let args = master::GiveBackArgs {
        lease: Some(builder.create_vector(&names)),
        generation: Some(builder.create_vector(&generations)),
    };
    let root = master::GiveBack::create(&mut builder, &args);
    let body = finished(builder, root);
    let mut frame = FrameHeader::encode(MessageKind::GiveBack, 0, &body).to_vec();
    frame.extend_from_slice(&body);
    frame
}

/// A heartbeat with what the client lends, known by its mount request of that number.
pub(super) fn ping(client: Identity, lent: &[Offer], mounts: u64) -> Vec<u8> {
    let mut builder = Builder::new();
    let column = |of: fn(&Offer) -> u64| lent.iter().map(of).collect::<Vec<u64>>();
    let args = master::PingRequestArgs {
        client_high: client.high(),
        client_low: client.low(),
        segment_high: Some(builder.create_vector(&column(|lent| lent.id.high()))),
        segment_low: Some(builder.create_vector(&column(|lent| lent.id.low()))),
        mounts,
        usable_bytes: Some(builder.create_vector(&column(|lent| lent.bytes))),
        disks: None,
        asks_shared: false,
        unbacked: None,
    };
    let root = master::PingRequest::create(&mut builder, &args);
    finished(builder, root)
}

pub(super) fn pong(body: &[u8]) -> Option<Pong> {
    let reply = decode::<master::PingReply<'_>>(body).ok()?;
    Some(Pong {
        must_mount: reply.state() != 0,
        has_moves: reply.has_moves(),
        has_disk_work: reply.has_disk_work(),
        epoch: reply.epoch(),
    })
}

/// Makes segments known, the first time or again.
pub(super) fn mount(client: Identity, mounting: &Mounting<'_>) -> Vec<u8> {
    let mut builder = Builder::new();
    let segment = |offer: &Offer| segment(&mut builder, client, offer);
    let segments: Vec<_> = mounting.offers.iter().map(segment).collect();
    let announces = |offer: &Offer| {
        let said = mounting.announces.iter().find(|(id, _)| *id == offer.id);
        said.map_or(master::Announces::Nothing, |(_, announces)| *announces)
    };
    let announces: Vec<_> = mounting.offers.iter().map(announces).collect();
    let args = master::MountRequestArgs {
        client_high: client.high(),
        client_low: client.low(),
        segments: Some(builder.create_vector(&segments)),
        remount: mounting.is_remount,
        number: mounting.number,
        generation: mounting.generation,
        announces: Some(builder.create_vector(&announces)),
        parts: true,
        replica_counts: true,
    };
    let root = master::MountRequest::create(&mut builder, &args);
    finished(builder, root)
}

fn segment(
    builder: &mut Builder,
    client: Identity,
    offer: &Offer,
) -> WIPOffset<object::Segment<'static>> {
    let name = builder.create_string(&offer.name);
    let host_id = builder.create_string(&offer.host_id);
    let protocol = builder.create_string("tcp");
    let args = object::SegmentArgs {
        id_high: offer.id.high(),
        id_low: offer.id.low(),
        client_high: client.high(),
        client_low: client.low(),
        bytes: offer.bytes,
        base: 0,
        name: Some(name),
        // The name of a segment is where its owner listens.
        endpoint: Some(name),
        host_id: Some(host_id),
        rendezvous: None,
        protocol: Some(protocol),
        kind: offer.kind as u8,
    };
    object::Segment::create(builder, &args)
}

pub(super) fn unmount(client: Identity, segment: Identity, grace_ms: u64) -> Vec<u8> {
    let mut builder = Builder::new();
    let args = master::UnmountRequestArgs {
        client_high: client.high(),
        client_low: client.low(),
        segment_high: Some(builder.create_vector(&[segment.high()])),
        segment_low: Some(builder.create_vector(&[segment.low()])),
        grace_ms,
    };
    let root = master::UnmountRequest::create(&mut builder, &args);
    finished(builder, root)
}

pub(super) fn put_start(client: Identity, wanted: &Wanted<'_>) -> Vec<u8> {
    let mut builder = Builder::new();
    let placement = object::PlacementArgs {
        replica_num: wanted.replicas,
        with_hard_pin: wanted.hard_pin,
        ..Default::default()
    };
    let placement = object::Placement::create(&mut builder, &placement);
    let args = master::PutStartRequestArgs {
        client_high: client.high(),
        client_low: client.low(),
        keys: Some(strings(&mut builder, &[wanted.key])),
        payload_bytes: Some(builder.create_vector(&[wanted.bytes])),
        group_ids: Some(strings(&mut builder, &[wanted.group])),
        placement: Some(placement),
        upsert: wanted.upsert,
        single: true,
        parts: true,
    };
    let root = master::PutStartRequest::create(&mut builder, &args);
    finished(builder, root)
}

/// `parts` has the checksum of each part; none for an object in one piece.
pub(super) fn put_end(put: &Put<'_>, checksum: u32, parts: &[u32], upsert: bool) -> Vec<u8> {
    let mut builder = Builder::new();
    let part_count = (!parts.is_empty()).then(|| builder.create_vector(&[parts.len() as u8]));
    let part_checksum = (!parts.is_empty()).then(|| builder.create_vector(parts));
    let args = master::PutEndRequestArgs {
        client_high: put.client.high(),
        client_low: put.client.low(),
        keys: Some(strings(&mut builder, &[put.key])),
        checksum: Some(builder.create_vector(&[checksum])),
        single: true,
        generation: Some(builder.create_vector(&[put.generation])),
        upsert,
        part_count,
        part_checksum,
    };
    let root = master::PutEndRequest::create(&mut builder, &args);
    finished(builder, root)
}

pub(super) fn put_revoke(put: &Put<'_>, in_flight: bool, upsert: bool) -> Vec<u8> {
    let mut builder = Builder::new();
    let args = master::PutRevokeRequestArgs {
        client_high: put.client.high(),
        client_low: put.client.low(),
        keys: Some(strings(&mut builder, &[put.key])),
        single: true,
        generation: Some(builder.create_vector(&[put.generation])),
        in_flight,
        upsert,
    };
    let root = master::PutRevokeRequest::create(&mut builder, &args);
    finished(builder, root)
}

/// Looks keys up; the first one's copy is named if it could not be read before.
pub(super) fn get_replicas(keys: &[String], unreadable: Option<UnreadableCopy>) -> Vec<u8> {
    let mut builder = Builder::new();
    let others = keys.iter().skip(1).map(|_| UnreadableCopy::default());
    let copies = unreadable.map(|first| std::iter::once(first).chain(others).collect::<Vec<_>>());
    let texts: Vec<&str> = keys.iter().map(String::as_str).collect();
    let args = master::GetReplicasRequestArgs {
        keys: Some(strings(&mut builder, &texts)),
        single: keys.len() == 1,
        peek: false,
        probe: false,
        parts: true,
        unreadable: copies.map(|copies| builder.create_vector(&copies)),
    };
    let root = master::GetReplicasRequest::create(&mut builder, &args);
    finished(builder, root)
}

pub(super) fn remove(key: &str, force: bool) -> Vec<u8> {
    let mut builder = Builder::new();
    let args = master::RemoveRequestArgs {
        keys: Some(strings(&mut builder, &[key])),
        force,
        single: true,
    };
    let root = master::RemoveRequest::create(&mut builder, &args);
    finished(builder, root)
}

/// Removes every key of a tenant.
pub(super) fn remove_all(tenant: &str) -> Vec<u8> {
    let mut builder = Builder::new();
    let tenant = Some(builder.create_string(tenant));
    let args = master::RemoveAllRequestArgs { force: true, tenant };
    let root = master::RemoveAllRequest::create(&mut builder, &args);
    finished(builder, root)
}

/// One more replica of a key in a segment.
pub(super) fn create_copy(id: Identity, key: &str, target: &str) -> Vec<u8> {
    let mut builder = Builder::new();
    let args = master::CreateTaskRequestArgs {
        task_high: id.high(),
        task_low: id.low(),
        key: Some(builder.create_string(key)),
        kind: master::TaskKind::Copy,
        source: Some(builder.create_string("")),
        targets: Some(strings(&mut builder, &[target])),
    };
    let root = master::CreateTaskRequest::create(&mut builder, &args);
    finished(builder, root)
}

pub(super) fn query_task(id: Identity) -> Vec<u8> {
    let mut builder = Builder::new();
    let args = master::QueryTaskRequestArgs { task_high: id.high(), task_low: id.low() };
    let root = master::QueryTaskRequest::create(&mut builder, &args);
    finished(builder, root)
}

/// Whether a task has ended or is not known any more.
pub(super) fn has_ended(body: &[u8]) -> Option<bool> {
    let reply = decode::<master::QueryTaskReply<'_>>(body).ok()?;
    let is_known = Status::from_peer(reply.status()) == Status::Ok;
    Some(!is_known || reply.state() >= 2)
}

pub(super) fn fetch_moves(client: Identity, limit: u32) -> Vec<u8> {
    let mut builder = Builder::new();
    let args = master::FetchMovesRequestArgs {
        client_high: client.high(),
        client_low: client.low(),
        limit,
    };
    let root = master::FetchMovesRequest::create(&mut builder, &args);
    finished(builder, root)
}

/// How the move of a key went.
pub(super) fn end_move(put: &Put<'_>, status: Status, in_flight: bool) -> Vec<u8> {
    let mut builder = Builder::new();
    let args = master::EndMovesRequestArgs {
        client_high: put.client.high(),
        client_low: put.client.low(),
        keys: Some(strings(&mut builder, &[put.key])),
        generation: Some(builder.create_vector(&[put.generation])),
        status: Some(builder.create_vector(&[status.code()])),
        in_flight: Some(builder.create_vector(&[in_flight])),
    };
    let root = master::EndMovesRequest::create(&mut builder, &args);
    finished(builder, root)
}

/// The status of the only key, segment or move that was asked about.
pub(super) fn status(body: &[u8]) -> Option<Status> {
    let reply = decode::<master::StatusReply<'_>>(body).ok()?;
    let statuses = reply.status()?;
    (statuses.len() == 1).then(|| Status::from_peer(statuses.get(0)))
}

/// An answer that can be read, as every answer of the master must be.
pub(super) fn sound<T, E: std::fmt::Debug>(world: &World, answer: Result<T, E>) -> Option<T> {
    if let Err(error) = &answer {
        world.violate(format!("An answer of the master cannot be read: {error:?}"));
    }
    answer.ok()
}

/// A place of an object, or of a part of it: where it lies, and which bytes of the object.
pub(super) struct PartPlace {
    pub(super) address: ReplicaAddress,
    pub(super) part: Option<u8>,
    pub(super) range: Range<usize>,
}

/// The places of one object.
pub(super) fn part_places(segments: &[ReplySegment], locations: &[Location]) -> Vec<PartPlace> {
    let part_bytes = locations.first().map_or(0, |first| first.payload_bytes as usize);
    let place = |location: &Location| {
        let start = location.part.map_or(0, |part| usize::from(part) * part_bytes);
        let range = start..start + location.payload_bytes as usize;
        PartPlace { address: place(segments, location), part: location.part, range }
    };
    locations.iter().map(place).collect()
}

/// Where a replica lies.
pub(super) fn place(segments: &[ReplySegment], location: &Location) -> ReplicaAddress {
    let view = &segments[location.segment as usize];
    let segment = SegmentAddress {
        id: view.id,
        bytes: view.bytes,
        endpoint: view.endpoint.clone(),
        host_id: view.host_id.clone(),
        rendezvous: String::new(),
        kind: view.kind,
    };
    ReplicaAddress {
        segment: Arc::new(segment),
        offset: location.offset,
        payload_bytes: location.payload_bytes,
        generation: location.generation,
    }
}
