//! Between wire messages and the state machine's columns.

use super::call::{CallRefusal, ReplyBuilder};
use crate::cluster::ControlShard;
use flatbuffers::{ForwardsUOffset, Vector, WIPOffset};
use perigee_master::{ReplicaLocation, SegmentKind, SegmentSpec, TenantUsage};
use perigee_schemas::limits::{BATCH_KEYS_MAX, BATCH_SHARED_KEY_BYTES_MAX};
use perigee_schemas::{Identity, Status, master, object};
use perigee_shard::Environment;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

pub(super) type Strings<'a> = Vector<'a, ForwardsUOffset<&'a str>>;
type SegmentList = WIPOffset<Vector<'static, ForwardsUOffset<object::Segment<'static>>>>;

/// The keys of a batch, borrowed from the request of so many bytes. A batch may name one key many
/// times, but not so that its keys are far longer than the request.
pub(super) fn keys<'a>(
    list: Option<Strings<'a>>,
    request_bytes: usize,
) -> Result<Vec<&'a [u8]>, CallRefusal> {
    let count = list.as_ref().map_or(0, Vector::len);
    if count > BATCH_KEYS_MAX {
        let message = format!(
            "A batch of {count} keys is over the limit of {BATCH_KEYS_MAX}: send smaller batches"
        );
        return Err(CallRefusal::new(Status::InvalidParams, message));
    }
    let keys: Vec<&[u8]> = list.iter().flat_map(Vector::iter).map(str::as_bytes).collect();
    let key_bytes: usize = keys.iter().map(|key| key.len()).sum();
    if key_bytes > request_bytes.max(BATCH_SHARED_KEY_BYTES_MAX) {
        let message = format!(
            "{count} keys of {key_bytes} bytes in a request of {request_bytes} bytes: send each key once"
        );
        return Err(CallRefusal::new(Status::InvalidParams, message));
    }
    Ok(keys)
}

/// A numeric column that must have one entry per key.
pub(super) fn column<T>(
    list: Option<impl IntoIterator<Item = T>>,
    keys: usize,
    name: &str,
) -> Result<Vec<T>, CallRefusal> {
    let column: Vec<T> = list.into_iter().flatten().collect();
    if column.len() != keys {
        let message = format!("Column {name} has {} entries for {keys} keys", column.len());
        return Err(CallRefusal::new(Status::InvalidParams, message));
    }
    Ok(column)
}

/// Writes a reply of one status per key.
pub(super) fn finish_status(builder: &mut ReplyBuilder, codes: &[i32]) {
    let status = Some(builder.create_vector(codes));
    let root = master::StatusReply::create(builder, &master::StatusReplyArgs { status });
    builder.finish_minimal(root);
}

/// Writes a reply of a count or a negative status.
pub(super) fn finish_count(builder: &mut ReplyBuilder, count: Result<u64, Status>) {
    let count = count.map_or_else(
        |status| i64::from(status.code()),
        |count| i64::try_from(count).unwrap_or(i64::MAX),
    );
    let root = master::CountReply::create(builder, &master::CountReplyArgs { count });
    builder.finish_minimal(root);
}

/// Locations in wire form with a dense list of the segments they lie on.
pub(super) struct LocationColumns {
    pub(super) locations: WIPOffset<Vector<'static, object::Location>>,
    pub(super) segments: SegmentList,
}

pub(super) fn places(
    builder: &mut ReplyBuilder,
    shard: &ControlShard<impl Environment>,
    locations: &[ReplicaLocation],
) -> LocationColumns {
    let mut used: Vec<u32> = Vec::new();
    let mut places: BTreeMap<u32, usize> = BTreeMap::new();
    let wire: Vec<object::Location> = locations
        .iter()
        .map(|location| {
            let index = *places.entry(location.segment).or_insert_with(|| {
                used.push(location.segment);
                used.len() - 1
            });
            object::Location::new(
                index as u32,
                wire_status(location),
                location.offset,
                location.payload_bytes,
                location.generation,
            )
        })
        .collect();
    debug_assert_eq!(used.len(), places.len(), "each segment is named once");
    let keys = shard.keys.borrow();
    let specs: Vec<Option<Arc<SegmentSpec>>> =
        used.iter().map(|index| keys.segment(*index).cloned()).collect();
    let segments: Vec<_> = specs.iter().map(|spec| segment(builder, spec.as_deref())).collect();
    LocationColumns {
        locations: builder.create_vector(&wire),
        segments: builder.create_vector(&segments),
    }
}

/// The state of a location, and which part of its object lies there.
fn wire_status(location: &ReplicaLocation) -> u32 {
    let part = location.part.map_or(0, |part| u32::from(part) + 1);
    u32::from(location.state as u8) | part << 8
}

/// The checksums of the parts at locations; nothing if no object lies in parts.
pub(super) fn part_checksums(
    builder: &mut ReplyBuilder,
    locations: &[ReplicaLocation],
) -> Option<WIPOffset<Vector<'static, u32>>> {
    if locations.iter().all(|location| location.part.is_none()) {
        return None;
    }
    let checksums: Vec<u32> = locations.iter().map(|location| location.part_checksum).collect();
    Some(builder.create_vector(&checksums))
}

/// A tenant in wire form.
pub(super) fn tenant(
    builder: &mut ReplyBuilder,
    usage: &TenantUsage,
) -> WIPOffset<master::TenantUsage<'static>> {
    let args = master::TenantUsageArgs {
        name: Some(builder.create_string(&usage.name)),
        requested_bytes: usage.requested_bytes,
        effective_bytes: usage.effective_bytes,
        charged_bytes: usage.charged_bytes,
        objects: usage.objects,
        closed: usage.is_closed,
    };
    master::TenantUsage::create(builder, &args)
}

/// A segment in wire form; one that was unmounted this moment is named by nothing and cannot be
/// reached.
pub(super) fn segment(
    builder: &mut ReplyBuilder,
    spec: Option<&SegmentSpec>,
) -> WIPOffset<object::Segment<'static>> {
    let Some(spec) = spec else {
        return object::Segment::create(builder, &object::SegmentArgs::default());
    };
    let name = Some(builder.create_shared_string(&spec.name));
    let endpoint = Some(builder.create_shared_string(&spec.endpoint));
    let host_id = Some(builder.create_shared_string(&spec.host_id));
    let rendezvous = Some(builder.create_shared_string(&spec.rendezvous));
    let protocol = Some(builder.create_shared_string(&spec.protocol));
    let (id, client) = (Identity(spec.id), Identity(spec.client));
    let args = object::SegmentArgs {
        id_high: id.high(),
        id_low: id.low(),
        client_high: client.high(),
        client_low: client.low(),
        bytes: spec.bytes,
        base: spec.base,
        name,
        endpoint,
        host_id,
        rendezvous,
        protocol,
        kind: spec.kind as u8,
    };
    object::Segment::create(builder, &args)
}

/// A segment as a client offers it.
pub(super) fn offered(
    view: &object::Segment<'_>,
    client: Identity,
    peer: Option<IpAddr>,
) -> Result<SegmentSpec, CallRefusal> {
    let kind = SegmentKind::from_wire(view.kind()).ok_or_else(|| {
        let message = format!("No segments of kind {} are known here", view.kind());
        CallRefusal::new(Status::InvalidParams, message)
    })?;
    let owned = |text: Option<&str>| text.unwrap_or_default().to_owned();
    Ok(SegmentSpec {
        id: Identity::from_halves(view.id_high(), view.id_low()).0,
        name: owned(view.name()),
        client: client.0,
        bytes: view.bytes(),
        base: view.base(),
        endpoint: owned(view.endpoint()),
        host_id: owned(view.host_id()),
        rendezvous: owned(view.rendezvous()),
        protocol: owned(view.protocol()),
        peer,
        kind,
        announces: perigee_master::Announces::Nothing,
        keeps_parts: false,
        keeps_replica_counts: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use flatbuffers::FlatBufferBuilder;
    use perigee_schemas::message::decode;

    /// A request that names one key of so many bytes many times.
    fn request(count: usize, bytes: usize) -> Vec<u8> {
        let mut builder = FlatBufferBuilder::new();
        let key = builder.create_string(&"k".repeat(bytes));
        let keys = Some(builder.create_vector(&vec![key; count]));
        let args = master::ExistRequestArgs { keys, single: false };
        let root = master::ExistRequest::create(&mut builder, &args);
        builder.finish_minimal(root);
        builder.finished_data().to_vec()
    }

    fn accepted(body: &[u8]) -> Option<usize> {
        let request = decode::<master::ExistRequest<'_>>(body).ok()?;
        keys(request.keys(), body.len()).ok().map(|keys| keys.len())
    }

    #[test]
    fn a_small_request_cannot_name_a_long_key_many_thousand_times() {
        let bomb = request(32_000, 8192);
        assert!(bomb.len() < 140 << 10, "what it costs its sender");
        assert_eq!(accepted(&bomb), None);
        assert_eq!(accepted(&request(500, 8192)), Some(500));
        assert_eq!(accepted(&request(60_000, 64)), Some(60_000));
    }
}
