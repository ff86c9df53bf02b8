//! What level 1 costs TCP, and whether it comes and goes without a trace (as root):
//! `chrt -f 10 target/release/examples/level1_cost [--rounds N] [--attachments N] [--attached N] [--minutes N]`
//!
//! Probes are on and off in turn within one run, with both ends on one CPU, and work per second of this process's CPU
//! time is compared, so that other work on the machine counts less. Then probes are attached and detached under load:
//! every byte must arrive, and nothing that the kernel made for them may stay. Whatever was not attached within
//! `--minutes` is told, and a later run goes on from there with `--attached`.
#![expect(
    clippy::print_stdout,
    reason = "printing figures is what this program is for"
)]

mod load;
mod remains;

use load::{Ready, Work, ping_pong, stream};
use perigee_probe_loader::Probes;
use remains::Remains;
use std::collections::BTreeSet;
use std::error::Error;
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Attachments between two lines of progress.
const PROGRESS: usize = 50;

struct Options {
    rounds: usize,
    attachments: usize,
    attached: usize,
    limit: Duration,
}

fn main() -> Outcome<()> {
    let options = options()?;
    if options.rounds > 0 {
        let allowed = load::pin()?;
        compare("64 KiB stream", options.rounds, stream)?;
        compare("4 KiB request and response", options.rounds, ping_pong)?;
        load::unpin(&allowed)?;
    }
    churn(&options)
}

fn options() -> Outcome<Options> {
    let (mut rounds, mut attachments, mut attached, mut minutes) = (20, 1000, 0, 20);
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let number = words.next().ok_or(format!("{word} needs a number"))?;
        let target = match word.as_str() {
            "--rounds" => &mut rounds,
            "--attachments" => &mut attachments,
            "--attached" => &mut attached,
            "--minutes" => &mut minutes,
            _ => return Err(format!("{word} is not known").into()),
        };
        *target = number.parse()?;
    }
    let limit = Duration::from_secs(60 * u64::try_from(minutes)?);
    Ok(Options {
        rounds,
        attachments,
        attached,
        limit,
    })
}

/// Probes on everything that level 1 watches of this process.
fn probes() -> Outcome<Probes> {
    let mut probes = Probes::load(Duration::from_secs(1))?;
    let number = nix::net::if_::if_nametoindex("lo")?;
    let mut failed = probes.watch_interfaces(&BTreeSet::from([(number, "lo".to_owned())]));
    failed.extend(probes.watch_groups(&own_group().into_iter().collect()));
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

fn compare(what: &str, rounds: usize, work: fn(Ready<'_>) -> Outcome<Work>) -> Outcome<()> {
    let (mut ratios, mut noise, mut each_ns) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        let before = work(&mut || Ok(()))?.per_cpu_second();
        let mut watching = probes()?;
        let with = work(&mut || Ok(watching.watch_threads(&load::threads()?)?))?.per_cpu_second();
        drop(watching);
        let after = work(&mut || Ok(()))?.per_cpu_second();
        ratios.push(with / f64::midpoint(before, after));
        noise.push(after / before);
        each_ns.push(1e9 / f64::midpoint(before, after));
    }
    let (middle, ..) = spread(each_ns);
    println!(
        "{what}: x{} with probes; x{} off against off; {middle:.0} ns of CPU each without",
        words(ratios),
        words(noise)
    );
    costs(work)
}

/// Runs of each program in one more slice, by the kernel's statistics; these add about 30 ns to every run themselves.
fn costs(work: fn(Ready<'_>) -> Outcome<Work>) -> Outcome<()> {
    let mut watching = probes()?;
    let measuring = watching.measure_costs()?;
    let done = work(&mut || Ok(watching.watch_threads(&load::threads()?)?))?.operations;
    for (_, cost) in watching.costs() {
        if cost.runs > 0 {
            println!(
                "    {}: {:.2} runs each, {} ns per run",
                cost.program,
                cost.runs as f64 / done,
                cost.run_ns / cost.runs
            );
        }
    }
    drop(measuring);
    Ok(())
}

/// Median, least and most.
fn spread(mut values: Vec<f64>) -> (f64, f64, f64) {
    values.sort_by(f64::total_cmp);
    let at = |index: usize| values.get(index).copied().unwrap_or(0.0);
    (
        at(values.len() / 2),
        at(0),
        at(values.len().saturating_sub(1)),
    )
}

fn words(values: Vec<f64>) -> String {
    let (middle, least, most) = spread(values);
    format!("{middle:.3} [{least:.3}..{most:.3}]")
}

fn churn(options: &Options) -> Outcome<()> {
    let (mut attached, deadline) = (options.attached, Instant::now() + options.limit);
    let mut remains = Remains::default();
    let done = AtomicBool::new(false);
    let (sent, received) = std::thread::scope(|scope| -> Outcome<(u64, u64)> {
        let flow = scope.spawn(|| load::flow(&done));
        let ended = (|| -> Outcome<()> {
            while attached < options.attachments && Instant::now() < deadline {
                let watching = probes()?;
                remains.note()?;
                drop(watching);
                attached += 1;
                if attached % PROGRESS == 0 {
                    println!("attached and detached {attached} times");
                    std::io::stdout().flush()?;
                }
            }
            Ok(())
        })();
        done.store(true, Ordering::Relaxed);
        let bytes = flow.join().map_err(|_| "the load ended by a panic")??;
        ended.map(|()| bytes)
    })?;
    let left = remains.left(Duration::from_secs(30))?;
    println!(
        "attached and detached {attached} times: {sent} bytes sent, {received} received; {} programs, maps, links and types \
         were made, of which are left: {left:?}",
        remains.made()
    );
    match (sent == received, left.is_empty()) {
        (true, true) if attached == options.attachments => Ok(()),
        (true, true) => Err(format!("the time is over; go on with --attached {attached}").into()),
        _ => Err("something was lost or left".into()),
    }
}
