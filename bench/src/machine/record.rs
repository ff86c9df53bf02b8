//! What a record in the activity page costs, less an empty loop right before it.

use std::hint::black_box;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use perigee_activity::{Arrival, Direction, Link, LinkRole, Page, Route, Slot, SlotKey, Stages};

use super::Bench;
use crate::error::BenchError;
use crate::load::drive::Measured;
use crate::report::{Figure, FigureUnit, Goal, RateUnit};

const RECORDS: u64 = 5_000_000;
const ROUNDS: u32 = 11;

/// Takes the rows of a slot and of a link.
pub(super) fn take(bench: &mut Bench<'_>) -> Result<(), BenchError> {
    // Writers hold it for as long as the process lives.
    let page = Page::private().map_err(|error| BenchError::program("activity page", error))?;
    let page: &'static Page = Box::leak(Box::new(page));
    let key = SlotKey::new("bench", Route::Tcp, Direction::Write, 0);
    let Some(slot) = Slot::claim(page, key) else {
        return Err(BenchError::program("activity page", "it has no room"));
    };
    let link = Link::claim(page, "bench", Ipv4Addr::LOCALHOST.into(), LinkRole::Asks);
    let record = |n: u64| slot.record(4096, &Stages::whole(30_000 + (n & 0xffff), 500));
    let exchange = |n: u64| {
        link.record(&Stages::whole(30_000 + (n & 0xffff), 0), 4096, Arrival::default());
    };
    push(bench, "activity, record of a slot", &rounds(record));
    push(bench, "activity, record of a link", &rounds(exchange));
    Ok(())
}

/// Each round less an empty loop.
fn rounds(call: impl Fn(u64)) -> Measured {
    let mut measured = Measured::default();
    for _ in 0..ROUNDS {
        let with = timed(&call);
        let without = timed(|n| {
            black_box(n);
        });
        let net = with.saturating_sub(without).max(Duration::from_nanos(1));
        measured.add(&Measured::of(net, RECORDS, RECORDS));
    }
    measured
}

fn timed(call: impl Fn(u64)) -> Duration {
    let started = Instant::now();
    for n in 0..RECORDS {
        call(black_box(n));
    }
    started.elapsed()
}

fn push(bench: &mut Bench<'_>, operation: &str, measured: &Measured) {
    bench.push(operation, RateUnit::Operations, measured);
    bench.report.figures.push(Figure {
        name: operation.to_owned(),
        value: 1e9 / measured.rate(),
        unit: FigureUnit::Nanoseconds,
        goal: Some(Goal::AtMost(5.0)),
    });
}
