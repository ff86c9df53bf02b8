//! Between wire messages and the state machine's columns.

use super::dispatch::{Builder, Refusal};
use crate::cluster::ControlShard;
use flatbuffers::{ForwardsUOffset, Vector, WIPOffset};
use perigee_master::{Location, SegmentSpec};
use perigee_schemas::limits::BATCH_KEYS_MAX;
use perigee_schemas::{Identity, Status, master, object};
use std::sync::Arc;

type Strings<'a> = Vector<'a, ForwardsUOffset<&'a str>>;
type SegmentList = WIPOffset<Vector<'static, ForwardsUOffset<object::Segment<'static>>>>;

/// The keys of a batch, borrowed from the request.
pub(super) fn keys<'a>(list: Option<Strings<'a>>) -> Result<Vec<&'a [u8]>, Refusal> {
    let count = list.as_ref().map_or(0, Vector::len);
    if count > BATCH_KEYS_MAX {
        let message = format!(
            "A batch of {count} keys is over the limit of {BATCH_KEYS_MAX}: send smaller batches"
        );
        return Err(Refusal::new(Status::InvalidParams, message));
    }
    Ok(list
        .iter()
        .flat_map(Vector::iter)
        .map(str::as_bytes)
        .collect())
}

/// A numeric column that must have one entry per key.
pub(super) fn column<T: Copy>(
    list: Option<impl IntoIterator<Item = T>>,
    keys: usize,
    name: &str,
) -> Result<Vec<T>, Refusal> {
    let column: Vec<T> = list.into_iter().flatten().collect();
    if column.len() != keys {
        let message = format!("Column {name} has {} entries for {keys} keys", column.len());
        return Err(Refusal::new(Status::InvalidParams, message));
    }
    Ok(column)
}

/// Writes a reply of one status per key.
pub(super) fn finish_status(builder: &mut Builder, codes: &[i32]) {
    let status = Some(builder.create_vector(codes));
    let root = master::StatusReply::create(builder, &master::StatusReplyArgs { status });
    builder.finish_minimal(root);
}

/// Writes a reply of a count or a negative status.
pub(super) fn finish_count(builder: &mut Builder, count: Result<u64, Status>) {
    let count = count.map_or_else(
        |status| i64::from(status.code()),
        |count| i64::try_from(count).unwrap_or(i64::MAX),
    );
    let root = master::CountReply::create(builder, &master::CountReplyArgs { count });
    builder.finish_minimal(root);
}

/// Locations in wire form with a dense list of the segments they lie on.
pub(super) struct Places {
    pub(super) locations: WIPOffset<Vector<'static, object::Location>>,
    pub(super) segments: SegmentList,
}

pub(super) fn places(
    builder: &mut Builder,
    shard: &ControlShard,
    locations: &[Location],
) -> Places {
    let mut used: Vec<u32> = Vec::new();
    let wire: Vec<object::Location> = locations
        .iter()
        .map(|location| {
            let index = used
                .iter()
                .position(|segment| *segment == location.segment)
                .unwrap_or_else(|| {
                    used.push(location.segment);
                    used.len() - 1
                });
            object::Location::new(
                index as u32,
                location.state as u32,
                location.offset,
                location.payload_bytes,
                location.generation,
            )
        })
        .collect();
    let keys = shard.keys.borrow();
    let specs: Vec<Option<Arc<SegmentSpec>>> = used
        .iter()
        .map(|index| keys.segment(*index).cloned())
        .collect();
    let segments: Vec<_> = specs
        .iter()
        .map(|spec| segment(builder, spec.as_deref()))
        .collect();
    Places {
        locations: builder.create_vector(&wire),
        segments: builder.create_vector(&segments),
    }
}

/// A segment in wire form; one that was unmounted this moment is named by nothing and cannot be reached.
pub(super) fn segment(
    builder: &mut Builder,
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
    };
    object::Segment::create(builder, &args)
}

/// A segment as a client offers it.
pub(super) fn offered(view: &object::Segment<'_>, client: Identity) -> SegmentSpec {
    let owned = |text: Option<&str>| text.unwrap_or_default().to_owned();
    SegmentSpec {
        id: Identity::from_halves(view.id_high(), view.id_low()).0,
        name: owned(view.name()),
        client: client.0,
        bytes: view.bytes(),
        base: view.base(),
        endpoint: owned(view.endpoint()),
        host_id: owned(view.host_id()),
        rendezvous: owned(view.rendezvous()),
        protocol: owned(view.protocol()),
    }
}
