//! The command under Mooncake's name. Invariant: flags and the line on standard output are those of
//! Mooncake's program.

use super::DUMP_NAME;
use crate::failure::Failure;
use crate::invocation::Invocation;
use crate::output;
use perigee_flags::{
    Flag, FlagError, ProcessEnvironment, Program, ProgramStart, Settings, ValueKind,
};
use perigee_topology::{CUSTOM_MATRIX_VARIABLE, Matrix, Roots, Selection, Topology};
use std::path::Path;

const FLAGS: &[Flag] = &[
    Flag::new(
        "device_name",
        ValueKind::Text,
        "",
        "Show these devices only, with commas between them",
    ),
    Flag::new("backend", ValueKind::Text, "auto", "Shape of the output; tent is not offered")
        .one_of(&["auto", "te", "tent"]),
    Flag::new(
        "use_custom_topo",
        ValueKind::Bool,
        "false",
        "Show the matrix of the file that MC_CUSTOM_TOPO_JSON names instead of this host's",
    ),
    Flag::new("custom_topo_json", ValueKind::Text, "", "Show the matrix of this file instead"),
];

/// The program as its settings see it.
const DUMP: Program = Program {
    name: DUMP_NAME,
    version: env!("CARGO_PKG_VERSION"),
    summary: "shows which NICs serve which memory",
    variable_prefix: "PERIGEE_TOPOLOGY_DUMP_",
    words: &[],
    tables: &[("Topology", FLAGS)],
};

/// Prints the matrix of this host or of a file.
pub(super) fn run(
    invocation: &Invocation,
    environment: &ProcessEnvironment,
) -> Result<(), Failure> {
    let settings = match DUMP.load(&invocation.arguments, environment)? {
        ProgramStart::Print(text) => return Ok(output::print(&text)?),
        ProgramStart::Run(settings) => settings,
    };
    if settings.text("backend") == "tent" {
        let message = "The tent backend is not offered; leave --backend out";
        return Err(FlagError::Conflict(message.to_owned()).into());
    }
    let variables = |name: &str| environment.get(name).map(str::to_owned);
    let selection = Selection::new(settings.text("device_name"), None, &variables)?;
    let (mode, matrix) = match custom_file(&settings, environment)? {
        Some(path) => {
            let matrix = Matrix::from_file(Path::new(&path))?.restricted_to(&selection);
            (format!("custom ({path})"), matrix)
        }
        None => ("discover".to_owned(), discovered(&selection)),
    };
    let text = format!("Local topology [te/{mode}]: {}\n", matrix.to_json());
    Ok(output::print(&text)?)
}

/// Without being asked to, a file is not used.
fn custom_file(
    settings: &Settings,
    environment: &ProcessEnvironment,
) -> Result<Option<String>, FlagError> {
    if let Some(path) = settings.optional_text("custom_topo_json") {
        return Ok(Some(path.to_owned()));
    }
    if !settings.bool("use_custom_topo") {
        return Ok(None);
    }
    match environment.get(CUSTOM_MATRIX_VARIABLE).filter(|path| !path.is_empty()) {
        Some(path) => Ok(Some(path.to_owned())),
        None => Err(FlagError::Conflict(format!(
            "--use-custom-topo needs {CUSTOM_MATRIX_VARIABLE} or --custom-topo-json=FILE"
        ))),
    }
}

/// Mooncake's program shows nothing for a device that is not there; so does this one, but it says
/// so.
fn discovered(selection: &Selection) -> Matrix {
    let topology = Topology::discover(&Roots::system());
    let unknown = topology.unknown_devices(selection);
    if !unknown.is_empty() {
        let unknown = unknown.join(", ");
        output::complain(&format!("{DUMP_NAME}: warning: No device {unknown} on this host\n"));
    }
    topology.matrix_of_known(selection)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_is_sound() {
        assert_eq!(DUMP.check(), Vec::<String>::new());
    }
}
