//! What level 1 costs TCP, and whether it comes and goes without a trace (as root):
//! `cargo run --release -p perigee-probe-loader --example level1_cost [ROUNDS] [ATTACHMENTS]`
//!
//! Probes are on and off in turn within one run. Work per second of this process's CPU time is compared, so that other work
//! on the machine counts less. Then probes are attached and detached under load: every byte must arrive, nothing may stay.
#![expect(
    clippy::print_stdout,
    reason = "printing figures is what this program is for"
)]

use perigee_probe_loader::Probes;
use std::collections::BTreeSet;
use std::error::Error;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const SLICE: Duration = Duration::from_millis(400);
const BLOCK: usize = 4096;
const PIECE: usize = 64 << 10;

fn main() -> Outcome<()> {
    let mut numbers = std::env::args().skip(1).map(|word| word.parse::<usize>());
    let rounds = numbers.next().transpose()?.unwrap_or(10);
    let attachments = numbers.next().transpose()?.unwrap_or(1000);
    compare("64 KiB stream", rounds, stream)?;
    compare("4 KiB request and response", rounds, ping_pong)?;
    churn(attachments)
}

/// Probes on everything that level 1 watches of this process.
fn probes() -> Outcome<Probes> {
    let mut probes = Probes::load(Duration::from_secs(1))?;
    let number = nix::net::if_::if_nametoindex("lo")?;
    let mut failed = probes.watch_interfaces(&BTreeSet::from([(number, "lo".to_owned())]));
    failed.extend(probes.watch_groups(&own_group().into_iter().collect()));
    probes.watch_threads(&BTreeSet::from([std::process::id()]))?;
    probes.watch_processes(&BTreeSet::from([std::process::id()]))?;
    match failed.pop() {
        Some((target, error)) => Err(format!("{target}: {error}").into()),
        None => Ok(probes),
    }
}

fn own_group() -> Option<PathBuf> {
    let mounts = std::fs::read_to_string("/proc/mounts").ok()?;
    let mount = mounts
        .lines()
        .find(|line| line.split(' ').nth(2) == Some("cgroup2"))?;
    let own = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = own.lines().find_map(|line| line.strip_prefix("0::/"))?;
    Some(PathBuf::from(mount.split(' ').nth(1)?).join(own))
}

fn compare(what: &str, rounds: usize, work: fn() -> Outcome<f64>) -> Outcome<()> {
    let (mut ratios, mut noise) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let before = work()?;
        let watching = probes()?;
        let with = work()?;
        drop(watching);
        let after = work()?;
        ratios.push(with / f64::midpoint(before, after));
        noise.push(after / before);
    }
    println!(
        "{what}: with probes {}; off against off {}",
        spread(ratios),
        spread(noise)
    );
    Ok(())
}

fn spread(mut ratios: Vec<f64>) -> String {
    ratios.sort_by(f64::total_cmp);
    let middle = ratios.get(ratios.len() / 2).copied().unwrap_or(0.0);
    let (least, most) = (ratios.first(), ratios.last());
    format!(
        "x{middle:.3} [{:.3}..{:.3}]",
        least.unwrap_or(&0.0),
        most.unwrap_or(&0.0)
    )
}

fn pair() -> Outcome<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let one = TcpStream::connect(listener.local_addr()?)?;
    let (other, _) = listener.accept()?;
    one.set_nodelay(true)?;
    other.set_nodelay(true)?;
    Ok((one, other))
}

/// Round trips per second of CPU time.
fn ping_pong() -> Outcome<f64> {
    let (mut one, mut other) = pair()?;
    let answer = std::thread::spawn(move || {
        let mut block = [0; BLOCK];
        while other.read_exact(&mut block).is_ok() && other.write_all(&block[..16]).is_ok() {}
    });
    let (begun, cpu, mut trips) = (Instant::now(), cpu_seconds()?, 0.0);
    while begun.elapsed() < SLICE {
        one.write_all(&[7; BLOCK])?;
        one.read_exact(&mut [0; 16])?;
        trips += 1.0;
    }
    let used = cpu_seconds()? - cpu;
    drop(one);
    let _ = answer.join();
    Ok(trips / used)
}

/// Pieces per second of CPU time.
fn stream() -> Outcome<f64> {
    let (mut one, mut other) = pair()?;
    let sink = std::thread::spawn(move || {
        let mut piece = vec![0; PIECE];
        while other.read(&mut piece).is_ok_and(|bytes| bytes > 0) {}
    });
    let (piece, begun) = (vec![7; PIECE], Instant::now());
    let (cpu, mut pieces) = (cpu_seconds()?, 0.0);
    while begun.elapsed() < SLICE {
        one.write_all(&piece)?;
        pieces += 1.0;
    }
    let used = cpu_seconds()? - cpu;
    drop(one);
    let _ = sink.join();
    Ok(pieces / used)
}

/// What all threads of this process have used; those that have ended are ended before and after.
fn cpu_seconds() -> Outcome<f64> {
    let mut nanoseconds = 0.0;
    for task in std::fs::read_dir("/proc/self/task")? {
        let text = std::fs::read_to_string(task?.path().join("schedstat")).unwrap_or_default();
        let first = text.split_whitespace().next().unwrap_or("0");
        nanoseconds += first.parse::<f64>()?;
    }
    Ok(nanoseconds / 1e9)
}

fn churn(times: usize) -> Outcome<()> {
    let before = left_behind()?;
    let done = AtomicBool::new(false);
    let (mut one, mut other) = pair()?;
    let (sent, received) = std::thread::scope(|scope| -> Outcome<(u64, u64)> {
        let sender = scope.spawn(|| -> std::io::Result<u64> {
            let mut bytes = 0;
            while !done.load(Ordering::Relaxed) {
                one.write_all(&[7; BLOCK])?;
                bytes += BLOCK as u64;
            }
            one.shutdown(std::net::Shutdown::Write)?;
            Ok(bytes)
        });
        let receiver = scope.spawn(|| std::io::copy(&mut other, &mut std::io::sink()));
        let attached = (0..times).try_for_each(|_| probes().map(drop));
        done.store(true, Ordering::Relaxed);
        let sent = sender.join().map_err(|_| "the sender ended by a panic")??;
        let received = receiver
            .join()
            .map_err(|_| "the receiver ended by a panic")??;
        attached.map(|()| (sent, received))
    })?;
    let deadline = Instant::now() + Duration::from_secs(30);
    let mut after = left_behind()?;
    while after != before && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(50));
        after = left_behind()?;
    }
    println!(
        "attached and detached {times} times: {sent} bytes sent, {received} received; programs, maps and links of this process before {before:?}, after {after:?}"
    );
    if sent == received && before == after {
        Ok(())
    } else {
        Err("something was lost or left".into())
    }
}

/// Programs, maps and links that the kernel holds for this process.
fn left_behind() -> Outcome<[usize; 3]> {
    let own = format!("({})", std::process::id());
    let mut counts = [0; 3];
    for (count, kind) in counts.iter_mut().zip(["prog", "map", "link"]) {
        let output = Command::new("bpftool").args([kind, "show"]).output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        *count = text.lines().filter(|line| line.contains(&own)).count();
    }
    Ok(counts)
}
