//! Bodies of answers while their readers take them. Invariant: what waits for readers is bounded
//! over all connections of a server, and a reader that does not take a large body in time is cut
//! off.

use crate::limits::{
    ANSWER_BYTES_MAX, ANSWER_DEADLINE, ANSWER_PIECE_BYTES, SMALL_ANSWER_BYTES, STREAM_BYTES,
};
use axum::body::{Body, Bytes, HttpBody};
use axum::http::{Response, StatusCode};
use hyper::body::{Frame, SizeHint};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;

/// Length of an answer before it was compressed: that much waits in memory for its reader.
#[derive(Clone, Copy, Debug)]
struct UnpackedBytes(Option<u64>);

/// Notes how long an answer is, before it is compressed.
pub(crate) async fn note_size(mut answer: Response<Body>) -> Response<Body> {
    let bytes = UnpackedBytes(answer.body().size_hint().exact());
    answer.extensions_mut().insert(bytes);
    answer
}

/// The budget of one server; clones share it.
#[derive(Clone, Debug)]
pub(crate) struct AnswerBudget(Arc<Semaphore>);

/// A body that hands out small pieces and keeps its part of the budget until it has been taken.
struct BudgetedBody {
    body: Body,
    /// Rest of the last piece of the body, not yet sent.
    rest: Bytes,
    deadline: JoinHandle<()>,
    _part: OwnedSemaphorePermit,
}

impl AnswerBudget {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Semaphore::new(kibibytes(ANSWER_BYTES_MAX) as usize)))
    }

    /// The answer with its body counted, or a refusal if too much waits for readers. `slow` is
    /// notified when the reader has not taken it in time.
    pub(crate) fn count(&self, answer: Response<Body>, slow: &Arc<Notify>) -> Response<Body> {
        let unpacked = answer.extensions().get::<UnpackedBytes>().and_then(|bytes| bytes.0);
        let bytes = unpacked.or_else(|| answer.body().size_hint().exact());
        if bytes.is_some_and(|bytes| bytes <= SMALL_ANSWER_BYTES) {
            return answer;
        }
        let wanted = kibibytes(bytes.unwrap_or(STREAM_BYTES));
        let Ok(part) = self.0.clone().try_acquire_many_owned(wanted) else {
            let text = "Too many large answers wait for their readers; ask again";
            let mut refusal = Response::new(Body::from(text));
            *refusal.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
            return refusal;
        };
        let slow = slow.clone();
        let deadline = tokio::spawn(async move {
            tokio::time::sleep(ANSWER_DEADLINE).await;
            slow.notify_one();
        });
        answer
            .map(|body| Body::new(BudgetedBody { body, rest: Bytes::new(), deadline, _part: part }))
    }
}

impl HttpBody for BudgetedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.rest.is_empty() {
            let frame = match ready!(Pin::new(&mut self.body).poll_frame(context)) {
                Some(Ok(frame)) => frame,
                other => return Poll::Ready(other),
            };
            match frame.into_data() {
                Ok(data) => self.rest = data,
                Err(other) => return Poll::Ready(Some(Ok(other))),
            }
        }
        let bytes = self.rest.len().min(ANSWER_PIECE_BYTES);
        let piece = self.rest.split_to(bytes);
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (body, rest) = (self.body.size_hint(), self.rest.len() as u64);
        match body.exact() {
            Some(bytes) => SizeHint::with_exact(bytes + rest),
            None => SizeHint::default(),
        }
    }
}

impl Drop for BudgetedBody {
    fn drop(&mut self) {
        self.deadline.abort();
    }
}

fn kibibytes(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX)
}
