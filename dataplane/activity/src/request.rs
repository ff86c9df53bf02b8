//! The request that a thread works at: its name, which goes with every frame, and its spans, which
//! are kept if it was slow or its program wants to see it.
//! Invariant: a thread works at one request at a time, and what is not kept leaves nothing.

mod gathered;
pub(crate) mod keeping;
mod names;

use crate::operation::Operation;
use crate::page::page;
use crate::process_counts::count_call;
use crate::span::{Span, SpanKind};
use gathered::GatheredSpans;
use keeping::{PacedKind, UsualPace, is_watched};
use names::RequestNames;
use perigee_schemas::trace::TraceContext;
use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A request under way, for all threads that work at it.
#[derive(Debug)]
pub struct Request {
    context: TraceContext,
    /// The program's span; 0 for none.
    parent: u64,
    /// When it began, on the clock of its caller.
    begun: Duration,
    /// Whether an agent was near when it began; without one nothing of it is kept.
    is_watched: bool,
    spans: Mutex<GatheredSpans>,
}

/// State of a thread's requests.
#[derive(Default)]
struct ThreadState {
    /// Trace that the program has set for its next calls.
    wanted: Option<TraceContext>,
    current: Option<Arc<Request>>,
    /// The last one, to be used again.
    spare: Option<Arc<Request>>,
    names: RequestNames,
    pace: UsualPace,
}

thread_local! {
    static THREAD: RefCell<ThreadState> = RefCell::default();
    static COUNTED_AS: Cell<u16> = const { Cell::new(0) };
}

/// Says what the calls of this thread belong to from now on, or that they belong to nothing; what
/// was said before.
pub fn belongs_to(context: Option<TraceContext>) -> Option<TraceContext> {
    let set = |state: &mut ThreadState| std::mem::replace(&mut state.wanted, context);
    with_thread(set).flatten()
}

/// Trace to which the calls of this thread belong.
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

/// Does something that this thread counts under a number, which its spans bear.
pub fn counting_as<T>(number: u16, work: impl FnOnce() -> T) -> T {
    let before = COUNTED_AS.replace(number);
    let done = work();
    COUNTED_AS.set(before);
    done
}

/// As [`Request::add`], for the request that this thread works at, if there is one.
pub fn add_span(
    kind: SpanKind,
    names: (&str, &str),
    fill: impl FnOnce(&mut Span) -> (Duration, Duration),
) {
    with_thread(|state| {
        if let Some(request) = &state.current {
            request.add(kind, names, |span| {
                span.counted_as = COUNTED_AS.get();
                fill(span)
            });
        }
    });
}

/// A call of the program has begun. A call within another one is part of that one, and asks for no
/// time.
pub fn begin_call(operation: Operation, clock: impl FnOnce() -> Duration) -> OpenCall {
    let begun = with_thread(|state| state.begin(clock)).flatten();
    OpenCall { operation, begun, thread: PhantomData }
}

/// Outcome of a call.
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
    /// `None` for a part of another one.
    begun: Option<Duration>,
    /// It belongs to the thread that began it.
    thread: PhantomData<*const ()>,
}

impl OpenCall {
    /// The call is over; its spans are kept if they are worth it, and returned then. A part of
    /// another one asks neither for its outcome nor for the time.
    pub fn end<'a>(
        mut self,
        outcome: impl FnOnce() -> CallOutcome<'a>,
        clock: impl FnOnce() -> Duration,
    ) -> Option<KeptCall> {
        let begun = self.begun.take()?;
        count_call();
        let (outcome, now) = (outcome(), clock());
        let ended = with_thread(|state| {
            let request = state.current.take()?;
            let took_ns = nanoseconds(now.saturating_sub(begun));
            let subject = PacedKind::call(self.operation, outcome.bytes);
            let is_kept = state.pace.is_kept(subject, took_ns, now, request.context.is_sampled);
            let kept = is_kept.then(|| request.keep(self.operation, &outcome, took_ns));
            state.spare = Some(request);
            kept.flatten()
        });
        ended.flatten()
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        if self.begun.is_some() {
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
        if let Some(name) = with_thread(|state| state.name()) {
            request.begin(name, now);
        }
        Self { request, operation }
    }

    /// For all threads that work at it.
    pub fn request(&self) -> &Request {
        &self.request
    }

    /// The call is over; its spans are kept if they are worth it. To be called once.
    pub fn end(&self, outcome: &CallOutcome<'_>, now: Duration) {
        count_call();
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
    /// Begins a request, unless one is under way. Returns when.
    fn begin(&mut self, clock: impl FnOnce() -> Duration) -> Option<Duration> {
        if self.current.is_some() {
            return None;
        }
        let now = clock();
        let name = self.name();
        let mut request = self.spare.take().unwrap_or_default();
        match Arc::get_mut(&mut request) {
            Some(request) => request.begin(name, now),
            None => {
                // A thread still holds the last one.
                let mut own = Request::default();
                own.begin(name, now);
                request = Arc::new(own);
            }
        }
        self.current = Some(request);
        Some(now)
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
        let spans = Mutex::default();
        Self { context, parent: 0, begun: Duration::ZERO, is_watched: false, spans }
    }
}

impl Request {
    /// Its name, as frames carry it.
    pub fn context(&self) -> TraceContext {
        self.context
    }

    /// Adds a span with names as [`Span::new`] takes them. `fill` writes its numbers, and says when
    /// it ended and how long it took. It is asked only if the span may be kept.
    pub fn add(
        &self,
        kind: SpanKind,
        (what, who): (&str, &str),
        fill: impl FnOnce(&mut Span) -> (Duration, Duration),
    ) {
        if !self.is_watched {
            return;
        }
        let mut gathered = self.spans.lock().unwrap_or_else(PoisonError::into_inner);
        let span = gathered.free_place();
        span.begin(kind, what, who);
        let (ended, took) = fill(span);
        span.took_ns = nanoseconds(took);
        let since_begin = nanoseconds(ended.saturating_sub(self.begun));
        span.began_ns = since_begin.saturating_sub(span.took_ns);
        gathered.take_place();
    }

    fn begin(&mut self, (context, parent): (TraceContext, u64), now: Duration) {
        (self.context, self.parent, self.begun) = (context, parent, now);
        self.is_watched = is_watched(now);
        let gathered = self.spans.get_mut().unwrap_or_else(PoisonError::into_inner);
        gathered.clear();
    }

    /// Writes its spans into the page, the call last: who sees it sees the others.
    fn keep(
        &self,
        operation: Operation,
        outcome: &CallOutcome<'_>,
        took_ns: u64,
    ) -> Option<KeptCall> {
        let page = page().filter(|_| self.is_watched)?;
        let began_ns = since_1970().saturating_sub(took_ns);
        let gathered = self.spans.lock().unwrap_or_else(PoisonError::into_inner);
        let mut call = Span::new(SpanKind::Call, "", outcome.key);
        (call.detail, call.parent) = (operation as u16, self.parent);
        (call.took_ns, call.bytes, call.status) = (took_ns, outcome.bytes, outcome.status);
        call.count = u32::try_from(outcome.keys).unwrap_or(u32::MAX);
        call.parts = gathered.count();
        let mut spans = gathered.shown().to_vec();
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
