//! What a record in the activity page costs: `cargo run --release -p perigee-activity --example record_cost`.
//!
//! Both sides of each round are taken in turn: the loop with records and the same loop without. The goal is at most 5 ns,
//! and no locked instruction, which `tests/machine_code.rs` looks for.
#![expect(
    clippy::print_stdout,
    reason = "printing figures is what this program is for"
)]

use perigee_activity::{Direction, Key, Link, LinkRole, Page, Route};
use std::hint::black_box;
use std::time::Instant;

const RECORDS: u64 = 5_000_000;
const ROUNDS: usize = 11;

fn main() -> Result<(), perigee_activity::PageError> {
    let page: &'static Page = Box::leak(Box::new(Page::private()?));
    let key = Key::new("eth0", Route::Tcp, Direction::Write, 0);
    let Some(slot) = page.claim(key) else {
        println!("The page has no room");
        return Ok(());
    };
    let link = Link::claim(
        page,
        "eth0",
        std::net::Ipv4Addr::LOCALHOST.into(),
        LinkRole::Asks,
    );
    let record = |n: u64| slot.record(4096, 30_000 + (n & 0xffff), 500);
    let exchange = |n: u64| {
        black_box(link.record(30_000 + (n & 0xffff), 4096));
    };
    show("slot", &rounds(record));
    show("link", &rounds(exchange));
    Ok(())
}

/// Nanoseconds per call of each round, less those of an empty loop right before.
fn rounds(call: impl Fn(u64)) -> Vec<f64> {
    let each = |_| {
        timed(&call)
            - timed(|n| {
                black_box(n);
            })
    };
    (0..ROUNDS).map(each).collect()
}

#[expect(clippy::cast_precision_loss, reason = "a shown figure")]
fn timed(call: impl Fn(u64)) -> f64 {
    let started = Instant::now();
    for n in 0..RECORDS {
        call(black_box(n));
    }
    started.elapsed().as_nanos() as f64 / RECORDS as f64
}

fn show(what: &str, rounds: &[f64]) {
    let mut sorted = rounds.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (least, most) = (sorted[0], sorted[sorted.len() - 1]);
    let median = sorted[sorted.len() / 2];
    println!(
        "{what}: {median:.1} ns per record, {least:.1} to {most:.1} in {ROUNDS} rounds of {RECORDS}"
    );
}
