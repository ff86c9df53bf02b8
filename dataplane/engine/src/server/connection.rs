//! One data connection: greeting, then requests until the peer leaves. Every request is checked against the registered
//! buffers before a byte moves.
//!
//! Whatever the peer sends, the task ends or waits for the next frame; a peer that stops in the middle of one is cut off.

use super::Host;
use super::ground::Ground;
use super::state::Seat;
use crate::frame_buffer::FrameBuffer;
use crate::limits::{
    DISCARD_BYTES, EARLY_BYTES_MAX, FRAME_DEADLINE, REQUEST_PAYLOAD_BYTES_MAX, SLICE_PIECES_MAX,
};
use crate::request::Direction;
use crate::wire::{
    Encoder, MoveRequest, REQUEST_BYTES_MIN, WirePiece, decode_request, invalid, invalid_text,
};
use perigee_activity::{Link, LinkRole};
use perigee_schemas::Status;
use perigee_schemas::frame::Kind;
use perigee_schemas::session::{Hello, encode_failure};
use perigee_shard::{Environment, Message, Stream, within};
use std::io;

/// A piece that may be used, or why not.
type Verdict = Result<Ground, Status>;

struct Conversation<'a, S> {
    seat: &'a Seat<S>,
    host: &'a Host,
    arriving: FrameBuffer,
    encoder: Encoder,
}

/// Serves until the peer leaves or misbehaves.
pub(super) async fn serve_connection<E: Environment>(
    environment: &E,
    seat: &Seat<E::Stream>,
    host: &Host,
) -> io::Result<()> {
    let mut conversation = Conversation {
        seat,
        host,
        arriving: FrameBuffer::new(REQUEST_BYTES_MIN),
        encoder: Encoder::new(),
    };
    within(
        environment,
        FRAME_DEADLINE,
        &seat.stream,
        conversation.greet(),
    )
    .await?;
    let link = Link::of(seat.stream.socket(), LinkRole::Answers);
    while conversation.has_begun().await? {
        within(
            environment,
            FRAME_DEADLINE,
            &seat.stream,
            conversation.serve_request(),
        )
        .await?;
        seat.uses(std::iter::empty());
        link.look(seat.stream.socket());
    }
    Ok(())
}

impl<S: Stream> Conversation<'_, S> {
    async fn greet(&mut self) -> io::Result<()> {
        self.receive_frame().await?;
        let hello = self.arriving.take(|header, body| match header.kind {
            Kind::Hello => Hello::decode(body).map_err(invalid),
            _ => Err(invalid_text("The first frame is not a greeting")),
        });
        let hello = match hello {
            Ok(hello) => hello,
            Err(error) => return self.refuse(0, Status::InvalidVersion, error).await,
        };
        let welcome = hello.answer(self.host.identity.low());
        self.send(welcome.encode(), Message::new()).await?;
        welcome.status.ok().map_err(io::Error::other)
    }

    /// Waits, as long as it takes, for the first bytes of a request; false when the peer has left instead.
    async fn has_begun(&mut self) -> io::Result<bool> {
        while self.arriving.is_empty() {
            if !self.receive_some().await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn serve_request(&mut self) -> io::Result<()> {
        if let Err(error) = self.receive_frame().await {
            return self.refuse(0, Status::DeserializeFail, error).await;
        }
        let taken = self.arriving.take(|header, body| match header.kind {
            Kind::Move => Ok((
                header.request,
                decode_request(body).and_then(within_limits)?,
            )),
            _ => Err(invalid_text("Only moves are served on this port")),
        });
        match taken {
            Ok((number, request)) => self.serve_move(number, &request).await,
            Err(error) => self.refuse(0, Status::InvalidParams, error).await,
        }
    }

    async fn serve_move(&mut self, number: u64, request: &MoveRequest) -> io::Result<()> {
        let mut verdicts: Vec<Verdict> = match request.epoch == self.host.identity.low() {
            true => request
                .pieces
                .iter()
                .map(|piece| self.judge(request.direction, piece))
                .collect(),
            false => vec![Err(Status::InvalidReplica); request.pieces.len()],
        };
        self.seat
            .uses(verdicts.iter().flatten().map(Ground::region));
        let refused = verdicts.iter().filter(|verdict| verdict.is_err()).count();
        self.seat.counters.served(&request.pieces, refused);
        match request.direction {
            Direction::Read => self.serve_read(number, request, &mut verdicts).await,
            Direction::Write => self.serve_write(number, request, &mut verdicts).await,
        }
    }

    fn judge(&self, direction: Direction, piece: &WirePiece) -> Verdict {
        Ground::find(self.host, direction, piece.address(), piece.bytes())
    }

    async fn serve_read(
        &mut self,
        number: u64,
        request: &MoveRequest,
        verdicts: &mut [Verdict],
    ) -> io::Result<()> {
        verdicts
            .iter_mut()
            .for_each(|verdict| settle(verdict, Ground::load));
        let status = codes(verdicts);
        let mut payload = Message::new();
        let mut sums = Vec::new();
        if verdicts.iter().all(Result::is_ok) {
            for ground in verdicts.iter().flatten() {
                if request.with_checksum {
                    sums.push(ground.checksum());
                }
                ground.lend(&mut payload);
            }
        }
        let mut frame = Vec::with_capacity(128);
        let bytes = payload.bytes() as u64;
        self.encoder
            .reply(&mut frame, number, &status, &sums, bytes);
        self.send(frame, payload).await
    }

    async fn serve_write(
        &mut self,
        number: u64,
        request: &MoveRequest,
        verdicts: &mut [Verdict],
    ) -> io::Result<()> {
        self.receive_payload(request, verdicts).await?;
        for (ground, sum) in verdicts.iter_mut().zip(&request.checksum) {
            if ground
                .as_ref()
                .is_ok_and(|ground| ground.checksum() != *sum)
            {
                *ground = Err(Status::ChecksumMismatch);
            }
        }
        verdicts
            .iter_mut()
            .for_each(|verdict| settle(verdict, Ground::store));
        let mut frame = Vec::with_capacity(128);
        self.encoder
            .reply(&mut frame, number, &codes(verdicts), &[], 0);
        self.send(frame, Message::new()).await
    }

    /// Receives good pieces into place, as many at once as lie side by side, and throws the bytes of the others away.
    async fn receive_payload(
        &mut self,
        request: &MoveRequest,
        verdicts: &mut [Verdict],
    ) -> io::Result<()> {
        let total: usize = request
            .pieces
            .iter()
            .map(|piece| piece.bytes() as usize)
            .sum();
        let early = self.arriving.take_early(total);
        let small = total <= EARLY_BYTES_MAX;
        self.arriving
            .expect_early(if small { EARLY_BYTES_MAX } else { 0 });
        let rest = place_early(request, verdicts, &early);
        let mut todo = rest.iter().zip(verdicts).peekable();
        while todo.peek().is_some() {
            let mut payload = Message::new();
            while let Some((left, Ok(ground))) = todo.next_if(|(_, verdict)| verdict.is_ok()) {
                ground.lend_last(*left, &mut payload);
            }
            if payload.bytes() > 0 {
                self.seat.stream.receive_message(payload).await?;
            }
            let mut refused = 0;
            while let Some((left, _)) = todo.next_if(|(_, verdict)| verdict.is_err()) {
                refused += *left as usize;
            }
            self.discard(refused).await?;
        }
        Ok(())
    }

    /// Takes bytes off the connection that the peer had sent before it could learn that they are refused.
    async fn discard(&self, bytes: usize) -> io::Result<()> {
        let mut left = bytes;
        while left > 0 {
            let step = left.min(DISCARD_BYTES);
            let mut nowhere = Message::new();
            nowhere.push_owned(vec![0; step]);
            self.seat.stream.receive_message(nowhere).await?;
            left -= step;
        }
        Ok(())
    }

    async fn receive_frame(&mut self) -> io::Result<()> {
        while self.arriving.missing()? > 0 {
            if !self.receive_some().await? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(())
    }

    /// Receives what has arrived of a frame; false when the peer has finished.
    async fn receive_some(&mut self) -> io::Result<bool> {
        let missing = self.arriving.missing()?;
        let bytes = self.arriving.lend(missing);
        let (received, bytes) = self.seat.stream.receive_up_to(bytes, missing).await;
        self.arriving.give_back(bytes);
        Ok(received? > 0)
    }

    async fn send(&self, frame: Vec<u8>, payload: Message) -> io::Result<()> {
        let mut message = Message::new();
        message.push_owned(frame);
        message.append(payload);
        self.seat.stream.send_message(message).await
    }

    /// Tells the peer why, then ends the connection with that error.
    async fn refuse(&self, number: u64, status: Status, error: io::Error) -> io::Result<()> {
        let frame = encode_failure(number, status, &error.to_string());
        let _ = self.send(frame, Message::new()).await;
        Err(error)
    }
}

fn within_limits(request: MoveRequest) -> io::Result<MoveRequest> {
    let mut total = Some(0u64);
    for piece in &request.pieces {
        total = total.and_then(|total| total.checked_add(piece.bytes()));
    }
    let sums = request.checksum.len();
    let fits = !request.pieces.is_empty()
        && request.pieces.len() <= SLICE_PIECES_MAX
        && total.is_some_and(|total| total <= REQUEST_PAYLOAD_BYTES_MAX)
        && request.pieces.iter().all(|piece| piece.bytes() > 0)
        && (sums == 0 || sums == request.pieces.len());
    if fits {
        Ok(request)
    } else {
        Err(invalid_text("Request over its limits"))
    }
}

fn codes(verdicts: &[Verdict]) -> Vec<i32> {
    let code = |verdict: &Verdict| verdict.as_ref().map_or_else(|status| status.code(), |_| 0);
    verdicts.iter().map(code).collect()
}

/// Puts payload that came with its frame into place. Returns how many bytes of each piece are still to come.
fn place_early(request: &MoveRequest, verdicts: &mut [Verdict], early: &[u8]) -> Vec<u64> {
    let mut early = early;
    let mut place = |(piece, verdict): (&WirePiece, &mut Verdict)| {
        let (now, later) = early.split_at(early.len().min(piece.bytes() as usize));
        early = later;
        if !now.is_empty() {
            settle(verdict, |ground| ground.place(now));
        }
        piece.bytes() - now.len() as u64
    };
    let pieces = request.pieces.iter().zip(verdicts);
    pieces.map(&mut place).collect()
}

/// A piece whose staging fails is refused after all.
fn settle(verdict: &mut Verdict, step: impl Fn(&Ground) -> Result<(), Status>) {
    if let Ok(ground) = verdict
        && let Err(status) = step(ground)
    {
        *verdict = Err(status);
    }
}
