//! The perigee program. Invariant: whatever it is started as, wrong input ends it with one line on
//! standard error and an exit code of the table in the help text, never with a panic.
#![forbid(unsafe_code)]

mod agent;
mod asked_agent;
mod bench;
mod bundle;
mod check;
mod columns;
mod commands;
mod daemon;
mod doctor;
mod drain;
mod failure;
mod http_answer;
mod inspect;
mod invocation;
mod limits;
mod logging;
mod output;
mod reachability;
mod signals;
mod size;
mod status;
mod top;
mod topology;
mod trace;

use failure::Failure;
use invocation::Invocation;
use perigee_flags::ProcessEnvironment;
use std::process::ExitCode;

fn main() -> ExitCode {
    let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    let invocation = Invocation::read(words.collect());
    match commands::execute(&invocation, &ProcessEnvironment::of_process()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Reported(code)) => ExitCode::from(code),
        Err(failure) => {
            output::complain(&format!("{}: error: {failure}\n", invocation.program));
            ExitCode::from(failure.exit_code())
        }
    }
}
