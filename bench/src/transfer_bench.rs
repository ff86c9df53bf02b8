//! `transfer_engine_bench`, with the flags and the closing line of Mooncake's program of that name.
//! Invariant: scripts that start Mooncake's can start this one and read the same line in the same
//! place: standard error.

use std::io::Write as _;

use perigee_engine::EngineOptions;
use perigee_flags::ProcessEnvironment;

use crate::ends::engine_end::EngineEnd;
use crate::ends::mover::Mover;
use crate::error::BenchError;
use crate::load::drive::{Measured, drive};
use crate::run::{Output, read};
use crate::stop::Stop;
use batch::{BatchShare, BatchWorker};
use settings::{EXAMPLES, Mode, PROGRAM, TransferSettings};

mod batch;
mod matrix;
mod settings;

pub use settings::PROGRAM as TRANSFER_ENGINE_BENCH;

/// Runs the program.
///
/// # Errors
/// A setting is wrong, or the engine or a transfer failed.
pub fn transfer_engine_bench(
    arguments: &[String],
    environment: &ProcessEnvironment,
    output: Output<'_>,
) -> Result<(), BenchError> {
    let Some(settings) = read(&PROGRAM, EXAMPLES, arguments, environment, output)? else {
        return Ok(());
    };
    let settings = TransferSettings::of(&settings)?;
    let stop = Stop::on_signals()?;
    let mut options = EngineOptions::new(
        &settings.local_server_name,
        &settings.metadata,
        &settings.protocol,
        &settings.devices,
    )?;
    // A figure of RDMA must not be one of TCP.
    options.requires_rdma = settings.protocol == "rdma";
    let end = EngineEnd::start(options, settings.buffer_bytes, &stop)?;
    match settings.mode {
        Mode::Target => {
            // Scripts wait for these words of Mooncake's target.
            say(&format!("DRAM is used; target {} is ready", end.name()));
            stop.wait();
            Ok(())
        }
        Mode::Initiator => {
            let measured = stop.excuse(initiate(&end, &settings, &stop))?;
            // Where Mooncake's logs it.
            say(&closing_line(&settings, &measured));
            Ok(())
        }
    }
}

fn initiate(
    end: &EngineEnd,
    settings: &TransferSettings,
    stop: &Stop,
) -> Result<Measured, BenchError> {
    let mover = end.towards(&settings.segment_id, settings.deadline)?;
    settings.check_target(mover.target_bytes())?;
    load(&mover, end.address(), settings, stop)
}

/// A line where Mooncake's program writes all of its lines: standard output has only what it prints
/// on demand, as help.
fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

fn load<M: Mover>(
    mover: &M,
    local: u64,
    settings: &TransferSettings,
    stop: &Stop,
) -> Result<Measured, BenchError> {
    let worker = |thread| {
        BatchWorker::new(
            mover,
            &BatchShare {
                direction: settings.direction,
                local,
                thread,
                threads: settings.threads,
                block_bytes: settings.block_bytes,
                blocks: settings.batch_size,
            },
        )
    };
    let mut workers: Vec<_> = (0..settings.threads).map(worker).collect();
    drive(&mut workers, &settings.span, stop)
}

/// `Test completed: duration 10.00, batch count 123, throughput 4.56 GB/s`.
fn closing_line(settings: &TransferSettings, measured: &Measured) -> String {
    format!(
        "Test completed: duration {:.2}, batch count {}, throughput {:.precision$} {}/s",
        measured.seconds,
        measured.operations,
        settings.unit.of(measured.units as f64 / measured.seconds),
        settings.unit.word(),
        precision = settings.precision,
    )
}

#[cfg(test)]
mod tests;
