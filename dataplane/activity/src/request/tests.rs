//! Requests of threads, as an agent reads what was kept of them.

use super::gathered::SPANS_PER_CALL;
use super::*;
use crate::directory::{PageDirectory, pages};
use crate::reader::spans::{KeptSpans, SpansSeen};
use perigee_schemas::{Direction, Route};

const SAMPLED: TraceContext = TraceContext { id: 5 << 64 | 6, span: 9, is_sampled: true };
const DONE: CallOutcome<'static> = CallOutcome { key: "k", keys: 1, bytes: 4096, status: 0 };

fn ms(length: u64) -> Duration {
    Duration::from_millis(length)
}

/// What this process has kept, as an agent reads it. An agent is said to be near.
struct Reader(SpansSeen);

impl Reader {
    fn begin() -> Self {
        let folder = page().and_then(|page| page.path()?.parent()).unwrap();
        PageDirectory::new(folder).note_reader().unwrap();
        Self(SpansSeen::default())
    }

    fn read(&mut self) -> KeptSpans {
        let path = page().and_then(|page| page.path()).unwrap();
        let all = pages(&PageDirectory::new(path.parent().unwrap()));
        let own = all.iter().find(|page| page.path() == path).unwrap();
        own.spans(&mut self.0).unwrap()
    }
}

fn add_transfer(request: &Request, peer: &str, ended: Duration, took: Duration) {
    request.add(SpanKind::Transfer, ("eth0", peer), |span| {
        span.go_over(Route::Tcp, Direction::Read);
        (span.count, span.parts, span.bytes) = (1, 1, 10);
        (ended, took)
    });
}

#[test]
fn a_call_that_its_program_wants_to_see_is_kept_with_what_lies_below_it() {
    let mut reader = Reader::begin();
    assert_eq!(belongs_to(Some(SAMPLED)), None);
    let call = begin_call(Operation::Get, || ms(100));
    let inner = begin_call(Operation::Locate, || ms(100));
    let context = current_context().unwrap();
    assert_eq!((context.id, context.is_sampled), (SAMPLED.id, true));
    assert!(context.span != 0 && context.span != SAMPLED.span);
    assert!(inner.end(|| DONE, || ms(101)).is_none());
    let request = current_request().unwrap();
    let elsewhere = std::thread::spawn(move || add_transfer(&request, "10.0.0.9", ms(103), ms(2)));
    elsewhere.join().unwrap();
    let kept = call.end(|| DONE, || ms(104)).unwrap();
    assert_eq!((kept.trace, kept.spans.len()), (SAMPLED.id, 2));
    assert_eq!((current_context(), belongs_to(None)), (None, Some(SAMPLED)));
    let KeptSpans { spans, lost } = reader.read();
    assert_eq!((spans.len(), lost), (2, 0));
    let (below, call) = (&spans[0], &spans[1]);
    assert!(spans.iter().all(|span| (span.trace, span.call) == (SAMPLED.id, context.span)));
    assert_eq!((call.kind, call.index, call.parent), (SpanKind::Call, 0, SAMPLED.span));
    assert_eq!((call.name().as_str(), call.who().as_str()), ("get", "k"));
    assert_eq!((call.took_ns, call.bytes, call.parts), (4_000_000, 4096, 1));
    assert_eq!((below.index, below.took_ns, below.who().as_str()), (1, 2_000_000, "10.0.0.9"));
    assert_eq!(below.began_ns - call.began_ns, 1_000_000);
}

#[test]
fn without_a_wish_the_slow_ones_are_kept_under_names_of_their_own() {
    let mut reader = Reader::begin();
    let mut seen = Vec::new();
    for turn in 0..300 {
        // One second, so that only what is slower than all before it is kept.
        let begun = ms(1_000 + turn);
        let call = begin_call(Operation::Put, || begun);
        let context = current_context().unwrap();
        assert!(!context.is_sampled);
        let took = if turn == 200 { 50 } else { 2 };
        call.end(|| DONE, || begun + ms(took));
        seen.push(context.id);
    }
    let kept: Vec<u128> = reader.read().spans.iter().map(|span| span.trace).collect();
    assert_eq!(kept, [seen[0], seen[200]]);
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), 300, "each has a name of its own");
}

#[test]
fn a_call_may_end_on_another_thread_than_it_began_on() {
    let mut reader = Reader::begin();
    belongs_to(Some(SAMPLED));
    let call = DetachedCall::begin(Operation::Transfer, ms(100));
    assert_eq!((belongs_to(None), current_context()), (Some(SAMPLED), None));
    assert_eq!(call.request().context().id, SAMPLED.id);
    let elsewhere = std::thread::spawn(move || {
        add_transfer(call.request(), "10.0.0.9", ms(103), ms(2));
        call.end(&DONE, ms(104));
    });
    elsewhere.join().unwrap();
    let spans = reader.read().spans;
    assert_eq!(spans.len(), 2);
    assert_eq!((spans[1].name().as_str(), spans[1].parent), ("transfer", SAMPLED.span));
    assert_eq!((spans[0].call, spans[1].took_ns), (spans[1].call, 4_000_000));
}

#[test]
fn spans_bear_what_their_thread_counts_them_as_and_those_that_stand_for_several_nothing() {
    let _reader = Reader::begin();
    belongs_to(Some(SAMPLED));
    let call = begin_call(Operation::Get, || ms(0));
    let add = || add_span(SpanKind::Master, ("", "m:1"), |_| (ms(2), ms(1)));
    counting_as(7, add);
    add();
    for _ in 1..SPANS_PER_CALL {
        counting_as(8, add);
    }
    let kept = call.end(|| DONE, || ms(3)).unwrap();
    let counted: Vec<u16> = kept.spans.iter().map(|span| span.counted_as).collect();
    let mut wanted = vec![7, 0];
    wanted.extend([8; SPANS_PER_CALL - 2]);
    // The last one found another one, and the call itself comes behind all.
    *wanted.last_mut().unwrap() = 0;
    wanted.push(0);
    assert_eq!(counted, wanted);
}

#[test]
fn a_call_that_is_dropped_leaves_nothing() {
    let mut reader = Reader::begin();
    belongs_to(Some(SAMPLED));
    drop(begin_call(Operation::Get, || ms(1)));
    assert_eq!(current_context(), None);
    assert!(reader.read().spans.is_empty());
}

#[test]
fn more_exchanges_than_are_shown_count_with_others_of_their_link() {
    let mut reader = Reader::begin();
    belongs_to(Some(SAMPLED));
    let call = begin_call(Operation::BatchGet, || ms(0));
    let request = current_request().unwrap();
    for turn in 0..2 * SPANS_PER_CALL as u64 {
        add_transfer(&request, "10.0.0.9", ms(turn + 2), ms(1));
    }
    add_transfer(&request, "10.0.0.10", ms(200), ms(1));
    call.end(|| DONE, || ms(300));
    let spans = reader.read().spans;
    assert_eq!(spans.len(), SPANS_PER_CALL + 1);
    let exchanges: u32 = spans[..SPANS_PER_CALL].iter().map(|span| span.parts).sum();
    assert_eq!(exchanges, 2 * SPANS_PER_CALL as u32);
    assert_eq!(spans[SPANS_PER_CALL].parts as usize, SPANS_PER_CALL + 1, "one found no place");
}

#[test]
fn what_a_server_answered_is_kept_when_the_program_wants_it() {
    let mut reader = Reader::begin();
    let about = (SpanKind::Served, 0, 4096);
    let make = || Span::new(SpanKind::Served, "eth0", "10.0.0.7");
    answered(SAMPLED, about, (ms(3), ms(50)), make);
    let spans = reader.read().spans;
    assert_eq!(spans.len(), 1);
    assert_eq!((spans[0].trace, spans[0].call), (SAMPLED.id, SAMPLED.span));
    assert_eq!((spans[0].took_ns, spans[0].bytes), (3_000_000, 4096));
}

#[test]
fn where_no_agent_was_near_when_a_request_began_no_span_of_it_is_made() {
    let request = Request::default();
    request.add(SpanKind::Master, ("", "m:1"), |_| unreachable!("nothing would be kept of it"));
    assert!(request.keep(Operation::Get, &DONE, 1).is_none());
}
