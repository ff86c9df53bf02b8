//! TCP over loopback with both ends on one CPU.
//! Invariant: what is measured is CPU time of this process, not time on the clock.

use crate::Outcome;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use std::collections::BTreeSet;
use std::fs::DirEntry;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const SLICE: Duration = Duration::from_millis(400);
const BLOCK: usize = 4096;
const ANSWER: usize = 16;
const PIECE: usize = 64 << 10;

/// What was done in a slice.
pub(crate) struct Work {
    pub(crate) operations: f64,
    cpu_seconds: f64,
}

impl Work {
    pub(crate) fn per_cpu_second(&self) -> f64 {
        self.operations / self.cpu_seconds
    }
}

/// Keeps this process on one CPU, the last it may use: going back and forth between two would be most of what is measured.
/// The CPUs it could use before.
pub(crate) fn pin() -> Outcome<CpuSet> {
    let allowed = sched_getaffinity(Pid::from_raw(0))?;
    let last = (0..CpuSet::count()).rfind(|cpu| allowed.is_set(*cpu).unwrap_or(false));
    let mut one = CpuSet::new();
    one.set(last.ok_or("no CPU may be used")?)?;
    sched_setaffinity(Pid::from_raw(0), &one)?;
    Ok(allowed)
}

pub(crate) fn unpin(allowed: &CpuSet) -> Outcome<()> {
    Ok(sched_setaffinity(Pid::from_raw(0), allowed)?)
}

fn pair() -> Outcome<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let one = TcpStream::connect(listener.local_addr()?)?;
    let (other, _) = listener.accept()?;
    one.set_nodelay(true)?;
    other.set_nodelay(true)?;
    Ok((one, other))
}

/// Called when all threads of a slice are there.
pub(crate) type Ready<'a> = &'a mut dyn FnMut() -> Outcome<()>;

pub(crate) fn ping_pong(ready: Ready<'_>) -> Outcome<Work> {
    let (mut one, mut other) = pair()?;
    let answer = std::thread::spawn(move || {
        let mut block = [0; BLOCK];
        while other.read_exact(&mut block).is_ok() && other.write_all(&block[..ANSWER]).is_ok() {}
    });
    ready()?;
    let work = measure(|| {
        one.write_all(&[7; BLOCK])?;
        one.read_exact(&mut [0; ANSWER])
    })?;
    drop(one);
    answer.join().map_err(|_| "the answers ended by a panic")?;
    Ok(work)
}

pub(crate) fn stream(ready: Ready<'_>) -> Outcome<Work> {
    let (mut one, mut other) = pair()?;
    let sink = std::thread::spawn(move || {
        let mut piece = vec![0; PIECE];
        while other.read(&mut piece).is_ok_and(|bytes| bytes > 0) {}
    });
    let piece = vec![7; PIECE];
    ready()?;
    let work = measure(|| one.write_all(&piece))?;
    drop(one);
    sink.join().map_err(|_| "the sink ended by a panic")?;
    Ok(work)
}

fn measure(mut operation: impl FnMut() -> std::io::Result<()>) -> Outcome<Work> {
    let (begun, cpu, mut operations) = (Instant::now(), cpu_seconds()?, 0.0);
    while begun.elapsed() < SLICE {
        operation()?;
        operations += 1.0;
    }
    let cpu_seconds = cpu_seconds()? - cpu;
    Ok(Work {
        operations,
        cpu_seconds,
    })
}

/// Numbers of the threads of this process.
pub(crate) fn threads() -> Outcome<BTreeSet<u32>> {
    let tasks = std::fs::read_dir("/proc/self/task")?;
    let number =
        |task: std::io::Result<DirEntry>| Ok(task?.file_name().to_string_lossy().parse()?);
    tasks.map(number).collect()
}

/// What all threads of this process have used; none ends within a slice.
fn cpu_seconds() -> Outcome<f64> {
    let mut nanoseconds = 0.0;
    for task in std::fs::read_dir("/proc/self/task")? {
        let text = std::fs::read_to_string(task?.path().join("schedstat")).unwrap_or_default();
        let first = text.split_whitespace().next().unwrap_or("0");
        nanoseconds += first.parse::<f64>()?;
    }
    Ok(nanoseconds / 1e9)
}

/// Sends until it is told to end; bytes sent and received.
pub(crate) fn flow(done: &AtomicBool) -> Outcome<(u64, u64)> {
    let (mut one, mut other) = pair()?;
    let receiver = std::thread::spawn(move || std::io::copy(&mut other, &mut std::io::sink()));
    let mut sent = 0;
    while !done.load(Ordering::Relaxed) {
        one.write_all(&[7; BLOCK])?;
        sent += BLOCK as u64;
    }
    one.shutdown(Shutdown::Write)?;
    let received = receiver
        .join()
        .map_err(|_| "the receiver ended by a panic")??;
    Ok((sent, received))
}
