//! Rates of transfers between two processes over TCP, beside a one-thread cold copy of the same sizes in the same run.
//! Invariant: every figure is printed with the copy that was measured right before and after it.
//!
//! usage: cargo run --release -p perigee-engine --example move_rates [-- SECONDS]
#![allow(clippy::print_stdout, reason = "a program that prints")]
#![expect(clippy::unwrap_used, reason = "a measurement that fails may panic")]

use perigee_engine::{Direction, EngineOptions, Request, SubmitOptions, TransferEngine};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const SPAN: usize = 512 << 20;

fn main() {
    let argument = std::env::args().nth(1);
    if argument.as_deref() == Some("serve") {
        return serve();
    }
    let length = Duration::from_secs_f64(argument.map_or(0.5, |text| text.parse().unwrap()));
    let mut peer = Command::new(std::env::current_exe().unwrap())
        .arg("serve")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    measure(&mut peer, length);
    drop(peer.stdin.take());
    peer.wait().unwrap();
}

fn engine() -> TransferEngine {
    TransferEngine::start(EngineOptions::new("127.0.0.1", "P2PHANDSHAKE", "tcp", "").unwrap())
        .unwrap()
}

fn buffer() -> Vec<u8> {
    (0..SPAN).map(|index| (index >> 12) as u8).collect()
}

fn serve() {
    let (engine, memory) = (engine(), buffer());
    // SAFETY: the memory lives until the engine is closed.
    unsafe { engine.register(memory.as_ptr() as u64, SPAN as u64, "*") }.unwrap();
    println!("{} {}", engine.local_name(), memory.as_ptr() as u64);
    std::io::stdout().flush().unwrap();
    let _ = std::io::stdin().lines().last();
    engine.close();
}

fn measure(peer: &mut Child, length: Duration) {
    let mut line = String::new();
    BufReader::new(peer.stdout.as_mut().unwrap())
        .read_line(&mut line)
        .unwrap();
    let (name, address) = line.trim().split_once(' ').unwrap();
    let remote: u64 = address.parse().unwrap();
    let (engine, memory, mut other) = (engine(), buffer(), buffer());
    for (bytes, count) in [
        (4096, 1),
        (65_536, 1),
        (65_536, 16),
        (65_536, 64),
        (1 << 20, 1),
        (1 << 20, 4),
        (1 << 20, 32),
        (16 << 20, 4),
    ] {
        for direction in [Direction::Write, Direction::Read] {
            for asynchronous in [false, true] {
                let before = copy_rate(&memory, &mut other, bytes);
                let mut seed = 1u64;
                let mut moved = 0usize;
                let mut times = Vec::new();
                let start = Instant::now();
                while start.elapsed() < length {
                    let requests: Vec<Request> = (0..count)
                        .map(|_| {
                            let offset = place(&mut seed, bytes);
                            let far = place(&mut seed, bytes);
                            let local = memory.as_ptr() as u64 + offset;
                            Request {
                                direction,
                                local,
                                remote: remote + far,
                                bytes: bytes as u64,
                            }
                        })
                        .collect();
                    let begin = Instant::now();
                    go(&engine, name, &requests, asynchronous);
                    times.push(begin.elapsed());
                    moved += bytes * count;
                }
                let rate = moved as f64 / start.elapsed().as_secs_f64() / 1e9;
                let copy = f64::midpoint(before, copy_rate(&memory, &mut other, bytes));
                times.sort();
                println!(
                    "{direction:?} {} {bytes:>9} x{count:<3} {rate:6.2} GB/s  copy {copy:5.2}  ratio {:4.2}  p50 {:8.1} us  p99 {:8.1} us",
                    if asynchronous { "async" } else { "block" },
                    rate / copy,
                    times[times.len() / 2].as_secs_f64() * 1e6,
                    times[times.len() * 99 / 100].as_secs_f64() * 1e6,
                );
            }
        }
    }
    engine.close();
}

fn go(engine: &TransferEngine, name: &str, requests: &[Request], asynchronous: bool) {
    let options = SubmitOptions::default();
    // SAFETY: the buffers outlive the measurement.
    unsafe {
        if asynchronous {
            let batch = engine.submit(name, requests, &options).unwrap();
            engine.wait(batch, Duration::from_secs(60)).unwrap();
            engine.batch_outcome(batch).unwrap();
            engine.release(batch).unwrap();
        } else {
            engine.transfer(name, requests, &options).unwrap();
        }
    }
}

fn place(seed: &mut u64, bytes: usize) -> u64 {
    *seed = seed
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    ((*seed >> 33) % (SPAN / bytes) as u64) * bytes as u64
}

fn copy_rate(from: &[u8], to: &mut [u8], bytes: usize) -> f64 {
    // Hidden from the compiler, or it would leave copies out that nobody looks at.
    let (from, to) = std::hint::black_box((from.as_ptr(), to.as_mut_ptr()));
    let mut seed = 7;
    let mut moved = 0;
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(100) {
        let source = place(&mut seed, bytes) as usize;
        let target = place(&mut seed, bytes) as usize;
        // SAFETY: both places lie in their buffers, which nobody else uses now.
        unsafe { std::ptr::copy_nonoverlapping(from.add(source), to.add(target), bytes) };
        std::hint::black_box(to);
        moved += bytes;
    }
    moved as f64 / start.elapsed().as_secs_f64() / 1e9
}
