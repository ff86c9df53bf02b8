//! One connection: greeting, then calls in order. Several calls may arrive in one read.
//! Invariant: each call is answered before the next is looked at, and an answer has a deadline.
//! Only leases that are given back are not answered.

use super::limits::AHEAD_BYTES;
use super::{RpcConnection, dispatch, follow_calls, key_calls};
use crate::cluster::ControlShard;
use flatbuffers::FlatBufferBuilder;
use perigee_activity::{Span, SpanKind, answered};
use perigee_metrics::RpcKind;
use perigee_port::{FrameBudget, Frames, greet};
use perigee_schemas::Status;
use perigee_schemas::frame::{FrameHeader, HEADER_BYTES, MessageKind};
use perigee_schemas::limits::FRAME_BODY_BYTES_MAX;
use perigee_schemas::session::encode_failure;
use perigee_schemas::trace::{FrameTrailer, ServiceTimes, TRAILER_BYTES, TraceContext};
use perigee_shard::Environment;
use std::io;
use std::time::Duration;

/// Serves until the peer leaves, misbehaves, or is idle for too long.
pub(super) async fn serve<E: Environment>(
    caller: &RpcConnection<E>,
    shard: &ControlShard<E>,
    budget: &FrameBudget,
) -> io::Result<()> {
    let mut frames = Frames::new(caller.environment(), caller.stream(), budget);
    match greet(&mut frames, shard.epoch, FRAME_BODY_BYTES_MAX).await {
        Ok(hello) => shard.note_met(hello.met),
        Err(error) => {
            match error.kind() {
                io::ErrorKind::InvalidData => shard.cells.protocol_errors.add(1),
                io::ErrorKind::Unsupported => shard.cells.connections_refused.add(1),
                _ => {}
            }
            return Err(error);
        }
    }
    frames.buffer().expect_ahead(AHEAD_BYTES);
    let mut builder = FlatBufferBuilder::new();
    loop {
        match frames.next().await {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            Err(error) => return refuse(shard, &frames, error).await,
        }
        caller.hear();
        let (header, body) = match frames.frame() {
            Ok(frame) => frame,
            Err(error) => return refuse(shard, &frames, error).await,
        };
        shard.cells.received_bytes.add((HEADER_BYTES + body.len()) as u64);
        if header.kind == MessageKind::GiveBack {
            key_calls::give_back(shard, body);
            frames.consume();
            continue;
        }
        builder.reset();
        let environment = caller.environment();
        let begun = environment.now();
        let traced = header.trailer(body).and_then(TraceContext::decode);
        let traced = traced.map(|context| (context, environment.core_wait(begun)));
        let answered = dispatch::answer(shard, caller, header.kind, body, &mut builder).await;
        let mut ended = environment.now();
        let answered = answered.map(|counts| dispatch::count(shard, &counts, ended - begun));
        frames.consume();
        // Owners hear of it first: what was answered outlives this process.
        if !caller.state.is_some() && shard.flush_records().await {
            ended = environment.now();
        }
        let times = traced.map(|(context, waited)| {
            let counted = answered.as_ref().ok().copied();
            let call = AnsweredCall { context, waited, took: ended - begun, ended };
            call.trace(shard, caller, header.kind, counted).encode()
        });
        let answer = match answered {
            Ok(_) => reply(header.request, builder.finished_data(), times.as_ref()),
            Err(refusal) => {
                shard.cells.protocol_errors.add(1);
                encode_failure(header.request, refusal.status, &refusal.message)
            }
        };
        shard.cells.sent_bytes.add(answer.len() as u64);
        frames.send_bytes(answer).await?;
        if let Some(followed) = caller.state.take() {
            return follow_calls::stream(shard, caller, &mut frames, followed).await;
        }
    }
}

/// A call that belongs to a request of a program which is traced.
struct AnsweredCall {
    context: TraceContext,
    waited: Duration,
    took: Duration,
    ended: Duration,
}

impl AnsweredCall {
    /// What it has cost. `counted` is as what it counts, if it went well.
    fn trace<E: Environment>(
        self,
        shard: &ControlShard<E>,
        caller: &RpcConnection<E>,
        kind: MessageKind,
        counted: Option<RpcKind>,
    ) -> ServiceTimes {
        let (waited_ns, served_ns) = (nanoseconds(self.waited), nanoseconds(self.took));
        let about = (SpanKind::Answered, kind as u16, 0);
        let is_kept = answered(self.context, about, (self.took, self.ended), || {
            let peer = caller.address().map(|address| address.to_string());
            let mut span = Span::new(SpanKind::Answered, "", &peer.unwrap_or_default());
            (span.waited_ns, span.served_ns) = (waited_ns, served_ns);
            span.status = if counted.is_some() { 0 } else { Status::InvalidParams.code() };
            span
        });
        if let Some(kind) = counted.filter(|_| is_kept) {
            shard.cells.show_call(kind, self.context.id, served_ns);
        }
        ServiceTimes { waited_ns, served_ns }
    }
}

fn nanoseconds(length: Duration) -> u64 {
    u64::try_from(length.as_nanos()).unwrap_or(u64::MAX)
}

/// The frame of an answer. One that no frame can hold is an error instead: the peer would have to
/// refuse it.
fn reply(request: u64, body: &[u8], trailer: Option<&FrameTrailer>) -> Vec<u8> {
    if body.len() > FRAME_BODY_BYTES_MAX {
        let text = format!(
            "The answer of {} bytes is over the limit of {FRAME_BODY_BYTES_MAX}: ask for less at a time",
            body.len()
        );
        return encode_failure(request, Status::InvalidParams, &text);
    }
    let trailer = trailer.filter(|_| body.len() + TRAILER_BYTES <= FRAME_BODY_BYTES_MAX);
    let header = match trailer {
        None => FrameHeader::encode(MessageKind::Reply, request, body),
        Some(trailer) => {
            FrameHeader::encode_with_trailer(MessageKind::Reply, request, body, trailer)
        }
    };
    let end = trailer.map_or(&[][..], |trailer| trailer);
    let mut frame = Vec::with_capacity(HEADER_BYTES + body.len() + end.len());
    frame.extend_from_slice(&header);
    frame.extend_from_slice(body);
    frame.extend_from_slice(end);
    let most = HEADER_BYTES + FRAME_BODY_BYTES_MAX;
    debug_assert!(frame.len() <= most, "a peer takes the frame of an answer");
    frame
}

/// Tells the peer why its frame is refused, then ends the connection with that error.
async fn refuse<E: Environment>(
    shard: &ControlShard<E>,
    frames: &Frames<E>,
    error: io::Error,
) -> io::Result<()> {
    shard.cells.protocol_errors.add(1);
    frames.refuse(0, Status::DeserializeFail, error).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use perigee_schemas::session::decode_failure;

    fn kind_of(frame: &[u8]) -> MessageKind {
        let head = frame.first_chunk().expect("a whole header");
        let header =
            FrameHeader::decode(head, FRAME_BODY_BYTES_MAX).expect("a frame that peers take");
        assert!(header.check(&frame[HEADER_BYTES..]).is_ok());
        header.kind
    }

    #[test]
    fn an_answer_that_no_frame_can_hold_is_an_error_that_says_so() {
        let largest = vec![0; FRAME_BODY_BYTES_MAX];
        assert_eq!(kind_of(&reply(1, &largest, Some(&[0; TRAILER_BYTES]))), MessageKind::Reply);
        let larger = reply(1, &[&largest[..], b"."].concat(), None);
        assert_eq!(kind_of(&larger), MessageKind::Failure);
        let (status, text) = decode_failure(&larger[HEADER_BYTES..]).expect("a failure");
        assert_eq!(status, Status::InvalidParams);
        assert!(text.contains("ask for less"), "{text}");
    }
}
