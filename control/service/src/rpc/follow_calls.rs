//! Owners of segments: they announce what lies there after a restart of the master, and follow what
//! becomes of it.
//! Invariant: a connection that carries records carries nothing else, and nothing is read from it.

use super::RpcConnection;
use super::call::{CallCounts, CallRefusal, ReplyBuilder};
use super::codec::finish_status;
use crate::cluster::ControlShard;
use crate::cluster::followers::Follower;
use perigee_master::Announcement;
use perigee_metrics::RpcKind;
use perigee_port::Frames;
use perigee_schemas::limits::BATCH_KEYS_MAX;
use perigee_schemas::message::decode;
use perigee_schemas::record::Record;
use perigee_schemas::{Identity, Status, master};
use perigee_shard::Environment;
use std::io;
use std::rc::Rc;
use std::time::Duration;

pub(super) fn follow<E: Environment>(
    shard: &ControlShard<E>,
    caller: &RpcConnection<E>,
    body: &[u8],
    builder: &mut ReplyBuilder,
) -> Result<CallCounts, CallRefusal> {
    let request = decode::<master::FollowRequest<'_>>(body)?;
    let client = Identity::from_halves(request.client_high(), request.client_low());
    let segment = Identity::from_halves(request.segment_high(), request.segment_low());
    let is_taken = request.taken().iter().flatten().any(|taken| taken as usize == shard.index);
    let mounted = own(shard, client, segment);
    let announced = mounted.map(|number| shard.keys.borrow().announced_until(number));
    let (state, announced) = match (mounted, announced) {
        _ if is_taken => (master::FollowState::Taken, 0),
        (None, _) | (_, None) => (master::FollowState::Unknown, 0),
        (Some(_), Some(Ok(until))) => (master::FollowState::Announce, until),
        (Some(number), Some(Err(_))) => {
            begin(shard, caller, number);
            (master::FollowState::Records, 0)
        }
    };
    caller.recognize();
    let args = master::FollowReplyArgs {
        shard: shard.index as u32,
        shards: shard.members().len() as u32,
        state,
        announced,
        number: mounted.unwrap_or_default(),
        parts: true,
        replica_counts: true,
    };
    let root = master::FollowReply::create(builder, &args);
    builder.finish_minimal(root);
    Ok(CallCounts::one(RpcKind::Follow, state != master::FollowState::Unknown))
}

pub(super) fn announce<E: Environment>(
    shard: &ControlShard<E>,
    caller: &RpcConnection<E>,
    body: &[u8],
    builder: &mut ReplyBuilder,
) -> Result<CallCounts, CallRefusal> {
    let request = decode::<master::AnnounceRequest<'_>>(body)?;
    let segment = Identity::from_halves(request.segment_high(), request.segment_low());
    let removed = records(request.removed().map_or(&[], |removed| removed.bytes()))?;
    let records = records(request.records().map_or(&[], |records| records.bytes()))?;
    let offsets = request.free_offset().into_iter().flatten();
    let free = offsets.zip(request.free_bytes().into_iter().flatten());
    let free: Vec<_> = free.filter_map(|(offset, bytes)| extent(offset, bytes)).collect();
    let is_last = request.is_last();
    let client = Identity::from_halves(request.client_high(), request.client_low());
    let announcement = Announcement { records: &records, free: &free, removed: &removed, is_last };
    let number = own(shard, client, segment).ok_or(Status::SegmentNotFound);
    let announced = number.and_then(|number| {
        shard.announce(number, &announcement)?;
        if is_last {
            begin(shard, caller, number);
        }
        Ok(())
    });
    let status = announced.err().unwrap_or(Status::Ok);
    finish_status(builder, &[status.code()]);
    Ok(CallCounts::one(RpcKind::Announce, status == Status::Ok))
}

/// The number of a segment of a client's own.
fn own(shard: &ControlShard<impl Environment>, client: Identity, segment: Identity) -> Option<u32> {
    let keys = shard.keys.borrow();
    let number = keys.number_of(segment.0)?;
    keys.segment(number).is_some_and(|spec| spec.client == client.0).then_some(number)
}

/// Has the connection carry records from the answer on.
fn begin<E: Environment>(shard: &ControlShard<E>, caller: &RpcConnection<E>, segment: u32) {
    let follower = shard.let_follow(segment, caller.stream());
    caller.state.set(follower.map(|follower| (segment, follower)));
}

/// Carries records until the owner leaves, is too slow, or another connection takes its place.
pub(super) async fn stream<E: Environment>(
    shard: &ControlShard<E>,
    caller: &RpcConnection<E>,
    frames: &mut Frames<E>,
    (segment, follower): (u32, Rc<Follower<E>>),
) -> io::Result<()> {
    follower.begin();
    let mut from = Some(0);
    while let Some(at) = from
        && !follower.is_broken()
    {
        from = shard.keys.borrow_mut().snapshot(segment, at);
        shard.flush_records().await;
        // Calls that have arrived come first now.
        shard.environment.sleep(Duration::ZERO).await;
    }
    follower.tell_whole(&shard.environment).await;
    caller.hear();
    // The owner says nothing: this ends with the connection.
    let ended = frames.begun().await;
    shard.end_following(segment, &follower);
    match ended {
        Ok(false) => Ok(()),
        Ok(true) => Err(io::Error::new(io::ErrorKind::InvalidData, "A follower spoke")),
        Err(error) => Err(error),
    }
}

fn extent(offset: u64, bytes: u64) -> Option<perigee_master::Extent> {
    (bytes > 0 && offset.checked_add(bytes).is_some())
        .then(|| perigee_master::Extent::new(offset, bytes))
}

/// The records of an announcement.
fn records(mut bytes: &[u8]) -> Result<Vec<Record<'_>>, CallRefusal> {
    let mut records = Vec::new();
    while !bytes.is_empty() {
        let record = Record::decode(bytes).map_err(|error| {
            CallRefusal::new(Status::DeserializeFail, format!("An announcement: {error}"))
        })?;
        bytes = &bytes[record.encoded_bytes()..];
        records.push(record);
        if records.len() > BATCH_KEYS_MAX {
            let message = format!("More than {BATCH_KEYS_MAX} records: announce them in parts");
            return Err(CallRefusal::new(Status::InvalidParams, message));
        }
    }
    Ok(records)
}
