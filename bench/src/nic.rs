//! `perigee bench nic`: bandwidth and latency between two ends, over TCP, RDMA or shared memory.
//! Invariant: a run in which both ends are on this machine says so.

use perigee_engine::{EngineError, EngineOptions};
use perigee_topology::{Roots, Topology};

use crate::ends::engine_end::EngineEnd;
use crate::ends::own_host;
use crate::ends::process::Companion;
use crate::error::BenchError;
use crate::report::Report;
use crate::run::{Output, Run, Tool};
use crate::stop::Stop;
use settings::{EXAMPLES, NicSettings, PROGRAM, Role};

mod address;
mod cards;
mod initiator;
mod settings;

/// What a target prints before its name.
pub(crate) const READY: &str = "Target ready: ";
const AUTO: &str = "auto";
const SHM: &str = "shm";
const RDMA: &str = "rdma";
/// The name of both ends of a loopback run.
pub(crate) const LOOPBACK: &str = "127.0.0.1";

pub(crate) const TOOL: Tool = Tool { name: "nic", program: PROGRAM, examples: EXAMPLES, run };

fn run(run: Run<'_>) -> Result<(), BenchError> {
    for flag in settings::without_effect(&run.settings) {
        eprintln!("warning: --{flag} has no effect on a target; pass it to the initiator");
    }
    let settings = NicSettings::of(&run.settings)?;
    check_devices(&settings)?;
    if settings.role == Role::Target {
        return run.serve(|stop, output| target(&settings, stop, output));
    }
    run.measure(|_, stop, report| {
        report.loopback = settings.role == Role::Loopback;
        notes(&settings, report);
        let taken = take(&settings, stop, report);
        report.figures = initiator::figures(&report.rows);
        taken
    })
}

fn notes(settings: &NicSettings, report: &mut Report) {
    let mut note = |text: &str| report.notes.push(text.to_owned());
    if settings.load.span.every.is_zero() {
        note("closed loop: each thread keeps its operations in flight and waits for the oldest");
    } else {
        note("open loop: operations begin on time, latencies count from the time they were due");
    }
    if settings.load.verify {
        note(
            "every byte was compared; bandwidth and the latency of what was in flight include that, bytes \
             that were only read back to be compared are in no row",
        );
    }
}

/// How the other end of a run on this machine is started.
pub(crate) fn target_words(transport: &str, buffer_bytes: u64) -> Vec<String> {
    let words = ["bench", "nic", "--role=target"].map(str::to_owned);
    let pairs = [("name", LOOPBACK), ("transport", transport)];
    let flags = pairs.map(|(name, value)| format!("--{name}={value}"));
    let buffer = format!("--buffer={buffer_bytes}");
    words.into_iter().chain(flags).chain([buffer]).collect()
}

/// The same with the devices and the metadata server of a run.
fn target_arguments(settings: &NicSettings) -> Vec<String> {
    let mut words = target_words(&settings.transport, settings.buffer_bytes);
    words.push(format!("--metadata={}", settings.metadata));
    words.push(format!("--device={}", settings.device));
    words
}

fn options(settings: &NicSettings) -> Result<EngineOptions, BenchError> {
    let name = match (settings.name.as_str(), settings.role) {
        ("", Role::Loopback) => LOOPBACK.to_owned(),
        ("", _) => address::towards(&settings.peer),
        (name, _) => name.to_owned(),
    };
    let protocol = match settings.transport.as_str() {
        AUTO => "",
        protocol => protocol,
    };
    let metadata = &settings.metadata;
    let mut options = EngineOptions::new(&name, metadata, protocol, &settings.device)?;
    // A figure of RDMA must not be one of TCP.
    options.requires_rdma = settings.transport == RDMA;
    Ok(options)
}

/// An engine whose memory suits the transport. Only `shm` hands it out: what is measured otherwise
/// is the way to another machine.
fn end(settings: &NicSettings, stop: &Stop) -> Result<EngineEnd, BenchError> {
    let options = options(settings)?;
    if settings.transport == SHM {
        return EngineEnd::start_shared(options, settings.buffer_bytes, stop);
    }
    let end = match EngineEnd::start(options, settings.buffer_bytes, stop) {
        Err(BenchError::Engine(EngineError::Device(reason))) => return Err(no_rdma(&reason)),
        started => started?,
    };
    if settings.transport == RDMA && !end.has_rdma() {
        return Err(no_rdma("No RDMA device works on this machine"));
    }
    Ok(end)
}

/// Refuses devices that this machine does not have, before anything is started.
fn check_devices(settings: &NicSettings) -> Result<(), BenchError> {
    if settings.device.is_empty() {
        return Ok(());
    }
    let selection = settings.selection()?;
    let topology = Topology::discover(&Roots::system());
    let unknown = topology.unknown_devices(&selection);
    if unknown.is_empty() {
        return Ok(());
    }
    let known = topology.device_names();
    Err(BenchError::conflict(format!(
        "No RDMA device or network interface {}; this machine has {}",
        unknown.join(", "),
        if known.is_empty() { "none".to_owned() } else { known.join(", ") }
    )))
}

fn no_rdma(reason: &str) -> BenchError {
    BenchError::conflict(format!(
        "{reason}, so write --transport tcp; perigee topology --explain says what there is"
    ))
}

/// Serves until a signal comes.
fn target(settings: &NicSettings, stop: &Stop, output: Output<'_>) -> Result<(), BenchError> {
    let end = end(settings, stop)?;
    output(&ready_text(&end.name(), settings))?;
    stop.wait();
    Ok(())
}

fn ready_text(name: &str, settings: &NicSettings) -> String {
    let mut command = format!("perigee bench nic --role initiator --peer {name}");
    for (flag, value, default) in [
        ("metadata", settings.metadata.as_str(), "P2PHANDSHAKE"),
        ("transport", settings.transport.as_str(), "auto"),
    ] {
        if value != default {
            command.push_str(&format!(" --{flag} {value}"));
        }
    }
    format!("{READY}{name}\nOn the other machine: {command} --buffer {}\n", settings.buffer_bytes)
}

fn take(settings: &NicSettings, stop: &Stop, report: &mut Report) -> Result<(), BenchError> {
    // Before the other end of a loopback run: what does not work here is reported here.
    let end = end(settings, stop)?;
    let companion = match settings.role {
        Role::Loopback => {
            let words = target_arguments(settings);
            Some(Companion::start(&words, READY, None)?)
        }
        Role::Initiator | Role::Target => None,
    };
    let peer = companion.as_ref().map_or(settings.peer.as_str(), |companion| &companion.ready);
    let mut mover = end.towards(peer, settings.timeout)?;
    settings.check_target(mover.target_bytes())?;
    report.loopback |= own_host::is_this_machine(&end.host_of(peer)?);
    if settings.transport != AUTO {
        mover = mover.by(&settings.transport);
    }
    initiator::take_rows(&mover, end.address(), settings, stop, report)
}
