//! TCP over loopback with both ends on one CPU.
//! Invariant: what is measured is CPU time of this process, not time on the clock.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

use crate::error::BenchError;
use crate::load::drive::Measured;

const SLICE: Duration = Duration::from_millis(400);
const BLOCK: usize = 4096;
const ANSWER: usize = 16;
const PIECE: usize = 64 << 10;

/// Called when all threads of a slice are there.
pub(super) type Ready<'a> = &'a mut dyn FnMut() -> Result<(), BenchError>;

fn system(error: nix::Error) -> BenchError {
    BenchError::Io(error.into())
}

/// Keeps this process on one CPU, the last it may use: going back and forth between two would be
/// most of what is measured. The CPUs it could use before.
pub(super) fn pin() -> Result<CpuSet, BenchError> {
    let allowed = sched_getaffinity(Pid::from_raw(0)).map_err(system)?;
    let last = (0..CpuSet::count()).rfind(|cpu| allowed.is_set(*cpu).unwrap_or(false));
    let mut one = CpuSet::new();
    one.set(last.unwrap_or(0)).map_err(system)?;
    sched_setaffinity(Pid::from_raw(0), &one).map_err(system)?;
    Ok(allowed)
}

pub(super) fn unpin(allowed: &CpuSet) -> Result<(), BenchError> {
    sched_setaffinity(Pid::from_raw(0), allowed).map_err(system)
}

fn pair() -> Result<(TcpStream, TcpStream), BenchError> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let one = TcpStream::connect(listener.local_addr()?)?;
    let (other, _) = listener.accept()?;
    one.set_nodelay(true)?;
    other.set_nodelay(true)?;
    Ok((one, other))
}

/// A block and a short answer, again and again.
pub(super) fn ping_pong(ready: Ready<'_>) -> Result<Measured, BenchError> {
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
    answer.join().map_err(|_| BenchError::LoadThread)?;
    Ok(work)
}

/// Pieces one after the other.
pub(super) fn stream(ready: Ready<'_>) -> Result<Measured, BenchError> {
    let (mut one, mut other) = pair()?;
    let sink = std::thread::spawn(move || {
        let mut piece = vec![0; PIECE];
        while other.read(&mut piece).is_ok_and(|bytes| bytes > 0) {}
    });
    let piece = vec![7; PIECE];
    ready()?;
    let work = measure(|| one.write_all(&piece))?;
    drop(one);
    sink.join().map_err(|_| BenchError::LoadThread)?;
    Ok(work)
}

/// Operations of one slice, with the CPU time of this process as its time.
fn measure(mut operation: impl FnMut() -> std::io::Result<()>) -> Result<Measured, BenchError> {
    let (begun, cpu, mut operations) = (Instant::now(), cpu_time()?, 0);
    while begun.elapsed() < SLICE {
        operation()?;
        operations += 1;
    }
    let spent = cpu_time()?.saturating_sub(cpu);
    Ok(Measured::of(spent, operations, operations))
}

/// Numbers of the threads of this process.
pub(super) fn threads() -> Result<BTreeSet<u32>, BenchError> {
    let mut threads = BTreeSet::new();
    for task in std::fs::read_dir("/proc/self/task")? {
        threads.extend(task?.file_name().to_string_lossy().parse::<u32>());
    }
    Ok(threads)
}

/// What all threads of this process have used; none ends within a slice.
fn cpu_time() -> Result<Duration, BenchError> {
    let mut nanoseconds = 0;
    for task in std::fs::read_dir("/proc/self/task")? {
        let text = std::fs::read_to_string(task?.path().join("schedstat")).unwrap_or_default();
        let first = text.split_whitespace().next().unwrap_or("0");
        nanoseconds += first.parse::<u64>().unwrap_or(0);
    }
    Ok(Duration::from_nanos(nanoseconds))
}
