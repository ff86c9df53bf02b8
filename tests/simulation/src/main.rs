//! Plays scenarios from many seeds, or one seed again. Invariant: the exit code tells whether every
//! promise was kept.
#![expect(clippy::print_stdout, reason = "a command line tool reports on stdout")]

use clap::Parser;
use perigee_simulation::scenario::{Report, Scenario, Tally};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Runs the data plane and the master in a simulated world.
#[derive(Parser)]
#[command(name = "perigee-simulation")]
struct Arguments {
    /// How many seeds.
    #[arg(long, default_value_t = 100)]
    seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// Only this seed.
    #[arg(long)]
    seed: Option<u64>,
    /// End at the first seed that fails.
    #[arg(long)]
    until_failure: bool,
    /// Only this scenario; without it, all.
    #[arg(long, value_parser = scenario)]
    scenario: Option<Scenario>,
}

fn scenario(name: &str) -> Result<Scenario, String> {
    let names = || Scenario::ALL.map(Scenario::name).join(", ");
    Scenario::named(name).ok_or_else(|| format!("choose one of {}", names()))
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let seeds = match arguments.seed {
        Some(seed) => seed..seed + 1,
        None => arguments.first..arguments.first + arguments.seeds,
    };
    let chosen = |scenario: &Scenario| arguments.scenario.is_none_or(|only| only == *scenario);
    let mut failures = 0;
    for scenario in Scenario::ALL.into_iter().filter(chosen) {
        failures += play(scenario, seeds.clone(), arguments.until_failure);
        if failures > 0 && arguments.until_failure {
            break;
        }
    }
    if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Plays a scenario from each seed; returns how many failed.
fn play(scenario: Scenario, seeds: std::ops::Range<u64>, until_failure: bool) -> u64 {
    let (begun, mut count) = (Instant::now(), seeds.end - seeds.start);
    let (mut time, mut steps, mut calls, mut failures) = (Duration::ZERO, 0, Tally::default(), 0);
    let first = seeds.start;
    for seed in seeds {
        match scenario.play(seed) {
            Ok(report) => {
                let Report { time: run, steps: made, calls: tally, hash } = report;
                time += run;
                steps += made;
                calls.add(tally);
                if count == 1 {
                    println!("hash {hash:016x}");
                }
            }
            Err(failure) => {
                println!("{failure}\n");
                failures += 1;
                if until_failure {
                    count = seed - first + 1;
                    break;
                }
            }
        }
    }
    let Tally { done, failed, faults } = calls;
    println!(
        "{}: {count} seeds, {failures} failed; {:.0} s of virtual time in {:.1} s, {steps} steps, {faults} faults, {done} \
         calls done, {failed} failed with an error",
        scenario.name(),
        time.as_secs_f64(),
        begun.elapsed().as_secs_f64(),
    );
    failures
}
