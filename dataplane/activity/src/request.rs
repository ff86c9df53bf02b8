//! The request that a thread works at: its name, which goes with every frame, and its spans, which
//! are kept if it was slow or its program wants to see it.
//! Invariant: a thread works at one request at a time, and what is not kept leaves nothing.

pub(crate) mod keeping;
mod names;

use crate::operation::Operation;
use crate::page::page;
use crate::span::{Span, SpanKind};
use keeping::{PacedKind, UsualPace};
use names::RequestNames;
use perigee_schemas::trace::TraceContext;
use std::cell::RefCell;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Spans below a call that stand alone; further exchanges count with others of their link.
const SPANS_PER_CALL: usize = 48;

/// A request under way, for all threads that work at it.
#[derive(Debug)]
pub struct Request {
    context: TraceContext,
    /// The program's span; 0 for none.
    parent: u64,
    /// When it began, on the clock of its caller.
    begun: Duration,
    spans: Mutex<GatheredSpans>,
}

#[derive(Debug, Default)]
struct GatheredSpans {
    spans: Vec<Span>,
    /// Those that found neither room nor another one of their link.
    left_out: u32,
}

/// What a thread knows.
#[derive(Default)]
struct ThreadState {
    /// What the program said of its next calls.
    wanted: Option<TraceContext>,
    current: Option<Arc<Request>>,
    /// The last one, to be used again.
    spare: Option<Arc<Request>>,
    names: RequestNames,
    pace: UsualPace,
}

thread_local! {
    static THREAD: RefCell<ThreadState> = RefCell::default();
}

/// Says what the calls of this thread belong to from now on, or that they belong to nothing; what
/// was said before.
pub fn belongs_to(context: Option<TraceContext>) -> Option<TraceContext> {
    let set = |state: &mut ThreadState| std::mem::replace(&mut state.wanted, context);
    with_thread(set).flatten()
}

/// What the calls of this thread belong to.
pub fn belonging() -> Option<TraceContext> {
    with_thread(|state| state.wanted).flatten()
}

/// The request that this thread works at.
pub fn current_request() -> Option<Arc<Request>> {
    with_thread(|state| state.current.clone()).flatten()
}

/// Its name, as frames carry it.
pub fn current_context() -> Option<TraceContext> {
    with_thread(|state| state.current.as_ref().map(|request| request.context)).flatten()
}

/// Adds a span to the request that this thread works at. It is made only if there is one.
pub fn add_span(ended: Duration, took: Duration, make: impl FnOnce() -> Span) {
    if let Some(request) = current_request() {
        request.add(ended, took, make());
    }
}

/// A call of the program has begun. A call within another one is part of that one.
pub fn begin_call(operation: Operation, now: Duration) -> OpenCall {
    let is_outer = with_thread(|state| state.begin(now)).unwrap_or(false);
    OpenCall { operation, begun: now, is_outer, thread: PhantomData }
}

/// What came of a call.
#[derive(Clone, Copy, Debug)]
pub struct CallOutcome<'a> {
    /// Its first key.
    pub key: &'a str,
    /// How many keys it has.
    pub keys: usize,
    /// Payload bytes that were moved.
    pub bytes: u64,
    /// The first code that is no success, or 0.
    pub status: i32,
}

/// A call that is kept: its name, and all of its spans.
#[derive(Clone, Debug)]
pub struct KeptCall {
    /// Of the whole request.
    pub trace: u128,
    /// The call last.
    pub spans: Vec<Span>,
}

/// A call under way on this thread. Dropped without [`OpenCall::end`] it leaves nothing.
#[derive(Debug)]
#[must_use]
pub struct OpenCall {
    operation: Operation,
    begun: Duration,
    is_outer: bool,
    /// It belongs to the thread that began it.
    thread: PhantomData<*const ()>,
}

impl OpenCall {
    /// The call is over; its spans are kept if they are worth it, and returned then.
    pub fn end(mut self, outcome: &CallOutcome<'_>, now: Duration) -> Option<KeptCall> {
        if !std::mem::replace(&mut self.is_outer, false) {
            return None;
        }
        let ended = with_thread(|state| {
            let request = state.current.take()?;
            let took_ns = nanoseconds(now.saturating_sub(self.begun));
            let subject = PacedKind::call(self.operation, outcome.bytes);
            let is_kept = state.pace.is_kept(subject, took_ns, now, request.context.is_sampled);
            let kept = is_kept.then(|| request.keep(self.operation, outcome, took_ns));
            state.spare = Some(request);
            kept.flatten()
        });
        ended.flatten()
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        if self.is_outer {
            with_thread(|state| state.spare = state.current.take());
        }
    }
}

/// A call whose end another thread may see than its begin: a batch of the transfer engine. Dropped
/// without [`DetachedCall::end`] it leaves nothing.
#[derive(Debug)]
pub struct DetachedCall {
    request: Request,
    operation: Operation,
}

impl DetachedCall {
    /// A call has begun; what this thread was said to belong to is what it belongs to.
    pub fn begin(operation: Operation, now: Duration) -> Self {
        let mut request = Request::default();
        if let Some((context, parent)) = with_thread(|state| state.name()) {
            request.begin(context, parent, now);
        }
        Self { request, operation }
    }

    /// For all threads that work at it.
    pub fn request(&self) -> &Request {
        &self.request
    }

    /// The call is over; its spans are kept if they are worth it. To be called once.
    pub fn end(&self, outcome: &CallOutcome<'_>, now: Duration) {
        let took_ns = nanoseconds(now.saturating_sub(self.request.begun));
        let subject = PacedKind::call(self.operation, outcome.bytes);
        let is_wanted = self.request.context.is_sampled;
        let kept = with_thread(|state| state.pace.is_kept(subject, took_ns, now, is_wanted));
        if kept == Some(true) {
            self.request.keep(self.operation, outcome, took_ns);
        }
    }
}

/// A server has answered a frame of a request. The span is made only if it is kept, which is
/// returned; its begin is filled in here.
pub fn answered(
    context: TraceContext,
    (kind, detail, bytes): (SpanKind, u16, u64),
    (took, now): (Duration, Duration),
    make: impl FnOnce() -> Span,
) -> bool {
    let took_ns = nanoseconds(took);
    let subject = PacedKind::served(kind, detail, bytes);
    let is_kept =
        with_thread(|state| state.pace.is_kept(subject, took_ns, now, context.is_sampled));
    if is_kept != Some(true) {
        return false;
    }
    let mut span = make();
    (span.trace, span.call, span.took_ns) = (context.id, context.span, took_ns);
    (span.detail, span.bytes) = (detail, bytes);
    span.began_ns = since_1970().saturating_sub(took_ns);
    page().into_iter().for_each(|page| page.put_spans(&[span]));
    true
}

impl ThreadState {
    /// Begins a request, unless one is under way.
    fn begin(&mut self, now: Duration) -> bool {
        if self.current.is_some() {
            return false;
        }
        let (context, parent) = self.name();
        let mut request = self.spare.take().unwrap_or_default();
        if Arc::get_mut(&mut request).is_none() {
            // A thread still holds the last one.
            request = Arc::default();
        }
        if let Some(request) = Arc::get_mut(&mut request) {
            request.begin(context, parent, now);
        }
        self.current = Some(request);
        true
    }

    /// A name for a new call, and the span of the program that it is below; 0 for none.
    fn name(&mut self) -> (TraceContext, u64) {
        let span = self.names.span();
        match self.wanted {
            Some(wanted) => (TraceContext { span, ..wanted }, wanted.span),
            None => (TraceContext { id: self.names.trace(), span, is_sampled: false }, 0),
        }
    }
}

impl Default for Request {
    fn default() -> Self {
        let context = TraceContext { id: 0, span: 0, is_sampled: false };
        Self { context, parent: 0, begun: Duration::ZERO, spans: Mutex::default() }
    }
}

impl Request {
    /// Its name, as frames carry it.
    pub fn context(&self) -> TraceContext {
        self.context
    }

    /// Adds what ended at `ended` and took so long.
    pub fn add(&self, ended: Duration, took: Duration, mut span: Span) {
        span.took_ns = nanoseconds(took);
        let since_begin = nanoseconds(ended.saturating_sub(self.begun));
        span.began_ns = since_begin.saturating_sub(span.took_ns);
        let mut gathered = self.spans.lock().unwrap_or_else(PoisonError::into_inner);
        if gathered.spans.len() < SPANS_PER_CALL {
            return gathered.spans.push(span);
        }
        match gathered.spans.iter_mut().rev().find(|other| other.is_alike(&span)) {
            Some(alike) => alike.absorb(&span),
            None => gathered.left_out += 1,
        }
    }

    fn begin(&mut self, context: TraceContext, parent: u64, now: Duration) {
        (self.context, self.parent, self.begun) = (context, parent, now);
        let gathered = self.spans.get_mut().unwrap_or_else(PoisonError::into_inner);
        gathered.spans.clear();
        gathered.left_out = 0;
    }

    /// Writes its spans into the page, the call last: who sees it sees the others.
    fn keep(
        &self,
        operation: Operation,
        outcome: &CallOutcome<'_>,
        took_ns: u64,
    ) -> Option<KeptCall> {
        let page = page()?;
        let began_ns = since_1970().saturating_sub(took_ns);
        let gathered = self.spans.lock().unwrap_or_else(PoisonError::into_inner);
        let mut call = Span::new(SpanKind::Call, "", outcome.key);
        (call.detail, call.parent) = (operation as u16, self.parent);
        (call.took_ns, call.bytes, call.status) = (took_ns, outcome.bytes, outcome.status);
        call.count = u32::try_from(outcome.keys).unwrap_or(u32::MAX);
        call.parts = gathered.left_out.saturating_add(gathered.spans.len() as u32);
        let mut spans = gathered.spans.clone();
        drop(gathered);
        spans.push(call);
        for (span, index) in spans.iter_mut().zip(1..) {
            (span.trace, span.call) = (self.context.id, self.context.span);
            span.index = if span.kind == SpanKind::Call { 0 } else { index };
            span.began_ns = span.began_ns.saturating_add(began_ns);
        }
        page.put_spans(&spans);
        Some(KeptCall { trace: self.context.id, spans })
    }
}

/// `None` in a thread that is ending, or that is asked from within.
fn with_thread<T>(work: impl FnOnce(&mut ThreadState) -> T) -> Option<T> {
    THREAD.try_with(|state| Some(work(&mut *state.try_borrow_mut().ok()?))).ok().flatten()
}

fn nanoseconds(length: Duration) -> u64 {
    u64::try_from(length.as_nanos()).unwrap_or(u64::MAX)
}

fn since_1970() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, nanoseconds)
}

#[cfg(test)]
mod tests;
