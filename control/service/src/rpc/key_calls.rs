//! Calls about keys. Each splits its batch by shard and answers in the order of the request.

use super::codec::{column, finish_status, keys, places};
use super::dispatch::{Builder, Refusal, Tally};
use crate::cluster::{Codes, ControlShard, Placements, Replicas, Share};
use perigee_master::{PutConfig, PutStart, Shard as KeyShard, SoftPin, StartedPuts};
use perigee_metrics::RpcKind;
use perigee_schemas::limits::SEGMENTS_MAX;
use perigee_schemas::message::decode;
use perigee_schemas::{Identity, Status, master, object};
use std::sync::Arc;

pub(super) async fn exist(
    shard: &ControlShard,
    body: &[u8],
    builder: &mut Builder,
) -> Result<Tally, Refusal> {
    let request = decode::<master::ExistRequest<'_>>(body)?;
    let keys = keys(request.keys())?;
    let codes: Codes = shard
        .scatter(&keys, |owner, now, share, codes: &mut Codes| {
            owner.exist(now, share.keys, &mut codes.0);
        })
        .await;
    let status = Some(builder.create_vector(&codes.0));
    let root = master::ExistReply::create(builder, &master::ExistReplyArgs { status });
    builder.finish_minimal(root);
    Ok(Tally::keys(RpcKind::ExistKey, request.single(), &codes.0))
}

pub(super) async fn get_replicas(
    shard: &ControlShard,
    body: &[u8],
    builder: &mut Builder,
) -> Result<Tally, Refusal> {
    let request = decode::<master::GetReplicasRequest<'_>>(body)?;
    let keys = keys(request.keys())?;
    let peek = request.peek();
    let found: Replicas = shard
        .scatter(&keys, move |owner, now, share, found: &mut Replicas| {
            if peek {
                owner.peek(share.keys, &mut found.columns);
            } else {
                owner.get_replicas(now, share.keys, &mut found.columns);
            }
            found.index();
        })
        .await;
    let columns = &found.columns;
    let places = places(builder, shard, &columns.locations);
    let args = master::GetReplicasReplyArgs {
        status: Some(builder.create_vector(&columns.status)),
        checksum: Some(builder.create_vector(&columns.checksum)),
        payload_bytes: Some(builder.create_vector(&columns.payload_bytes)),
        location_count: Some(builder.create_vector(&columns.location_count)),
        locations: Some(places.locations),
        segments: Some(places.segments),
        lease_ttl_ms: shard.keys.borrow().settings().lease_ttl_ms,
    };
    let root = master::GetReplicasReply::create(builder, &args);
    builder.finish_minimal(root);
    Ok(Tally::keys(
        RpcKind::GetReplicaList,
        request.single(),
        &columns.status,
    ))
}

pub(super) async fn put_start(
    shard: &ControlShard,
    body: &[u8],
    builder: &mut Builder,
) -> Result<Tally, Refusal> {
    let request = decode::<master::PutStartRequest<'_>>(body)?;
    let keys = keys(request.keys())?;
    let wanted = Arc::new(Wanted::decode(&request, keys.len())?);
    let started: Placements = shard
        .scatter(&keys, move |owner, now, share, started: &mut Placements| {
            wanted.start(owner, now, share, started);
        })
        .await;
    let columns = &started.columns;
    let places = places(builder, shard, &columns.locations);
    let args = master::PutStartReplyArgs {
        status: Some(builder.create_vector(&columns.status)),
        location_count: Some(builder.create_vector(&columns.location_count)),
        locations: Some(places.locations),
        segments: Some(places.segments),
    };
    let root = master::PutStartReply::create(builder, &args);
    builder.finish_minimal(root);
    let kind = if request.upsert() {
        RpcKind::UpsertStart
    } else {
        RpcKind::PutStart
    };
    Ok(Tally::keys(kind, request.single(), &columns.status))
}

pub(super) async fn put_end(
    shard: &ControlShard,
    body: &[u8],
    builder: &mut Builder,
) -> Result<Tally, Refusal> {
    let request = decode::<master::PutEndRequest<'_>>(body)?;
    let keys = keys(request.keys())?;
    let client = Identity::from_halves(request.client_high(), request.client_low());
    let checksums: Arc<[u32]> = column(request.checksum(), keys.len(), "checksum")?.into();
    let generations: Arc<[u64]> = column(request.generation(), keys.len(), "generation")?.into();
    let codes: Codes = shard
        .scatter(&keys, move |owner, now, share, codes: &mut Codes| {
            let puts = StartedPuts {
                client: client.0,
                keys: share.keys,
                generations: &share.pick(&generations),
            };
            owner.put_end(now, &puts, &share.pick(&checksums), &mut codes.0);
        })
        .await;
    finish_status(builder, &codes.0);
    Ok(Tally::keys(RpcKind::PutEnd, request.single(), &codes.0))
}

pub(super) async fn put_revoke(
    shard: &ControlShard,
    body: &[u8],
    builder: &mut Builder,
) -> Result<Tally, Refusal> {
    let request = decode::<master::PutRevokeRequest<'_>>(body)?;
    let keys = keys(request.keys())?;
    let client = Identity::from_halves(request.client_high(), request.client_low());
    let generations: Arc<[u64]> = column(request.generation(), keys.len(), "generation")?.into();
    let in_flight = request.in_flight();
    let codes: Codes = shard
        .scatter(&keys, move |owner, now, share, codes: &mut Codes| {
            let puts = StartedPuts {
                client: client.0,
                keys: share.keys,
                generations: &share.pick(&generations),
            };
            owner.put_revoke(now, &puts, in_flight, &mut codes.0);
        })
        .await;
    finish_status(builder, &codes.0);
    Ok(Tally::keys(RpcKind::PutRevoke, request.single(), &codes.0))
}

pub(super) async fn remove(
    shard: &ControlShard,
    body: &[u8],
    builder: &mut Builder,
) -> Result<Tally, Refusal> {
    let request = decode::<master::RemoveRequest<'_>>(body)?;
    let keys = keys(request.keys())?;
    let force = request.force();
    let codes: Codes = shard
        .scatter(&keys, move |owner, now, share, codes: &mut Codes| {
            owner.remove(now, share.keys, force, &mut codes.0);
        })
        .await;
    finish_status(builder, &codes.0);
    Ok(Tally::keys(RpcKind::Remove, request.single(), &codes.0))
}

pub(super) async fn replica_clear(
    shard: &ControlShard,
    body: &[u8],
    builder: &mut Builder,
) -> Result<Tally, Refusal> {
    let request = decode::<master::ReplicaClearRequest<'_>>(body)?;
    let keys = keys(request.keys())?;
    let client = Identity::from_halves(request.client_high(), request.client_low());
    let segment: Arc<str> = request.segment_name().unwrap_or_default().into();
    let codes: Codes = shard
        .scatter(&keys, move |owner, now, share, codes: &mut Codes| {
            owner.replica_clear(now, client.0, share.keys, &segment, &mut codes.0);
        })
        .await;
    finish_status(builder, &codes.0);
    Ok(Tally::keys(RpcKind::BatchReplicaClear, false, &codes.0))
}

/// What a put asks for, owned so that it can go to other shards.
struct Wanted {
    client: Identity,
    payload_bytes: Vec<u64>,
    groups: Vec<String>,
    replica_num: u32,
    hard_pin: bool,
    soft_pin: SoftPin,
    preferred_segments: Vec<String>,
    excluded: Vec<u128>,
    prefer_alloc_in_same_node: bool,
    host_id: String,
    host_name: String,
    upsert: bool,
}

impl Wanted {
    fn decode(request: &master::PutStartRequest<'_>, keys: usize) -> Result<Self, Refusal> {
        let strings =
            |list: Option<flatbuffers::Vector<'_, flatbuffers::ForwardsUOffset<&str>>>| {
                list.iter()
                    .flat_map(flatbuffers::Vector::iter)
                    .map(str::to_owned)
                    .collect::<Vec<_>>()
            };
        let groups = strings(request.group_ids());
        if !groups.is_empty() && groups.len() != keys {
            let message = format!(
                "{} group ids for {keys} keys: give none or one per key",
                groups.len()
            );
            return Err(Refusal::new(Status::InvalidParams, message));
        }
        let placement = request.placement();
        let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
        let soft_pin = placement.as_ref().map_or(
            Ok(SoftPin::default()),
            |placement: &object::Placement<'_>| {
                let (action, ttl_ms) = (placement.soft_pin_action(), placement.soft_pin_ttl_ms());
                SoftPin::from_wire(action, ttl_ms, placement.with_soft_pin())
            },
        );
        let soft_pin = soft_pin.map_err(|status| {
            Refusal::new(status, "The soft pin is not one of the known actions")
        })?;
        Ok(Self {
            client: Identity::from_halves(request.client_high(), request.client_low()),
            payload_bytes: column(request.payload_bytes(), keys, "payload_bytes")?,
            groups,
            replica_num: placement.as_ref().map_or(1, object::Placement::replica_num),
            hard_pin: placement
                .as_ref()
                .is_some_and(object::Placement::with_hard_pin),
            soft_pin,
            preferred_segments: strings(
                placement
                    .as_ref()
                    .and_then(object::Placement::preferred_segments),
            ),
            excluded: excluded(placement.as_ref())?,
            prefer_alloc_in_same_node: placement
                .as_ref()
                .is_some_and(object::Placement::prefer_alloc_in_same_node),
            host_id: text(placement.as_ref().and_then(object::Placement::host_id)),
            host_name: text(placement.as_ref().and_then(object::Placement::host_name)),
            upsert: request.upsert(),
        })
    }

    fn start(&self, owner: &mut KeyShard, now: u64, share: &Share<'_>, started: &mut Placements) {
        let payload_bytes = share.pick(&self.payload_bytes);
        let all_groups: Vec<&str> = self.groups.iter().map(String::as_str).collect();
        let groups = if all_groups.is_empty() {
            Vec::new()
        } else {
            share.pick(&all_groups)
        };
        let preferred: Vec<&str> = self.preferred_segments.iter().map(String::as_str).collect();
        let config = PutConfig {
            replica_num: self.replica_num,
            hard_pin: self.hard_pin,
            soft_pin: self.soft_pin,
            preferred_segments: &preferred,
            excluded: &self.excluded,
            prefer_alloc_in_same_node: self.prefer_alloc_in_same_node,
            host_id: &self.host_id,
            host_name: &self.host_name,
        };
        let put = PutStart {
            client: self.client.0,
            keys: share.keys,
            payload_bytes: &payload_bytes,
            groups: &groups,
            config: &config,
            upsert: self.upsert,
        };
        owner.put_start(now, &put, &mut started.columns);
        started.index();
    }
}

fn excluded(placement: Option<&object::Placement<'_>>) -> Result<Vec<u128>, Refusal> {
    let Some(placement) = placement else {
        return Ok(Vec::new());
    };
    let high = placement.excluded_high();
    let count = high.as_ref().map_or(0, flatbuffers::Vector::len);
    if count > SEGMENTS_MAX {
        let message =
            format!("{count} segments are to be avoided, over the limit of {SEGMENTS_MAX}");
        return Err(Refusal::new(Status::InvalidParams, message));
    }
    let low: Vec<u64> = column(placement.excluded_low(), count, "excluded_low")?;
    let pairs = high.iter().flat_map(flatbuffers::Vector::iter).zip(low);
    Ok(pairs
        .map(|(high, low)| Identity::from_halves(high, low).0)
        .collect())
}
