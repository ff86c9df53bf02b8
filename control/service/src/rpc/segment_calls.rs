//! Calls about clients and segments: every shard takes part.

use super::RpcConnection;
use super::call::{CallCounts, CallRefusal, ReplyBuilder};
use super::codec::{finish_status, offered, segment, tenant};
use super::limits::{DISK_REPORTS_PER_CLIENT_MAX, UNBACKED_PER_CLIENT_MAX};
use crate::cluster::{BeatReport, ControlShard, MountRequest, SegmentNames, SegmentPage};
use perigee_master::{Announces, DiskReport, Extent, SegmentKind, SegmentSpec};
use perigee_metrics::RpcKind;
use perigee_schemas::limits::{SEGMENT_TEXT_BYTES_MAX, SEGMENTS_MAX, TENANTS_LISTED_MAX};
use perigee_schemas::message::decode;
use perigee_schemas::{DiskHealth, Identity, Status, master};
use perigee_shard::Environment;
use std::sync::Arc;

type IdentityWords<'a> = flatbuffers::Vector<'a, u64>;

pub(super) async fn mount<E: Environment>(
    shard: &ControlShard<E>,
    caller: &RpcConnection<E>,
    body: &[u8],
    builder: &mut ReplyBuilder,
) -> Result<CallCounts, CallRefusal> {
    let request = decode::<master::MountRequest<'_>>(body)?;
    let client = Identity::from_halves(request.client_high(), request.client_low());
    let segments = request.segments();
    let count = segments.as_ref().map_or(0, flatbuffers::Vector::len);
    within_limit(count, "segments")?;
    let mut specs: Vec<SegmentSpec> = segments
        .iter()
        .flat_map(flatbuffers::Vector::iter)
        .map(|view| offered(&view, client, caller.address()))
        .collect::<Result<_, _>>()?;
    let announces = request.announces().into_iter().flatten();
    for (spec, announces) in specs.iter_mut().zip(announces) {
        spec.announces = match announces {
            master::Announces::Objects => Announces::Objects,
            master::Announces::Space => Announces::Space,
            _ => Announces::Nothing,
        };
    }
    for spec in &mut specs {
        spec.keeps_parts = request.parts();
        spec.keeps_replica_counts = request.replica_counts();
    }
    for spec in &specs {
        let Some(left_out) = shard.log_line(spec.peer) else {
            continue;
        };
        tracing::info!(
            left_out,
            peer = ?spec.peer,
            segment = spec.name,
            client = %client,
            kind = ?spec.kind,
            bytes = spec.bytes,
            endpoint = spec.endpoint,
            "Mounting a segment"
        );
    }
    let request = MountRequest {
        segments: specs,
        is_remount: request.remount(),
        number: request.number(),
        generation: request.generation(),
    };
    let is_remount = request.is_remount;
    let codes = shard.mount(client, caller.address(), request).await;
    let all_mounted = codes.iter().all(|code| *code == 0);
    if all_mounted {
        caller.recognize();
    }
    finish_status(builder, &codes);
    let kind = if is_remount { RpcKind::ReMountSegment } else { RpcKind::MountSegment };
    Ok(CallCounts::one(kind, all_mounted))
}

pub(super) async fn unmount(
    shard: &ControlShard<impl Environment>,
    body: &[u8],
    builder: &mut ReplyBuilder,
) -> Result<CallCounts, CallRefusal> {
    let request = decode::<master::UnmountRequest<'_>>(body)?;
    let client = Identity::from_halves(request.client_high(), request.client_low());
    let ids = identities(request.segment_high(), request.segment_low(), "segments")?;
    let codes = shard.unmount(client, ids, request.grace_ms()).await;
    finish_status(builder, &codes);
    Ok(CallCounts::one(RpcKind::UnmountSegment, codes.iter().all(|code| *code == 0)))
}

pub(super) async fn ping<E: Environment>(
    shard: &ControlShard<E>,
    caller: &RpcConnection<E>,
    body: &[u8],
    builder: &mut ReplyBuilder,
) -> Result<CallCounts, CallRefusal> {
    let request = decode::<master::PingRequest<'_>>(body)?;
    let client = Identity::from_halves(request.client_high(), request.client_low());
    let held = identities(request.segment_high(), request.segment_low(), "segments")?;
    let held = held.into_iter().map(|id| id.0).collect();
    let usable = request.usable_bytes();
    let usable = usable.map_or_else(Vec::new, |list| list.iter().collect());
    let disks = request.disks().into_iter().flatten();
    let disks = disks.take(DISK_REPORTS_PER_CLIENT_MAX).filter_map(reported).collect();
    let unbacked = request.unbacked().into_iter().flatten();
    let unbacked = unbacked.map(|it| (it.position(), Extent::new(it.offset(), it.bytes())));
    let beat = BeatReport {
        segments: held,
        usable_bytes: usable,
        unbacked: unbacked.take(UNBACKED_PER_CLIENT_MAX).collect(),
        mounts: request.mounts(),
        disks,
    };
    let pong = shard.ping(client, beat).await;
    let must_mount = pong.is_none_or(|pong| pong.must_mount);
    if !must_mount {
        caller.recognize();
    }
    let shared = shard.directory.as_deref().filter(|_| request.asks_shared());
    let args = master::PingReplyArgs {
        state: u8::from(must_mount),
        epoch: shard.epoch,
        has_moves: pong.is_some_and(|pong| pong.has_moves),
        has_disk_work: pong.is_some_and(|pong| pong.has_disk_work),
        promotes: pong.is_some_and(|pong| pong.promotes),
        shared_path: shared.map(|shared| builder.create_string(&shared.path)),
        shared_cluster: shared.map(|shared| builder.create_string(&shared.cluster)),
        shared_bytes: shared.map_or(0, |shared| shared.bytes),
    };
    let root = master::PingReply::create(builder, &args);
    builder.finish_minimal(root);
    Ok(CallCounts::one(RpcKind::Ping, pong.is_some()))
}

pub(super) async fn leave(
    shard: &ControlShard<impl Environment>,
    body: &[u8],
    builder: &mut ReplyBuilder,
) -> Result<CallCounts, CallRefusal> {
    let request = decode::<master::LeaveRequest<'_>>(body)?;
    shard.leave(Identity::from_halves(request.client_high(), request.client_low())).await;
    finish_status(builder, &[]);
    Ok(CallCounts::one(RpcKind::Leave, true))
}

pub(super) async fn query_segments(
    shard: &ControlShard<impl Environment>,
    body: &[u8],
    builder: &mut ReplyBuilder,
) -> Result<CallCounts, CallRefusal> {
    let request = decode::<master::QuerySegmentsRequest<'_>>(body)?;
    if request.tenants() {
        return Ok(tenants(shard, builder));
    }
    let names = request.names();
    within_limit(names.as_ref().map_or(0, flatbuffers::Vector::len), "segment names")?;
    let names: SegmentNames = Arc::new(names.into_iter().flatten().map(str::to_owned).collect());
    let _turn = shard.listings.turn(&shard.environment).await.map_err(no_page)?;
    let kind = if request.disks() { SegmentKind::Disk } else { SegmentKind::Memory };
    let page = shard.segment_page(&names, request.from(), kind).await;
    let SegmentPage { segments: uses, next } = page.map_err(no_page)?;
    let segments: Vec<_> = uses.iter().map(|used| segment(builder, Some(&used.spec))).collect();
    let used_bytes: Vec<u64> = uses.iter().map(|used| used.allocated_bytes).collect();
    let usable_bytes: Vec<u64> = uses.iter().map(|used| used.usable_bytes).collect();
    let state: Vec<u8> = uses.iter().map(|used| used.state).collect();
    let reports = match kind {
        SegmentKind::Disk if request.from() == 0 => shard.disk_reports().await,
        _ => Vec::new(),
    };
    let reports: Vec<_> = reports.iter().map(|report| report_of(builder, report)).collect();
    let args = master::QuerySegmentsReplyArgs {
        reports: Some(builder.create_vector(&reports)),
        segments: Some(builder.create_vector(&segments)),
        used_bytes: Some(builder.create_vector(&used_bytes)),
        usable_bytes: Some(builder.create_vector(&usable_bytes)),
        state: Some(builder.create_vector(&state)),
        next: next.unwrap_or_default(),
        ..Default::default()
    };
    let root = master::QuerySegmentsReply::create(builder, &args);
    builder.finish_minimal(root);
    Ok(CallCounts::one(RpcKind::QuerySegments, true))
}

/// What an owner says of a disk, with texts that are not too long to be shown; `None` of a state
/// that this build does not know.
fn reported(report: master::DiskReport<'_>) -> Option<DiskReport> {
    let short = |text: Option<&str>| {
        let text = text.unwrap_or_default();
        text[..text.floor_char_boundary(SEGMENT_TEXT_BYTES_MAX)].to_owned()
    };
    Some(DiskReport {
        disk: Identity::from_halves(report.disk_high(), report.disk_low()).0,
        health: DiskHealth::from_wire(report.health())?,
        path: short(report.path()),
        reason: short(report.reason()),
    })
}

fn report_of(
    builder: &mut ReplyBuilder,
    report: &DiskReport,
) -> flatbuffers::WIPOffset<master::DiskReport<'static>> {
    let disk = Identity(report.disk);
    let args = master::DiskReportArgs {
        disk_high: disk.high(),
        disk_low: disk.low(),
        health: report.health as u8,
        path: Some(builder.create_string(&report.path)),
        reason: Some(builder.create_string(&report.reason)),
    };
    master::DiskReport::create(builder, &args)
}

/// The tenants, as many as an answer has room for.
fn tenants(shard: &ControlShard<impl Environment>, builder: &mut ReplyBuilder) -> CallCounts {
    let usages = shard.keys.borrow().tenants();
    let tenants = usages.map(|usages| {
        let usages = usages.into_iter().take(TENANTS_LISTED_MAX);
        let tenants: Vec<_> = usages.map(|usage| tenant(builder, &usage)).collect();
        builder.create_vector(&tenants)
    });
    let args = master::QuerySegmentsReplyArgs { tenants, ..Default::default() };
    let root = master::QuerySegmentsReply::create(builder, &args);
    builder.finish_minimal(root);
    CallCounts::one(RpcKind::QuerySegments, true)
}

fn no_page(status: Status) -> CallRefusal {
    CallRefusal::new(status, "Too many listings are under way; ask again")
}

/// Segments or clients, as `what` says, that two columns name.
pub(super) fn identities(
    high: Option<IdentityWords<'_>>,
    low: Option<IdentityWords<'_>>,
    what: &str,
) -> Result<Vec<Identity>, CallRefusal> {
    let count =
        |halves: &Option<IdentityWords<'_>>| halves.as_ref().map_or(0, flatbuffers::Vector::len);
    within_limit(count(&high), what)?;
    if count(&high) != count(&low) {
        return Err(CallRefusal::new(
            Status::InvalidParams,
            format!("The columns of identities of {what} differ in length"),
        ));
    }
    let halves = high.iter().flatten().zip(low.iter().flatten());
    Ok(halves.map(|(high, low)| Identity::from_halves(high, low)).collect())
}

fn within_limit(count: usize, what: &str) -> Result<(), CallRefusal> {
    if count > SEGMENTS_MAX {
        let message = format!("{count} {what} are over the limit of {SEGMENTS_MAX}");
        return Err(CallRefusal::new(Status::InvalidParams, message));
    }
    Ok(())
}
