//! Calls about clients, segments and whole sets of keys: every shard takes part.

use super::codec::{finish_count, finish_status, offered, segment};
use super::dispatch::{Builder, Refusal, Tally};
use crate::cluster::ControlShard;
use perigee_master::{SegmentSpec, Shard as KeyShard};
use perigee_metrics::RpcKind;
use perigee_schemas::limits::{PATTERN_BYTES_MAX, SEGMENTS_MAX};
use perigee_schemas::message::decode;
use perigee_schemas::{Identity, Status, master};
use std::sync::Arc;

pub(super) async fn remove_by_regex(
    shard: &ControlShard,
    body: &[u8],
    builder: &mut Builder,
) -> Result<Tally, Refusal> {
    let request = decode::<master::RemoveByRegexRequest<'_>>(body)?;
    let (pattern, force) = (pattern(request.pattern())?, request.force());
    let counts = shard
        .every(move |keys, now| keys.remove_by_regex(now, &pattern, force))
        .await;
    let count = sum(counts);
    finish_count(builder, count);
    Ok(Tally::one(RpcKind::RemoveByRegex, count.is_ok()))
}

pub(super) async fn remove_all(
    shard: &ControlShard,
    body: &[u8],
    builder: &mut Builder,
) -> Result<Tally, Refusal> {
    let force = decode::<master::RemoveAllRequest<'_>>(body)?.force();
    let counts = shard
        .every(move |keys, now| Ok(keys.remove_all(now, force)))
        .await;
    finish_count(builder, sum(counts));
    Ok(Tally::one(RpcKind::RemoveAll, true))
}

pub(super) async fn list_by_regex(
    shard: &ControlShard,
    body: &[u8],
    builder: &mut Builder,
) -> Result<Tally, Refusal> {
    let request = decode::<master::ListByRegexRequest<'_>>(body)?;
    let (pattern, limit) = (pattern(request.pattern())?, request.limit() as usize);
    let lists = shard
        .every(move |keys, _| {
            let mut found = Vec::new();
            let collect = |key: &[u8]| found.push(String::from_utf8_lossy(key).into_owned());
            keys.list_by_regex(&pattern, limit, collect).map(|()| found)
        })
        .await;
    let joined: Result<Vec<Vec<String>>, Status> = lists.into_iter().collect();
    let status = joined.as_ref().err().map_or(0, |status| status.code());
    let mut found: Vec<String> = joined.unwrap_or_default().into_iter().flatten().collect();
    found.truncate(limit);
    let offsets: Vec<_> = found.iter().map(|key| builder.create_string(key)).collect();
    let keys = Some(builder.create_vector(&offsets));
    let root = master::ListReply::create(builder, &master::ListReplyArgs { status, keys });
    builder.finish_minimal(root);
    Ok(Tally::one(RpcKind::ListByRegex, status == 0))
}

pub(super) async fn mount(
    shard: &ControlShard,
    body: &[u8],
    builder: &mut Builder,
) -> Result<Tally, Refusal> {
    let request = decode::<master::MountRequest<'_>>(body)?;
    let client = Identity::from_halves(request.client_high(), request.client_low());
    let segments = request.segments();
    let count = segments.as_ref().map_or(0, flatbuffers::Vector::len);
    within_limit(count, "segments")?;
    let specs: Vec<SegmentSpec> = segments
        .iter()
        .flat_map(flatbuffers::Vector::iter)
        .map(|view| offered(&view, client))
        .collect();
    for spec in &specs {
        tracing::info!(
            segment = spec.name,
            bytes = spec.bytes,
            endpoint = spec.endpoint,
            "Mounting a segment"
        );
    }
    let codes = shard.mount(client, specs, request.remount()).await;
    finish_status(builder, &codes);
    let kind = if request.remount() {
        RpcKind::ReMountSegment
    } else {
        RpcKind::MountSegment
    };
    Ok(Tally::one(kind, codes.iter().all(|code| *code == 0)))
}

pub(super) async fn unmount(
    shard: &ControlShard,
    body: &[u8],
    builder: &mut Builder,
) -> Result<Tally, Refusal> {
    let request = decode::<master::UnmountRequest<'_>>(body)?;
    let client = Identity::from_halves(request.client_high(), request.client_low());
    let high: Vec<u64> = request
        .segment_high()
        .iter()
        .flat_map(flatbuffers::Vector::iter)
        .collect();
    let low: Vec<u64> = request
        .segment_low()
        .iter()
        .flat_map(flatbuffers::Vector::iter)
        .collect();
    within_limit(high.len(), "segments")?;
    if high.len() != low.len() {
        return Err(Refusal::new(
            Status::InvalidParams,
            "The columns of segment identities differ in length",
        ));
    }
    let ids = high
        .into_iter()
        .zip(low)
        .map(|(high, low)| Identity::from_halves(high, low))
        .collect();
    let codes = shard.unmount(client, ids, request.grace_ms()).await;
    finish_status(builder, &codes);
    Ok(Tally::one(
        RpcKind::UnmountSegment,
        codes.iter().all(|code| *code == 0),
    ))
}

pub(super) async fn ping(
    shard: &ControlShard,
    body: &[u8],
    builder: &mut Builder,
) -> Result<Tally, Refusal> {
    let request = decode::<master::PingRequest<'_>>(body)?;
    let client = Identity::from_halves(request.client_high(), request.client_low());
    let must_mount = shard.ping(client).await;
    let state = u8::from(must_mount != Some(false));
    let root = master::PingReply::create(
        builder,
        &master::PingReplyArgs {
            state,
            epoch: shard.epoch,
        },
    );
    builder.finish_minimal(root);
    Ok(Tally::one(RpcKind::Ping, must_mount.is_some()))
}

pub(super) async fn leave(
    shard: &ControlShard,
    body: &[u8],
    builder: &mut Builder,
) -> Result<Tally, Refusal> {
    let request = decode::<master::LeaveRequest<'_>>(body)?;
    shard
        .leave(Identity::from_halves(
            request.client_high(),
            request.client_low(),
        ))
        .await;
    finish_status(builder, &[]);
    Ok(Tally::one(RpcKind::Leave, true))
}

pub(super) async fn query_segments(
    shard: &ControlShard,
    body: &[u8],
    builder: &mut Builder,
) -> Result<Tally, Refusal> {
    let request = decode::<master::QuerySegmentsRequest<'_>>(body)?;
    let names: Arc<[String]> = request
        .names()
        .iter()
        .flat_map(flatbuffers::Vector::iter)
        .map(str::to_owned)
        .collect();
    within_limit(names.len(), "segment names")?;
    let uses = shard.segment_uses(names).await;
    let segments: Vec<_> = uses
        .iter()
        .map(|used| segment(builder, Some(&used.spec)))
        .collect();
    let used_bytes: Vec<u64> = uses.iter().map(|used| used.allocated_bytes).collect();
    let state: Vec<u8> = uses.iter().map(|used| used.state).collect();
    let args = master::QuerySegmentsReplyArgs {
        segments: Some(builder.create_vector(&segments)),
        used_bytes: Some(builder.create_vector(&used_bytes)),
        state: Some(builder.create_vector(&state)),
    };
    let root = master::QuerySegmentsReply::create(builder, &args);
    builder.finish_minimal(root);
    Ok(Tally::one(RpcKind::QuerySegments, true))
}

fn pattern(text: Option<&str>) -> Result<Arc<str>, Refusal> {
    let text = text.unwrap_or_default();
    if text.len() > PATTERN_BYTES_MAX {
        let message = format!(
            "A pattern of {} bytes is over the limit of {PATTERN_BYTES_MAX}",
            text.len()
        );
        return Err(Refusal::new(Status::InvalidParams, message));
    }
    Ok(text.into())
}

fn within_limit(count: usize, what: &str) -> Result<(), Refusal> {
    if count > SEGMENTS_MAX {
        let message = format!("{count} {what} are over the limit of {SEGMENTS_MAX}");
        return Err(Refusal::new(Status::InvalidParams, message));
    }
    Ok(())
}

fn sum(counts: Vec<Result<u64, Status>>) -> Result<u64, Status> {
    counts.into_iter().sum()
}

impl ControlShard {
    /// Runs `work` on the keys of every shard, all at once.
    async fn every<R: Send + 'static>(
        &self,
        work: impl Fn(&mut KeyShard, u64) -> Result<R, Status> + Clone + Send + 'static,
    ) -> Vec<Result<R, Status>> {
        let others = self
            .members()
            .iter()
            .enumerate()
            .filter(|(index, _)| *index != self.index);
        let asked: Vec<_> = others
            .map(|(_, member)| {
                let (name, work) = (member.name, work.clone());
                self.environment.call(&member.mailbox, move |theirs| {
                    let shard = theirs.local(name).ok_or(Status::InternalError)?;
                    work(&mut shard.keys.borrow_mut(), perigee_shard::monotonic_ms())
                })
            })
            .collect();
        let mut results = vec![work(
            &mut self.keys.borrow_mut(),
            perigee_shard::monotonic_ms(),
        )];
        for answer in asked {
            results.push(answer.await.unwrap_or(Err(Status::InternalError)));
        }
        results
    }
}
