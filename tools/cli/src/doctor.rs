//! `perigee doctor`: what is misconfigured on this host, and what to do. Invariant: it changes
//! nothing, and its exit code is 0 for a sound host, 1 for failures, 3 for warnings.

mod agent;
mod checks;
mod clock;
mod disk;
mod finding;
mod host;
mod links;
mod memory;
mod mooncake_settings;
mod mooncake_variables;
mod network;
mod packages;
mod pcie;
mod peers;
mod placement;
mod rdma;
mod reactor;
mod report;
mod segments;
mod tcp;

use crate::failure::Failure;
use crate::invocation::Invocation;
use crate::output;
use crate::topology::roots;
use checks::{CHECKS, Check};
use disk::HostDisk;
use finding::Severity;
use host::{HostFacts, Process};
use mooncake_variables::VariableReport;
use peers::PeerHost;
use perigee_flags::{
    Flag, FlagError, ProcessEnvironment, Program, ProgramStart, Settings, ValueKind, nearest,
};
use perigee_mesh::{LinkBaseline, usual_file};
use perigee_topology::{Topology, cpu_list};
use report::DoctorReport;
use segments::ClusterSegments;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Exit code when something does not work.
const EXIT_FAILED: u8 = 1;
/// Exit code when something works less well than it could.
const EXIT_DEGRADED: u8 = 3;
/// Longest wait for a master, and again for the data ports of its segments.
const CLUSTER_DEADLINE: Duration = Duration::from_secs(10);
/// The tree of the running kernel.
const LIVE_SYSFS: &str = "/sys";

const FLAGS: &[Flag] = &[
    Flag::new("format", ValueKind::Text, "text", "text for people, json for programs")
        .one_of(&["text", "json"]),
    Flag::new(
        "verbose",
        ValueKind::Bool,
        "false",
        "Show also what is right and what was not checked",
    ),
    Flag::new("only", ValueKind::Text, "", "Names of checks to run, with commas between them"),
    Flag::new("skip", ValueKind::Text, "", "Names of checks not to run"),
    Flag::new("segment_size", ValueKind::SizeBytes, "0", "Memory this host is to donate")
        .aliases(&["global_segment_size"]),
    Flag::new("cores", ValueKind::Text, "", "Processors of the shards, such as 0-7,32-39"),
    Flag::new("disk", ValueKind::Text, "", "Folders for files; each is tested with 32 MiB")
        .aliases(&["disks", "ssd_offload_path"]),
    Flag::new(
        "peers",
        ValueKind::Text,
        "",
        "Files with the JSON reports of other hosts to compare with",
    ),
    Flag::new(
        "master_server_address",
        ValueKind::Text,
        "",
        "HOST:PORT of a master whose segments are to be reached from here",
    )
    .aliases(&["master"])
    .variables(&["MOONCAKE_MASTER"]),
    Flag::new(
        mooncake_variables::FLAG,
        ValueKind::Text,
        mooncake_variables::NONE,
        "Say instead what Mooncake's settings do here: set for the variables of this environment, or \
         all for every variable, flag, key, keyword and parameter",
    )
    .one_of(&[mooncake_variables::NONE, mooncake_variables::SET, mooncake_variables::ALL])
    .alone(mooncake_variables::SET),
    Flag::new(
        "baseline",
        ValueKind::Text,
        "",
        "Baseline file of perigee check; empty: the default file",
    ),
    Flag::new("sysfs", ValueKind::Text, LIVE_SYSFS, "Folder to read instead of /sys"),
    Flag::new("procfs", ValueKind::Text, "/proc", "Folder to read instead of /proc"),
    Flag::new("devfs", ValueKind::Text, "/dev", "Folder to read instead of /dev"),
];

/// The command as its settings see it.
const DOCTOR: Program = Program {
    name: "perigee doctor",
    version: env!("CARGO_PKG_VERSION"),
    summary: "finds what is misconfigured on this host and says what to do",
    variable_prefix: "PERIGEE_DOCTOR_",
    words: &[],
    tables: &[("Doctor", FLAGS)],
};

/// Examines this host.
pub(crate) fn run(
    invocation: &Invocation,
    environment: &ProcessEnvironment,
) -> Result<(), Failure> {
    let settings = match DOCTOR.load(&invocation.arguments, environment)? {
        ProgramStart::Print(text) => return Ok(output::print(&text)?),
        ProgramStart::Run(settings) => settings,
    };
    let as_json = settings.text("format") == "json";
    let variables = settings.text(mooncake_variables::FLAG);
    if variables != mooncake_variables::NONE {
        let found = VariableReport::of(variables, environment);
        let shown = if as_json { found.json() } else { found.text() };
        return Ok(output::print(&shown)?);
    }
    let chosen = chosen(&settings)?;
    let host = host_of(&settings)?;
    let report = examine(&host, &chosen);
    let text = match as_json {
        true => report.json(&host),
        false => report.text(settings.bool("verbose")),
    };
    output::print(&text)?;
    match report.worst() {
        None => Ok(()),
        Some(Severity::Warning) => Err(Failure::Reported(EXIT_DEGRADED)),
        Some(Severity::Failure) => Err(Failure::Reported(EXIT_FAILED)),
    }
}

/// What all checks find, for people and for programs; of the cluster of a master if one is named.
pub(crate) fn report(
    master: &str,
    environment: &ProcessEnvironment,
) -> Result<(String, String), Failure> {
    let arguments = match master {
        "" => Vec::new(),
        master => vec![format!("--master_server_address={master}")],
    };
    let ProgramStart::Run(settings) = DOCTOR.load(&arguments, environment)? else {
        return Ok(Default::default());
    };
    let host = host_of(&settings)?;
    let report = examine(&host, &CHECKS.iter().collect::<Vec<_>>());
    Ok((report.text(true), report.json(&host)))
}

fn examine(host: &HostFacts, chosen: &[&'static Check]) -> DoctorReport {
    let outcomes = chosen.iter().map(|check| (*check, (check.run)(host)));
    DoctorReport { outcomes: outcomes.collect() }
}

fn host_of(settings: &Settings) -> Result<HostFacts, Failure> {
    let roots = roots(settings)?;
    let is_live = settings.text("sysfs") == LIVE_SYSFS;
    let disks = words(settings.text("disk")).map(|folder| HostDisk::measure(Path::new(folder)));
    Ok(HostFacts {
        topology: Topology::discover(&roots),
        process: Process::read(&roots),
        has_probes: perigee_agent::has_probes(),
        clock: is_live.then(perigee_shard::clock_discipline).flatten(),
        io_uring: is_live.then(perigee_shard::probe),
        no_reactor: is_live
            .then(|| perigee_shard::choice().err().map(|error| error.to_string()))
            .flatten(),
        packages: match is_live {
            true => packages::folders(std::env::current_exe().ok(), |name| std::env::var_os(name)),
            false => Vec::new(),
        },
        dev: PathBuf::from(settings.text("devfs")),
        segment_bytes: settings.integer("segment_size"),
        cores: cores(settings.text("cores"))?,
        disks: disks.collect(),
        peers: words(settings.text("peers")).map(PeerHost::read).collect::<Result<_, _>>()?,
        cluster: ClusterSegments::look(
            settings.text("master_server_address").trim(),
            CLUSTER_DEADLINE,
        )?,
        links: is_live.then(|| {
            let file = settings.optional_text("baseline").map(PathBuf::from);
            let found = LinkBaseline::load(&file.unwrap_or_else(usual_file));
            found.map_err(|error| error.to_string())
        }),
        roots,
    })
}

fn cores(text: &str) -> Result<Vec<u32>, FlagError> {
    let cores = cpu_list(text);
    if cores.is_empty() && !text.trim().is_empty() {
        let message =
            format!("`{}` is no list of processors such as 0-7,32-39", text.escape_debug());
        return Err(FlagError::Conflict(message));
    }
    Ok(cores)
}

/// Checks by `--only` and `--skip`.
fn chosen(settings: &Settings) -> Result<Vec<&'static Check>, FlagError> {
    let names = |flag: &str| -> Result<Vec<String>, FlagError> {
        words(settings.text(flag)).map(|name| known(name).map(str::to_owned)).collect()
    };
    let (only, skip) = (names("only")?, names("skip")?);
    let is_in = |list: &[String], check: &Check| list.iter().any(|name| name == check.name);
    let wanted = |check: &&Check| (only.is_empty() || is_in(&only, check)) && !is_in(&skip, check);
    let chosen: Vec<_> = CHECKS.iter().filter(wanted).collect();
    if chosen.is_empty() {
        let message = "--skip leaves no check to run; name fewer there";
        return Err(FlagError::Conflict(message.to_owned()));
    }
    Ok(chosen)
}

fn known(name: &str) -> Result<&str, FlagError> {
    if CHECKS.iter().any(|check| check.name == name) {
        return Ok(name);
    }
    let shown: String = name.escape_debug().take(80).collect();
    let hint = match nearest(name, CHECKS.iter().map(|check| check.name)) {
        Some(hint) => format!("did you mean `{hint}`?"),
        None => "perigee doctor --verbose lists all".to_owned(),
    };
    Err(FlagError::Conflict(format!("No check `{shown}`; {hint}")))
}

/// Words between commas.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests;
