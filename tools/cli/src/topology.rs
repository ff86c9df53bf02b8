//! `perigee topology`: what this host has and which NICs serve which memory. Invariant: it only
//! reads below the given roots, and what it shows is what an engine on this host would choose.

mod document;
mod dump;
mod explanation;
mod inventory;

use crate::failure::Failure;
use crate::invocation::Invocation;
use crate::output;
use perigee_flags::{
    Flag, FlagError, ProcessEnvironment, Program, ProgramStart, Settings, ValueKind,
};
use perigee_topology::{CUSTOM_MATRIX_VARIABLE, Matrix, Roots, Selection, Topology};
use std::path::Path;

/// Mooncake's name of the command; under it flags and output are Mooncake's.
pub(crate) const DUMP_NAME: &str = "transfer_engine_topology_dump";

/// Highest rank on one host.
const RANK_MAX: i128 = 65_535;

const FLAGS: &[Flag] = &[
    Flag::new("format", ValueKind::Text, "text", "text for people, json for programs")
        .one_of(&["text", "json"]),
    Flag::new(
        "explain",
        ValueKind::Bool,
        "false",
        "Say why each NIC is ranked as it is, and which GID is used",
    ),
    Flag::new(
        "device",
        ValueKind::Text,
        "",
        "NICs to use: a list, a JSON map of lists per rank, or a .json file with such a map",
    )
    .aliases(&["device_name", "devices"]),
    Flag::new(
        "rank",
        ValueKind::Int64,
        "-1",
        "Rank of the process in such a map; -1 asks LOCAL_RANK",
    )
    .within(-1, RANK_MAX),
    Flag::new("all", ValueKind::Bool, "false", "Show virtual network interfaces too"),
    Flag::new("sysfs", ValueKind::Text, "/sys", "Folder to read instead of /sys"),
    Flag::new("procfs", ValueKind::Text, "/proc", "Folder to read instead of /proc"),
];

/// The command as its settings see it.
const TOPOLOGY: Program = Program {
    name: "perigee topology",
    version: env!("CARGO_PKG_VERSION"),
    summary: "shows NICs, GPUs, disks, and which NICs serve which memory",
    variable_prefix: "PERIGEE_TOPOLOGY_",
    words: &[],
    tables: &[("Topology", FLAGS)],
};

/// What one run shows.
struct TopologyView {
    topology: Topology,
    selection: Selection,
    matrix: Matrix,
    shows_virtual: bool,
    /// Where the matrix comes from if not from the host.
    custom_file: Option<String>,
}

/// Prints the topology of a host.
pub(crate) fn run(
    invocation: &Invocation,
    environment: &ProcessEnvironment,
) -> Result<(), Failure> {
    if invocation.program == DUMP_NAME {
        return dump::run(invocation, environment);
    }
    let settings = match TOPOLOGY.load(&invocation.arguments, environment)? {
        ProgramStart::Print(text) => return Ok(output::print(&text)?),
        ProgramStart::Run(settings) => settings,
    };
    let view = view(&settings, environment)?;
    let text = match (settings.text("format"), settings.bool("explain")) {
        ("json", false) => view.matrix.to_json(),
        ("json", true) => document::text(&view),
        (_, false) => inventory::text(&view),
        (_, true) => inventory::text(&view) + &explanation::text(&view),
    };
    Ok(output::print(&text)?)
}

/// All there is of this host, with reasons.
pub(crate) fn report(environment: &ProcessEnvironment) -> Result<String, Failure> {
    let arguments = ["--explain", "--all"].map(str::to_owned);
    match TOPOLOGY.load(&arguments, environment)? {
        ProgramStart::Print(text) => Ok(text),
        ProgramStart::Run(settings) => {
            let view = view(&settings, environment)?;
            Ok(inventory::text(&view) + &explanation::text(&view))
        }
    }
}

/// Roots by the flags `sysfs` and `procfs`. A slip in a path must not look like an empty host.
pub(crate) fn roots(settings: &Settings) -> Result<Roots, FlagError> {
    for flag in ["sysfs", "procfs"] {
        let path = settings.text(flag);
        if settings.is_given(flag) && !Path::new(path).is_dir() {
            let shown = path.escape_debug();
            return Err(FlagError::Conflict(format!("`{flag}` is `{shown}`, which is no folder")));
        }
    }
    Ok(Roots::new(settings.text("sysfs"), settings.text("procfs")))
}

fn view(settings: &Settings, environment: &ProcessEnvironment) -> Result<TopologyView, Failure> {
    let roots = roots(settings)?;
    let variables = |name: &str| environment.get(name).map(str::to_owned);
    let device = settings.text("device");
    let rank = u32::try_from(settings.integer::<i64>("rank")).ok();
    Ok(TopologyView {
        topology: Topology::discover(&roots),
        selection: Selection::new(device, rank, &variables)?,
        matrix: Matrix::local(&roots, device, rank, &variables)?,
        shows_virtual: settings.bool("all"),
        custom_file: variables(CUSTOM_MATRIX_VARIABLE).filter(|path| !path.is_empty()),
    })
}

#[cfg(test)]
mod tests;
