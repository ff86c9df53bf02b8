//! One data connection: greeting, then requests until the peer leaves. Every request is checked
//! against the registered buffers before a byte moves.
//!
//! Whatever the peer sends, the task ends or waits for the next frame; a peer that stops in the
//! middle of one is cut off.

use super::granted_range::GrantedRange;
use super::owner::{FetchRequest, MemoryOwner};
use super::service::MoveService;
use super::serving::Serving;
use super::session::ConnectionState;
use super::sums::sums;
use super::verdict::{Verdict, codes, judge, lend_last, place_early, settle};
use crate::limits::{
    BODY_BYTES_MAX, DISCARD_BYTES, EARLY_BYTES_MAX, PAYLOAD_DEADLINE, PIECES_MAX, REQUEST_BYTES_MAX,
};
use crate::reply::StagedPlaces;
use crate::server_times::ServerTimes;
use crate::stats::Served;
use crate::wire::{
    Encoder, MoveRequest, PROTOCOL_WITH_TIMES, REQUEST_BYTES_MIN, decode_request, invalid_text,
};
use perigee_activity::{Link, LinkRole};
use perigee_port::{Connection, Frames, greet};
use perigee_schemas::frame::{HEADER_BYTES, MessageKind};
use perigee_schemas::trace::TraceContext;
use perigee_schemas::{Direction, Status};
use perigee_shard::{Environment, Guard as KeptMemory, Message, Stream, within};
use std::io;
use std::time::Duration;

/// What is known of an exchange's cost when its request has been judged.
#[derive(Clone, Copy)]
struct Spent {
    waited: Duration,
    begun: Duration,
    /// Reading its bytes from a disk.
    disk: Duration,
}

/// Bytes that a reader fetches by itself.
struct StagedReply {
    reader: u64,
    places: StagedPlaces,
}

struct Conversation<'a, E: Environment, O: MemoryOwner> {
    connection: &'a Connection<E, Serving>,
    service: &'a MoveService<O>,
    session: O::Session,
    link: Link,
    frames: Frames<E>,
    encoder: Encoder,
    /// Whether the peer understands what its exchanges cost here.
    tells_times: bool,
    /// Payload of a write that is received with its frame; none after a large one.
    early_bytes: usize,
}

/// Serves until the peer leaves or misbehaves.
pub(super) async fn serve<E: Environment, O: MemoryOwner>(
    service: &MoveService<O>,
    connection: &Connection<E, Serving>,
) -> io::Result<()> {
    let (environment, stream) = (connection.environment(), connection.stream());
    let mut frames = Frames::new(environment, stream, &service.budget);
    let hello = greet(&mut frames, service.context.identity.low(), BODY_BYTES_MAX).await?;
    connection.recognize();
    frames.buffer().expect_least(REQUEST_BYTES_MIN);
    let mut conversation = Conversation {
        connection,
        service,
        session: O::Session::begin(&service.context.shared),
        link: Link::of(stream.socket(), LinkRole::Answers),
        frames,
        encoder: Encoder::new(),
        tells_times: hello.protocol() >= PROTOCOL_WITH_TIMES,
        early_bytes: 0,
    };
    while conversation.has_begun().await? {
        conversation.serve_frame().await?;
        connection.state.uses(std::iter::empty());
        connection.hear();
        conversation.link.look(stream.socket());
    }
    Ok(())
}

impl<E: Environment, O: MemoryOwner> Conversation<'_, E, O> {
    /// Waits for the first bytes of a frame, as long as the session allows; false when the peer has
    /// left instead.
    async fn has_begun(&mut self) -> io::Result<bool> {
        let (environment, stream) = (self.connection.environment(), self.connection.stream());
        match self.session.silence() {
            Some(limit) => within(environment, limit, stream, self.frames.begun()).await,
            None => self.frames.begun().await,
        }
    }

    async fn serve_frame(&mut self) -> io::Result<()> {
        let (header, body) = match self.frames.next().await {
            Ok(_) => match self.frames.frame() {
                Ok(frame) => frame,
                Err(error) => return self.refuse(0, Status::DeserializeFail, error).await,
            },
            Err(error) => return self.refuse(0, Status::DeserializeFail, error).await,
        };
        let number = header.request;
        if header.kind == MessageKind::Move {
            let context = header.trailer(body).and_then(TraceContext::decode);
            let request = decode_request(body).and_then(within_limits);
            self.frames.consume();
            return match request {
                Ok(request) => {
                    self.expect_alike(&request, HEADER_BYTES + header.body_bytes);
                    let connection = self.connection;
                    let (environment, stream) = (connection.environment(), connection.stream());
                    let serve = self.serve_move(number, &request, context);
                    within(environment, PAYLOAD_DEADLINE, stream, serve).await
                }
                Err(error) => self.refuse(number, Status::InvalidParams, error).await,
            };
        }
        let body = body.to_vec();
        self.frames.consume();
        let environment = self.connection.environment();
        let answer = self.session.answer(environment, header.kind, &body);
        match answer.await {
            Ok(answer) => self.frames.send_bytes(answer).await,
            Err(error) => self.refuse(number, Status::InvalidParams, error).await,
        }
    }

    /// The next request has a frame as long as this one, and payload like it: both are received at
    /// once then.
    fn expect_alike(&mut self, request: &MoveRequest, frame_bytes: usize) {
        if request.direction == Direction::Write {
            let is_small = request.bytes() <= EARLY_BYTES_MAX as u64;
            self.early_bytes = if is_small { EARLY_BYTES_MAX } else { 0 };
        }
        let frame_beyond = frame_bytes.saturating_sub(REQUEST_BYTES_MIN).min(EARLY_BYTES_MAX);
        self.frames.buffer().expect_ahead(self.early_bytes.max(frame_beyond));
    }

    async fn serve_move(
        &mut self,
        number: u64,
        request: &MoveRequest,
        context: Option<TraceContext>,
    ) -> io::Result<()> {
        let environment = self.connection.environment();
        let begun = environment.now();
        let waited = match self.tells_times {
            true => environment.core_wait(begun),
            false => Duration::ZERO,
        };
        let mut verdicts = judge(self.service, request);
        let (disk, kept) = self.fetch(request, &mut verdicts).await;
        debug_assert_eq!(verdicts.len(), request.pieces.len(), "one verdict per piece");
        let memory = verdicts.iter().flatten().map(GrantedRange::memory);
        self.connection.state.uses(memory);
        let refused = verdicts.iter().filter(|verdict| verdict.is_err()).count();
        let staged = self.stage(request, &verdicts, kept);
        let bytes = if staged.is_some() { 0 } else { request.bytes() };
        self.connection.state.counters.served(bytes, refused);
        let spent = Spent { waited, begun, disk };
        let served = match (request.direction, staged) {
            (Direction::Read, Some(staged)) => {
                self.serve_staged(number, &verdicts, &staged, spent).await
            }
            (Direction::Read, None) => self.serve_read(number, request, &mut verdicts, spent).await,
            (Direction::Write, _) => self.serve_write(number, request, &mut verdicts, spent).await,
        };
        let now = self.connection.environment().now();
        let counted = Served {
            link: &self.link,
            direction: request.direction,
            bytes,
            took: now.saturating_sub(begun),
            times: served.as_ref().ok().copied().flatten().unwrap_or_default(),
            context,
        };
        counted.record(served.is_ok() && refused == 0, now);
        served.map(drop)
    }

    /// Has pieces fetched that do not lie in memory. Returns how long that took, and what keeps
    /// them for a reader.
    async fn fetch(
        &self,
        request: &MoveRequest,
        verdicts: &mut Vec<Verdict>,
    ) -> (Duration, Option<KeptMemory>) {
        if !matches!(verdicts.first(), Some(Err(Status::SegmentNotFound))) {
            return (Duration::ZERO, None);
        }
        let environment = self.connection.environment();
        let begun = environment.now();
        let wanted = FetchRequest {
            scope: request.scope,
            direction: request.direction,
            pieces: &request.pieces,
            guards: &request.guards,
            is_of_reader: request.reader.is_some(),
        };
        let fetched = self.service.owner.fetch(environment, &wanted).await;
        let kept = fetched.and_then(|fetched| {
            debug_assert_eq!(fetched.ranges.len(), verdicts.len(), "one verdict per piece");
            *verdicts = fetched.ranges;
            fetched.kept
        });
        (environment.now().saturating_sub(begun), kept)
    }

    /// Keeps what was fetched for the reader that has asked; `None` if the bytes are to be sent.
    fn stage(
        &self,
        request: &MoveRequest,
        verdicts: &[Verdict],
        kept: Option<KeptMemory>,
    ) -> Option<StagedReply> {
        let (reader, kept) = (request.reader?, kept?);
        let place = |range: &GrantedRange| range.host() as u64;
        let ranges: Vec<_> =
            verdicts.iter().flatten().map(|range| (place(range), range.bytes())).collect();
        let now = self.connection.environment().now();
        let ticket = self.session.keep_for(reader, &ranges, kept, now)?;
        let addresses = verdicts.iter().map(|verdict| verdict.as_ref().map_or(0, place)).collect();
        Some(StagedReply { reader, places: StagedPlaces { ticket, addresses } })
    }

    async fn serve_staged(
        &mut self,
        number: u64,
        verdicts: &[Verdict],
        staged: &StagedReply,
        spent: Spent,
    ) -> io::Result<Option<ServerTimes>> {
        let mut frame = Vec::with_capacity(128);
        let times = self.times(spent, Duration::ZERO);
        self.encoder.staged_reply(&mut frame, number, &codes(verdicts), &staged.places, times);
        let sent = self.send(frame, Message::new()).await;
        if sent.is_err() {
            self.session.take_back(staged.reader, staged.places.ticket);
        }
        sent.map(|()| times)
    }

    async fn serve_read(
        &mut self,
        number: u64,
        request: &MoveRequest,
        verdicts: &mut [Verdict],
        spent: Spent,
    ) -> io::Result<Option<ServerTimes>> {
        let sums = match request.with_checksum {
            true => sums(self.connection.environment(), verdicts).await,
            false => Vec::new(),
        };
        let mut payload = Message::new();
        for range in verdicts.iter().flatten() {
            lend_last(range, range.bytes(), &mut payload);
        }
        let mut frame = Vec::with_capacity(128);
        let bytes = payload.bytes() as u64;
        let granted = verdicts.iter().flatten().map(GrantedRange::bytes);
        debug_assert_eq!(bytes, granted.sum::<u64>(), "what was granted");
        let times = self.times(spent, Duration::ZERO);
        self.encoder.reply(&mut frame, number, &codes(verdicts), &sums, bytes, times);
        self.send(frame, payload).await?;
        Ok(times)
    }

    async fn serve_write(
        &mut self,
        number: u64,
        request: &MoveRequest,
        verdicts: &mut [Verdict],
        spent: Spent,
    ) -> io::Result<Option<ServerTimes>> {
        let judged = self.connection.environment().now();
        self.receive_payload(request, verdicts).await?;
        let arriving = self.connection.environment().now().saturating_sub(judged);
        if !request.checksum.is_empty() {
            let arrived = sums(self.connection.environment(), verdicts).await;
            for ((verdict, sum), arrived) in verdicts.iter_mut().zip(&request.checksum).zip(arrived)
            {
                if verdict.is_ok() && arrived != *sum {
                    *verdict = Err(Status::ChecksumMismatch);
                }
            }
        }
        verdicts.iter_mut().for_each(|verdict| settle(verdict, GrantedRange::store));
        let mut frame = Vec::with_capacity(128);
        let times = self.times(spent, arriving);
        self.encoder.reply(&mut frame, number, &codes(verdicts), &[], 0, times);
        self.send(frame, Message::new()).await?;
        Ok(times)
    }

    /// What an exchange has cost up to now, less the wait for its payload.
    fn times(&self, spent: Spent, arriving: Duration) -> Option<ServerTimes> {
        self.tells_times.then(|| {
            let here = self.connection.environment().now().saturating_sub(spent.begun);
            let copied = here.saturating_sub(arriving).saturating_sub(spent.disk);
            ServerTimes { waited: spent.waited, copied, disk: spent.disk }
        })
    }

    /// Receives good pieces into place, as many at once as lie side by side, and throws the bytes
    /// of the others away.
    async fn receive_payload(
        &mut self,
        request: &MoveRequest,
        verdicts: &mut [Verdict],
    ) -> io::Result<()> {
        let total = request.bytes() as usize;
        let early = self.frames.buffer().take_ahead(total);
        debug_assert!(early.len() <= total, "no byte of the next frame");
        let rest = place_early(request, verdicts, &early);
        let mut todo = rest.iter().zip(verdicts).peekable();
        while todo.peek().is_some() {
            let mut payload = Message::new();
            while let Some((left, Ok(range))) = todo.next_if(|(_, verdict)| verdict.is_ok()) {
                lend_last(range, *left, &mut payload);
            }
            if payload.bytes() > 0 {
                self.connection.stream().receive_message(payload).await?;
            }
            let mut refused = 0;
            while let Some((left, _)) = todo.next_if(|(_, verdict)| verdict.is_err()) {
                refused += *left as usize;
            }
            self.discard(refused).await?;
        }
        Ok(())
    }

    /// Takes bytes off the connection that the peer had sent before it could learn that they are
    /// refused.
    async fn discard(&self, bytes: usize) -> io::Result<()> {
        let mut left = bytes;
        while left > 0 {
            let step = left.min(DISCARD_BYTES);
            let mut nowhere = Message::new();
            nowhere.push_owned(vec![0; step]);
            self.connection.stream().receive_message(nowhere).await?;
            left -= step;
        }
        Ok(())
    }

    async fn send(&self, frame: Vec<u8>, payload: Message) -> io::Result<()> {
        let mut message = Message::new();
        message.push_owned(frame);
        message.append(payload);
        self.connection.stream().send_message(message).await
    }

    /// Says why to the peer, then ends the connection with that error.
    async fn refuse(&self, number: u64, status: Status, error: io::Error) -> io::Result<()> {
        self.frames.refuse(number, status, error).await
    }
}

fn within_limits(request: MoveRequest) -> io::Result<MoveRequest> {
    let mut total = Some(0u64);
    for piece in &request.pieces {
        total = total.and_then(|total| total.checked_add(piece.bytes()));
    }
    let pieces = request.pieces.len();
    let fits = pieces > 0
        && pieces <= PIECES_MAX
        && total.is_some_and(|total| total <= REQUEST_BYTES_MAX)
        && request.pieces.iter().all(|piece| piece.bytes() > 0)
        && [0, pieces].contains(&request.checksum.len())
        && [0, pieces].contains(&request.guards.len());
    if fits { Ok(request) } else { Err(invalid_text("Request over its limits")) }
}
