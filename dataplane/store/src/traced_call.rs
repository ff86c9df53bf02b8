//! A call of the program as its trace tells of it. Invariant: a call within another one of the same
//! thread is part of that one, so every public call may begin one.

use perigee_activity::{CallOutcome, KeptCall, OpenCall, Operation, Span, SpanKind, begin_call};
use perigee_metrics::{ClientCall, ClientCells, RpcKind};
use perigee_schemas::Status;
use perigee_shard::monotonic;
use std::time::Duration;

/// A call under way.
pub(crate) struct TracedCall(OpenCall);

impl TracedCall {
    pub(crate) fn begin(operation: Operation) -> Self {
        Self(begin_call(operation, monotonic))
    }

    /// The same at a moment that is known already.
    pub(crate) fn begin_at(operation: Operation, now: Duration) -> Self {
        Self(begin_call(operation, || now))
    }

    /// It is over, with a status per key and so many payload bytes. If it is kept, its times stand
    /// for others in these cells.
    pub(crate) fn end(
        self,
        cells: &ClientCells,
        key: Option<&str>,
        statuses: impl ExactSizeIterator<Item = Status>,
        bytes: u64,
    ) {
        self.end_at(cells, key, statuses, bytes, monotonic);
    }

    pub(crate) fn end_at(
        self,
        cells: &ClientCells,
        key: Option<&str>,
        mut statuses: impl ExactSizeIterator<Item = Status>,
        bytes: u64,
        clock: impl FnOnce() -> Duration,
    ) {
        let outcome = || {
            let keys = statuses.len();
            let failed = statuses.find(|status| *status != Status::Ok);
            let status = failed.map_or(0, Status::code);
            CallOutcome { key: key.unwrap_or_default(), keys, bytes, status }
        };
        if let Some(kept) = self.0.end(outcome, clock) {
            show(cells, &kept);
        }
    }
}

/// Calls, those to the master, and transfers, each where it was counted. One that stands for
/// several is none of those that were.
fn show(cells: &ClientCells, kept: &KeptCall) {
    for span in &kept.spans {
        match (span.kind, span.route(), span.direction()) {
            (SpanKind::Call, ..) => {
                let call = counted_as(span);
                call.into_iter().for_each(|it| cells.show_operation(it, kept.trace, span.took_ns));
            }
            (SpanKind::Master, ..) if span.status == 0 => {
                let call = RpcKind::of_number(span.counted_as);
                call.into_iter().for_each(|it| cells.show_call(it, kept.trace, span.took_ns));
            }
            (SpanKind::Transfer, Some(route), Some(direction)) if span.parts == 1 => {
                cells.show_transfer(route, direction, kept.trace, span.took_ns);
            }
            _ => {}
        }
    }
}

/// As what a call of the program counts.
fn counted_as(call: &Span) -> Option<ClientCall> {
    let operation = u8::try_from(call.detail).ok().and_then(Operation::from_number);
    match operation? {
        Operation::Get => Some(ClientCall::Get),
        Operation::BatchGet => Some(ClientCall::BatchGet),
        Operation::Put | Operation::Upsert => Some(ClientCall::Put),
        Operation::BatchPut | Operation::BatchUpsert => Some(ClientCall::BatchPut),
        _ => None,
    }
}

/// The status of a result.
pub(crate) fn verdict_on<T>(result: &Result<T, Status>) -> Status {
    result.as_ref().err().copied().unwrap_or(Status::Ok)
}
