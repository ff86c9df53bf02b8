//! Programs whose limit of open files is too small say so and end, at once.

use std::time::Duration;

use perigee_tests::cluster::Master;
use perigee_tests::limits::EXIT_DEADLINE;
use perigee_tests::program::{Program, path};

/// Too few for an executor, whatever the program has open.
const LIMITS: [u32; 5] = [8, 10, 12, 16, 20];

/// Starts a program with so many descriptors, and waits for its end.
#[track_caller]
fn ends_with_a_reason(limit: u32, arguments: &[&str]) {
    let perigee = path().display().to_string();
    let script = format!("ulimit -n {limit} && exec \"$0\" \"$@\"");
    let mut all = vec!["-c", &script, &perigee];
    all.extend(arguments);
    let mut program = Program::start_file("/bin/sh", &all);
    let ended = program.wait(EXIT_DEADLINE + Duration::from_secs(1));
    let log = program.log();
    let code = ended.and_then(|status| status.code());
    assert!(
        code.is_some_and(|code| code != 0 && code != 101),
        "{limit}: {code:?}\n{log}"
    );
    assert!(log.contains("The limit of open files is"), "{limit}: {log}");
    assert!(!log.contains("panicked"), "{limit}: {log}");
}

#[test]
fn a_master_with_too_few_descriptors_says_so() {
    for limit in LIMITS {
        ends_with_a_reason(limit, &["master", "--rpc_port=0", "--metrics_port=0"]);
    }
}

#[test]
fn a_node_that_cannot_become_ready_for_want_of_descriptors_says_so() {
    let master = Master::start(&[]);
    let address = format!("--master_server_address={}", master.address());
    for limit in LIMITS.into_iter().chain([28]) {
        let flags = [
            "node",
            "--host=127.0.0.1",
            "--global_segment_size=16mb",
            &address,
        ];
        ends_with_a_reason(limit, &flags);
    }
}
