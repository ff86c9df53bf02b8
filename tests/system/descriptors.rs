//! Programs whose limit of open files is too small say so and end, at once.

use std::time::Duration;

use perigee_tests::cluster::Master;
use perigee_tests::deadline::comes_true;
use perigee_tests::limits::EXIT_DEADLINE;
use perigee_tests::program::{Program, path};

/// Too few for an executor, whatever the program has open and whichever reactor it runs on.
const TOO_FEW: [u32; 3] = [8, 10, 12];

/// Around the least that suffices, which depends on the reactor and on what the parent left open.
const AROUND_ENOUGH: [u32; 5] = [16, 20, 24, 28, 32];

/// Starts a program with so many descriptors, and says whether it became ready; if it did not, it
/// ended with the reason.
#[track_caller]
fn is_ready_or_ends_with_a_reason(limit: u32, arguments: &[&str]) -> bool {
    let perigee = path().display().to_string();
    let script = format!("ulimit -n {limit} && exec \"$0\" \"$@\"");
    let mut all = vec!["-c", &script, &perigee];
    all.extend(arguments);
    let mut program = Program::start_file("/bin/sh", &all);
    let deadline = EXIT_DEADLINE + Duration::from_secs(1);
    let decided =
        comes_true(deadline, || program.log().contains(" Ready ") || !program.is_running());
    assert!(decided, "{limit}: {}", program.log());
    if program.is_running() {
        return true;
    }
    let code = program.wait(deadline).and_then(|status| status.code());
    let log = program.log();
    assert!(code.is_some_and(|code| code != 0 && code != 101), "{limit}: {code:?}\n{log}");
    assert!(log.contains("The limit of open files is"), "{limit}: {log}");
    assert!(!log.contains("panicked"), "{limit}: {log}");
    false
}

/// Plays all limits: those that are too few for certain are refused.
#[track_caller]
fn plays_all_limits(arguments: &[&str]) {
    for limit in TOO_FEW {
        assert!(!is_ready_or_ends_with_a_reason(limit, arguments), "{limit}");
    }
    for limit in AROUND_ENOUGH {
        is_ready_or_ends_with_a_reason(limit, arguments);
    }
}

#[test]
fn a_master_with_too_few_descriptors_says_so() {
    plays_all_limits(&["master", "--rpc_port=0", "--metrics_port=0"]);
}

#[test]
fn a_node_that_cannot_become_ready_for_want_of_descriptors_says_so() {
    let master = Master::start(&[]);
    let address = format!("--master_server_address={}", master.address());
    plays_all_limits(&["node", "--host=127.0.0.1", "--global_segment_size=16mb", &address]);
}
