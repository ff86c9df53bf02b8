//! Asking the owner of a new segment whether it is there. The greeting of a data port tells whose
//! it is; a read of the segment's last byte is answered according to whether it has that segment,
//! and so much of it. Invariant: an answer takes bounded time, and only the client that owns the
//! segment waits for it.

use super::control_shard::ControlShard;
use flatbuffers::FlatBufferBuilder;
use perigee_master::{Registry, SegmentKind, SegmentSpec};
use perigee_port::{FrameBudget, Frames, connect};
use perigee_schemas::disk_address::DiskAddress;
use perigee_schemas::frame::{FrameHeader, MessageKind};
use perigee_schemas::limits::HELLO_BODY_BYTES_MAX;
use perigee_schemas::message::decode;
use perigee_schemas::session::{Hello, Role};
use perigee_schemas::{Identity, Status, mover};
use perigee_shard::{Environment, Stream, within};
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Longest wait for an owner's greeting, and again for its answer.
const OWNER_DEADLINE: Duration = Duration::from_millis(500);
/// Longest time in which one call of a client begins to ask about one segment after the other...
const QUESTIONS_DEADLINE: Duration = Duration::from_secs(1);
/// ... and has its last answer. The call itself has two seconds.
const CALL_DEADLINE: Duration = Duration::from_millis(1500);
/// Longest wait for the address of a name.
const NAME_DEADLINE: Duration = Duration::from_millis(500);
/// Pause between two looks for it.
const NAME_PAUSE: Duration = Duration::from_millis(2);
/// Names that are looked up at a time: each takes a thread.
const LOOKUPS_MAX: usize = 8;

/// Names that are being looked up.
static LOOKUPS: AtomicUsize = AtomicUsize::new(0);

type NameLookup = Arc<Mutex<Option<io::Result<SocketAddr>>>>;

impl<E: Environment> ControlShard<E> {
    /// Asks a client at their endpoints about segments that take no objects yet, one after the
    /// other while that is due, and lets those take some that it has. One that it does not answer
    /// for ends the questions until its next call.
    pub(super) async fn confirm_segments(&self, client: Identity) {
        let begun = self.environment.now();
        while self.environment.now() < begun + QUESTIONS_DEADLINE {
            let due = move |registry: &mut Registry, now| registry.segment_to_ask(now, client.0);
            let Some(spec) = self.change_registry(due).await.flatten() else {
                return;
            };
            if let Err(error) = self.ask_about(&spec, begun + CALL_DEADLINE).await {
                self.report_unconfirmed(&spec, &error);
                return;
            }
            let id = spec.id;
            let confirm = move |registry: &mut Registry, now| registry.confirm(now, client.0, id);
            self.change_registry(confirm).await;
        }
    }

    /// Clients that had a disk which another one offers now, with that disk, if they do not answer
    /// at their endpoints: a process that was killed and started again gets its disk back at once.
    pub(super) async fn gone_owners(
        &self,
        client: Identity,
        segments: &[SegmentSpec],
    ) -> Vec<(u128, u128)> {
        let begun = self.environment.now();
        let mut gone = Vec::new();
        for spec in segments.iter().filter(|spec| spec.kind == SegmentKind::Disk) {
            let disk = spec.id;
            let other = move |registry: &mut Registry, _| registry.other_owner(client.0, disk);
            let Some(other) = self.change_registry(other).await.flatten() else {
                continue;
            };
            if self.environment.now() > begun + QUESTIONS_DEADLINE {
                break;
            }
            if self.ask_about(&other, begun + CALL_DEADLINE).await.is_err() {
                gone.push((other.client, disk));
            }
        }
        gone
    }

    fn report_unconfirmed(&self, spec: &SegmentSpec, error: &io::Error) {
        if let Some(left_out) = self.log_line(spec.peer) {
            tracing::warn!(
                client = %Identity(spec.client),
                segment = spec.name,
                endpoint = spec.endpoint,
                %error,
                left_out,
                "A segment takes no objects, because its owner does not answer at its endpoint; see verify_segments"
            );
        }
    }

    async fn ask_about(&self, spec: &SegmentSpec, end: Duration) -> io::Result<()> {
        let within_call = |limit: Duration| limit.min(end.saturating_sub(self.environment.now()));
        let limit = within_call(NAME_DEADLINE);
        let address = resolve(&self.environment, &spec.endpoint, limit).await?;
        let hello = Hello::new(Role::Operator, Identity(u128::from(self.epoch)));
        let budget = FrameBudget::new(HELLO_BODY_BYTES_MAX * 4);
        let limits = (&budget, HELLO_BODY_BYTES_MAX);
        let limit = within_call(OWNER_DEADLINE);
        let greeted = connect(&self.environment, address, &hello, limits, limit).await;
        let (mut frames, welcome) = greeted?;
        let stream = frames.stream().clone();
        let answer = match welcome.epoch == Identity(spec.client).low() {
            true => {
                let asked = ask(&mut frames, spec);
                let limit = within_call(OWNER_DEADLINE);
                within(&self.environment, limit, &stream, asked).await
            }
            false => Err(io::Error::other("Another process answers there")),
        };
        stream.shutdown();
        answer
    }
}

/// Asks for the last byte of a segment. An owner that has never written there refuses to send it,
/// which is an answer too.
async fn ask<E: Environment>(frames: &mut Frames<E>, spec: &SegmentSpec) -> io::Result<()> {
    frames.send_bytes(question(spec)).await?;
    frames.whole().await?;
    let (header, body) = frames.frame()?;
    let status = match header.kind {
        MessageKind::Reply => {
            let reply = decode::<mover::MoveReply<'_>>(body).map_err(io::Error::other)?;
            let status = reply.status().filter(|status| status.len() == 1);
            status.map(|status| Status::from_peer(status.get(0)))
        }
        _ => None,
    };
    match status {
        Some(Status::Ok | Status::InvalidReplica) => Ok(()),
        Some(Status::SegmentNotFound) => Err(io::Error::other("Its owner does not have it")),
        Some(Status::InvalidParams) => Err(io::Error::other("Its owner has less of it")),
        _ => Err(io::Error::other("Its owner does not speak of segments")),
    }
}

/// The frame that asks for the last byte of a segment, or for one that no disk has.
fn question(spec: &SegmentSpec) -> Vec<u8> {
    let mut builder = FlatBufferBuilder::new();
    // Owners wait for a frame of the length that it has with all defaults.
    builder.force_defaults(true);
    let id = Identity(spec.id);
    let last = match spec.kind {
        SegmentKind::Memory => mover::Piece::new(spec.bytes.saturating_sub(1), 1),
        // No log has such a segment, so that its disk is not touched.
        SegmentKind::Disk => {
            let nowhere = DiskAddress { sequence: u32::MAX, offset: 0 };
            mover::Piece::new(nowhere.pack(), 1)
        }
    };
    let args = mover::MoveRequestArgs {
        direction: mover::Direction::Read,
        segment_high: id.high(),
        segment_low: id.low(),
        pieces: Some(builder.create_vector(&[last])),
        ..mover::MoveRequestArgs::default()
    };
    let root = mover::MoveRequest::create(&mut builder, &args);
    builder.finish_minimal(root);
    let body = builder.finished_data();
    let mut frame = FrameHeader::encode(MessageKind::Move, 1, body).to_vec();
    frame.extend_from_slice(body);
    frame
}

/// The first address of an endpoint. Names are looked up on a thread, because the system has no
/// other way.
async fn resolve(
    environment: &impl Environment,
    endpoint: &str,
    limit: Duration,
) -> io::Result<SocketAddr> {
    if let Ok(address) = endpoint.parse() {
        return Ok(address);
    }
    let take = |running: usize| (running < LOOKUPS_MAX).then_some(running + 1);
    if LOOKUPS.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_err() {
        return Err(io::ErrorKind::WouldBlock.into());
    }
    let found = NameLookup::default();
    let (answer, name) = (found.clone(), endpoint.to_owned());
    let started = std::thread::Builder::new().name("perigee-names".to_owned()).spawn(move || {
        let first = |mut all: std::vec::IntoIter<SocketAddr>| {
            all.next().ok_or_else(|| io::ErrorKind::NotFound.into())
        };
        let address = name.to_socket_addrs().and_then(first);
        *answer.lock().unwrap_or_else(PoisonError::into_inner) = Some(address);
        let running = LOOKUPS.fetch_sub(1, Ordering::Relaxed);
        debug_assert!((1..=LOOKUPS_MAX).contains(&running), "few names are looked up at a time");
    });
    if let Err(error) = started {
        LOOKUPS.fetch_sub(1, Ordering::Relaxed);
        return Err(error);
    }
    let deadline = environment.now() + limit;
    while environment.now() < deadline {
        if let Some(address) = found.lock().unwrap_or_else(PoisonError::into_inner).take() {
            return address;
        }
        environment.sleep(NAME_PAUSE).await;
    }
    Err(io::ErrorKind::TimedOut.into())
}
