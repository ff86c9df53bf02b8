//! Agents of inference engines on `libtransfer_engine.so`: the calls that NIXL and TensorRT-LLM
//! make, and NIXL's own plugin where its sources are at hand.

use crate::compiler::{Programs, finish, run};
use crate::library::{ENGINE, source};
use perigee_tests::program::Program;
use std::path::PathBuf;

/// Names a folder with the sources of NIXL, which are not part of this repository.
const NIXL_VARIABLE: &str = "PERIGEE_NIXL_SOURCES";
/// What NIXL's plugin includes, beside the stand-ins of this test.
const INCLUDES: [&str; 6] = [
    "src/api/cpp",
    "src/core",
    "src/core/telemetry",
    "src/infra",
    "src/plugins/mooncake",
    "src/utils",
];
const SOURCES: [&str; 4] = [
    "src/plugins/mooncake/mooncake_backend.cpp",
    "src/plugins/mooncake/mooncake_plugin.cpp",
    "src/infra/nixl_descriptors.cpp",
    "src/utils/serdes/serdes.cpp",
];

#[test]
fn the_calls_of_agents_move_bytes_and_messages() {
    Programs::each_way(ENGINE, |programs| {
        run(&programs.build_cpp("agent"), &[]);
    });
}

#[test]
fn nixls_plugin_is_built_with_our_header_and_moves_bytes() {
    let Some(nixl) = std::env::var_os(NIXL_VARIABLE).map(PathBuf::from) else {
        println!("NIXL's plugin is not played: {NIXL_VARIABLE} names no folder with its sources");
        return;
    };
    let own = source("tests/c_libraries/nixl");
    let mut includes = vec![own.clone()];
    includes.extend(INCLUDES.iter().map(|folder| nixl.join(folder)));
    let others: Vec<PathBuf> = SOURCES.iter().map(|file| nixl.join(file)).collect();
    Programs::each_way(ENGINE, |programs| {
        let program = programs.build_with(&own.join("player.cpp"), &includes, &others);
        let mut running = Program::start_file_with(
            &program.display().to_string(),
            &[],
            &[("NIXL_MOONCAKE_IP_ADDR", "127.0.0.1")],
        );
        finish(&mut running);
    });
}
