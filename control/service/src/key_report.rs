//! What a shard knows of a key, as the HTTP route shows it.

use crate::cluster::ControlShard;
use perigee_admin::key_report::{KeyReport, ReportedDeparture, ReportedObject, ReportedReplica};
use perigee_admin::master_view::id_text;
use perigee_master::{
    Departure, DepartureCause, DiskOutcome, InspectedObject, InspectedReplica, SegmentKind,
};
use std::borrow::Cow;

/// What the shard of this number knows of one of its keys.
pub(crate) fn key_report(shard: &ControlShard, number: usize, key: &str) -> KeyReport {
    let inspected = shard.keys.borrow_mut().inspect(shard.now_ms(), key.as_bytes());
    KeyReport {
        shard: number,
        object: inspected.object.map(object),
        unfinished_puts: inspected.unfinished_puts,
        departures: inspected.departures.into_iter().map(departure).collect(),
        departures_reach_ms: inspected.reach_ms,
    }
}

fn object(inspected: InspectedObject) -> ReportedObject {
    ReportedObject {
        writer: (inspected.writer != 0).then(|| id_text(inspected.writer)),
        crc32c: format!("{:08x}", inspected.checksum),
        group: inspected.group,
        hard_pin: inspected.is_hard_pinned,
        soft_pin_ms: inspected.soft_pin_ms,
        lease_ms: inspected.lease_ms,
        was_read: inspected.was_read,
        idle_ms: inspected.idle_ms,
        replicas: inspected.replicas.into_iter().map(replica).collect(),
    }
}

fn replica(inspected: InspectedReplica) -> ReportedReplica {
    let segment = inspected.segment;
    ReportedReplica {
        medium: medium(segment.kind == SegmentKind::Disk),
        segment: segment.name.clone(),
        endpoint: segment.endpoint.clone(),
        offset: inspected.offset,
        payload_bytes: inspected.payload_bytes,
        generation: inspected.generation,
        standing: inspected.standing.into(),
    }
}

fn departure(went: Departure) -> ReportedDeparture {
    let (cause, reason) = words(went.cause);
    ReportedDeparture {
        ago_ms: went.ago_ms,
        cause: cause.into(),
        reason: reason.into(),
        medium: medium(went.was_on_disk),
        payload_bytes: went.payload_bytes,
        idle_ms: went.idle_ms,
        was_read: went.was_read,
        replicas_left: went.left,
        no_copy: match went.disk {
            DiskOutcome::Settled => None,
            DiskOutcome::OverBudget => Some("no disk had write budget left for it".into()),
            DiskOutcome::NotWritten => Some("no disk had written a copy yet".into()),
        },
    }
}

fn medium(is_disk: bool) -> Cow<'static, str> {
    if is_disk { "disk".into() } else { "memory".into() }
}

fn words(cause: DepartureCause) -> (&'static str, &'static str) {
    match cause {
        DepartureCause::Watermark => ("watermark", "evicted: its segment was above the watermark"),
        DepartureCause::PutNeededRoom => ("put_needed_room", "evicted: a put found no room"),
        DepartureCause::WithItsGroup => {
            ("with_its_group", "evicted: the turn of its group came on another shard")
        }
        DepartureCause::TenantQuota => ("tenant_quota", "evicted: its tenant was at its quota"),
        DepartureCause::Extra => ("extra", "evicted: it had been made because the key was hot"),
        DepartureCause::Removed => ("removed", "its key was removed"),
        DepartureCause::RemovedByPattern => {
            ("removed_by_pattern", "a removal by pattern, or of all keys, matched its key")
        }
        DepartureCause::Cleared => ("cleared", "its writer cleared its own replicas"),
        DepartureCause::SegmentGone => ("segment_gone", "its segment or disk is gone"),
        DepartureCause::Unreadable => {
            ("unreadable", "a reader found something else where its disk was to have it")
        }
        DepartureCause::PlaceReused => {
            ("place_reused", "the log of its disk has used its place again")
        }
    }
}
