//! Encoding of the messages that clients send.

use flatbuffers::{FlatBufferBuilder, ForwardsUOffset, Vector, WIPOffset};
use perigee_schemas::master::Unbacked;
use perigee_schemas::{DiskHealth, Identity, SegmentKind, TenantId, master, object};

type RequestBuilder = FlatBufferBuilder<'static>;
type IdentityVector = WIPOffset<Vector<'static, u64>>;
type StringVector = WIPOffset<Vector<'static, ForwardsUOffset<&'static str>>>;

/// How a write was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteForm {
    /// Existing objects are replaced.
    pub upsert: bool,
    /// The caller's call takes one key and is not a batch of one; this only decides which family
    /// counts it.
    pub single: bool,
}

/// How objects are to be placed and kept, as the wire has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WirePlacement<'a> {
    /// Copies wanted.
    pub replica_num: u32,
    /// 0 preserve, 1 enable, 2 disable.
    pub soft_pin_action: u8,
    /// Length of the soft pin in milliseconds.
    pub soft_pin_ttl_ms: Option<u64>,
    /// Soft pin in the words of older clients.
    pub with_soft_pin: bool,
    /// Never evict.
    pub with_hard_pin: bool,
    /// Put the whole batch on one segment if it fits.
    pub prefer_alloc_in_same_node: bool,
    /// Mooncake's `ObjectDataType`.
    pub data_type: u8,
    /// Segments to try first, in order.
    pub preferred_segments: &'a [String],
    /// Segments to avoid as long as there is another choice.
    pub excluded: &'a [Identity],
    /// Identity of the writer's host.
    pub host_id: &'a str,
    /// Name of the writer's host.
    pub host_name: &'a str,
    /// The writer can write an object that is larger than any segment in parts.
    pub parts: bool,
}

/// A segment that a client mounts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentOffer {
    /// Random identity of the segment.
    pub id: Identity,
    /// Usable bytes.
    pub bytes: u64,
    /// Address in the owner, shown to users.
    pub base: u64,
    /// Name shown to users (`host:port`).
    pub name: String,
    /// `host:port` of the owner's data port.
    pub endpoint: String,
    /// Identity of the owner's host.
    pub host_id: String,
    /// Abstract Unix socket where the owner hands out descriptors.
    pub rendezvous: String,
    /// Protocol shown to users.
    pub protocol: String,
    /// Memory, or the log of a disk.
    pub kind: SegmentKind,
}

/// What a client lends, as its heartbeat tells it. The default tells nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LentSegments {
    /// All its segments, those with a running grace aside.
    pub segments: Vec<Identity>,
    /// For each of them the bytes that this host has memory for.
    pub usable_bytes: Vec<u64>,
    /// Which ranges of them this host has no memory for.
    pub unbacked: Vec<Unbacked>,
    /// Number of the last mount request that it had begun when it made the list; 0 means that there
    /// is no list.
    pub mounts: u64,
    /// How its disks are.
    pub disks: Vec<DiskReport>,
}

/// How a disk is, as its owner sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskReport {
    /// The disk; 0 if it could not be opened.
    pub disk: Identity,
    /// How far it can be used.
    pub health: DiskHealth,
    /// The folder that its user has named.
    pub path: String,
    /// Why it is not healthy.
    pub reason: String,
}

pub(crate) fn disk_report(
    builder: &mut RequestBuilder,
    report: &DiskReport,
) -> WIPOffset<master::DiskReport<'static>> {
    let args = master::DiskReportArgs {
        disk_high: report.disk.high(),
        disk_low: report.disk.low(),
        health: report.health as u8,
        path: Some(builder.create_string(&report.path)),
        reason: Some(builder.create_string(&report.reason)),
    };
    master::DiskReport::create(builder, &args)
}

pub(crate) fn strings<S: AsRef<str>>(builder: &mut RequestBuilder, items: &[S]) -> StringVector {
    let offsets: Vec<_> = items.iter().map(|item| builder.create_string(item.as_ref())).collect();
    builder.create_vector(&offsets)
}

/// Keys with their tenant in front.
pub(crate) fn stored<S: AsRef<str>>(
    builder: &mut RequestBuilder,
    tenant: &TenantId,
    keys: &[S],
) -> StringVector {
    if tenant.is_default() {
        return strings(builder, keys);
    }
    let key = |key: &S| builder.create_string(&tenant.stored(key.as_ref()));
    let offsets: Vec<_> = keys.iter().map(key).collect();
    builder.create_vector(&offsets)
}

/// Groups with their tenant in front; an empty one is none.
pub(crate) fn stored_groups(
    builder: &mut RequestBuilder,
    tenant: &TenantId,
    groups: &[&str],
) -> StringVector {
    let stored = |group: &&str| match group.is_empty() {
        true => builder.create_string(""),
        false => builder.create_string(&tenant.stored(group)),
    };
    let offsets: Vec<_> = groups.iter().map(stored).collect();
    builder.create_vector(&offsets)
}

/// The tenant of a call about all its keys; nothing for the default one.
pub(crate) fn tenant(
    builder: &mut RequestBuilder,
    tenant: &TenantId,
) -> Option<WIPOffset<&'static str>> {
    (!tenant.is_default()).then(|| builder.create_string(tenant.name()))
}

pub(crate) fn placement(
    builder: &mut RequestBuilder,
    wanted: &WirePlacement<'_>,
) -> WIPOffset<object::Placement<'static>> {
    let preferred_segments = strings(builder, wanted.preferred_segments);
    let host_id = builder.create_string(wanted.host_id);
    let host_name = builder.create_string(wanted.host_name);
    let (high, low) = identities(builder, wanted.excluded);
    object::Placement::create(
        builder,
        &object::PlacementArgs {
            replica_num: wanted.replica_num,
            soft_pin_action: wanted.soft_pin_action,
            soft_pin_ttl_ms: wanted
                .soft_pin_ttl_ms
                .map_or(-1, |ttl| i64::try_from(ttl).unwrap_or(i64::MAX)),
            with_soft_pin: wanted.with_soft_pin,
            with_hard_pin: wanted.with_hard_pin,
            prefer_alloc_in_same_node: wanted.prefer_alloc_in_same_node,
            data_type: wanted.data_type,
            preferred_segments: Some(preferred_segments),
            host_id: Some(host_id),
            host_name: Some(host_name),
            excluded_high: Some(high),
            excluded_low: Some(low),
        },
    )
}

/// How segments are mounted.
#[derive(Clone, Copy, Debug, Default)]
pub struct MountForm<'a> {
    /// The client answers a request to mount again.
    pub is_remount: bool,
    /// Number of the request, see [`LentSegments::mounts`].
    pub number: u64,
    /// What the client will announce of its segments; nothing of those that are not here.
    pub announces: &'a [(Identity, master::Announces)],
    /// Largest generation that the client has heard of from another life of the master.
    pub generation: u64,
}

pub(crate) fn mount(
    builder: &mut RequestBuilder,
    client: Identity,
    segments: &[SegmentOffer],
    form: &MountForm<'_>,
) {
    let offers: Vec<_> = segments.iter().map(|segment| offer(builder, client, segment)).collect();
    let announces = |segment: &SegmentOffer| {
        let named = form.announces.iter().find(|(id, _)| *id == segment.id);
        named.map_or(master::Announces::Nothing, |(_, announces)| *announces)
    };
    let announces: Vec<master::Announces> = segments.iter().map(announces).collect();
    let announces = Some(builder.create_vector(&announces));
    let segments = builder.create_vector(&offers);
    let root = master::MountRequest::create(
        builder,
        &master::MountRequestArgs {
            client_high: client.high(),
            client_low: client.low(),
            segments: Some(segments),
            remount: form.is_remount,
            number: form.number,
            generation: form.generation,
            announces,
            parts: true,
            replica_counts: true,
        },
    );
    builder.finish_minimal(root);
}

pub(crate) fn identities(
    builder: &mut RequestBuilder,
    ids: &[Identity],
) -> (IdentityVector, IdentityVector) {
    let high: Vec<u64> = ids.iter().map(|id| id.high()).collect();
    let low: Vec<u64> = ids.iter().map(|id| id.low()).collect();
    (builder.create_vector(&high), builder.create_vector(&low))
}

fn offer(
    builder: &mut RequestBuilder,
    client: Identity,
    segment: &SegmentOffer,
) -> WIPOffset<object::Segment<'static>> {
    let name = builder.create_string(&segment.name);
    let endpoint = builder.create_string(&segment.endpoint);
    let host_id = builder.create_string(&segment.host_id);
    let rendezvous = builder.create_string(&segment.rendezvous);
    let protocol = builder.create_string(&segment.protocol);
    object::Segment::create(
        builder,
        &object::SegmentArgs {
            id_high: segment.id.high(),
            id_low: segment.id.low(),
            client_high: client.high(),
            client_low: client.low(),
            bytes: segment.bytes,
            base: segment.base,
            name: Some(name),
            endpoint: Some(endpoint),
            host_id: Some(host_id),
            rendezvous: Some(rendezvous),
            protocol: Some(protocol),
            kind: segment.kind as u8,
        },
    )
}
