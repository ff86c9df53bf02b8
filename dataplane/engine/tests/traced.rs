//! Batches of an engine as requests that an agent sees: under the traceparent of their program, and
//! with what their peer says of them.
#![allow(clippy::unwrap_used, reason = "tests")]

use perigee_activity::{PageDirectory, Span, SpanKind, SpansSeen, belongs_to, page, pages};
use perigee_engine::{
    Direction, EngineOptions, SubmitOptions, TransferEngine, TransferRequest, TransferState,
};
use perigee_schemas::trace::TraceContext;
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(60);
const BYTES: usize = 1 << 20;

fn engine() -> TransferEngine {
    let options = EngineOptions::from_variables("127.0.0.1", "P2PHANDSHAKE", "tcp", "", |_| None);
    TransferEngine::start(options.unwrap()).unwrap()
}

/// Spans of a request, once it has a call and what was answered to it.
fn spans_of(trace: u128, seen: &mut SpansSeen, found: &mut Vec<Span>) -> Vec<Span> {
    let path = page().and_then(|page| page.path()).unwrap().to_owned();
    let directory = PageDirectory::new(path.parent().unwrap());
    let begun = Instant::now();
    loop {
        let all = pages(&directory);
        let own = all.iter().find(|page| page.path() == path).unwrap();
        found.extend(own.spans(seen).unwrap().spans);
        let of_it: Vec<Span> = found.iter().filter(|span| span.trace == trace).copied().collect();
        let has = |kind| of_it.iter().any(|span| span.kind == kind);
        if [SpanKind::Call, SpanKind::Transfer, SpanKind::Served].into_iter().all(has) {
            return of_it;
        }
        assert!(begun.elapsed() < LONG, "{of_it:?}");
        std::thread::yield_now();
    }
}

#[test]
fn batches_of_callers_and_of_shards_belong_to_the_traceparent_of_their_program() {
    let (here, there) = (engine(), engine());
    let folder = page().and_then(|page| page.path()?.parent()).unwrap().to_owned();
    PageDirectory::new(folder).note_reader().unwrap();
    let (from, into) = (vec![7u8; BYTES], vec![0u8; BYTES]);
    // SAFETY: the memory lives until the engine is closed.
    unsafe { there.register(into.as_ptr() as u64, BYTES as u64, "*") }.unwrap();
    let write = TransferRequest {
        direction: Direction::Write,
        local: from.as_ptr() as u64,
        remote: into.as_ptr() as u64,
        bytes: BYTES as u64,
    };
    let options = SubmitOptions { hint: Some("tcp".to_owned()), ..SubmitOptions::default() };
    let (mut seen, mut found) = (SpansSeen::default(), Vec::new());
    for (id, is_submitted) in [(5u128 << 64 | 6, false), (7u128 << 64 | 8, true)] {
        belongs_to(Some(TraceContext { id, span: 9, is_sampled: true }));
        if is_submitted {
            // SAFETY: the memory lives until the batch is over.
            let batch = unsafe { here.submit(there.local_name(), &[write], &options) }.unwrap();
            assert_eq!(here.wait(batch, LONG).unwrap().state, TransferState::Completed);
        } else {
            // SAFETY: the memory lives until the call returns.
            unsafe { here.transfer(there.local_name(), &[write], &options) }.unwrap();
        }
        belongs_to(None);
        let spans = spans_of(id, &mut seen, &mut found);
        let call = spans.iter().find(|span| span.kind == SpanKind::Call).unwrap();
        assert_eq!((call.name().as_str(), call.who().as_str()), ("transfer", there.local_name()));
        assert_eq!((call.parent, call.bytes, call.status), (9, BYTES as u64, 0));
        assert!(spans.iter().all(|span| span.call == call.call), "{spans:?}");
        let moved = spans.iter().filter(|span| span.kind == SpanKind::Transfer);
        assert_eq!(moved.map(|span| span.bytes).sum::<u64>(), BYTES as u64);
    }
    here.close();
    there.close();
}
