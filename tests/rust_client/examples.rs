//! The Rust examples of the book, each a process of its own.

use crate::LENT;
use perigee_tests::cluster::{Master, Node};
use perigee_tests::deadline::wait_until;
use perigee_tests::limits::CALL_DEADLINE;
use perigee_tests::program::Program;
use std::time::Duration;

const PROGRAM_DEADLINE: Duration = Duration::from_secs(120);

#[track_caller]
fn finish(program: &mut Program, word: &str) {
    let status = program.wait(PROGRAM_DEADLINE);
    let log = program.log();
    assert!(status.is_some_and(|status| status.success()), "the example failed:\n{log}");
    assert!(log.contains(word), "{log}");
}

#[test]
fn objects_are_put_and_read() {
    let master = Master::start(&[]);
    let _node = Node::start(&master, LENT);
    for (program, word) in [
        (env!("CARGO_BIN_EXE_example-put-get"), "compared 17 objects"),
        (env!("CARGO_BIN_EXE_example-async-get"), "read 32 objects and removed 32"),
    ] {
        finish(&mut Program::start_file(program, &[master.address()]), word);
    }
}

#[test]
fn one_process_writes_into_the_memory_of_another() {
    let program = env!("CARGO_BIN_EXE_example-engine-write");
    let mut target = Program::start_file(program, &["target"]);
    let mut line = None;
    wait_until("the target has said where it is", CALL_DEADLINE, || {
        let log = target.log();
        let whole = log.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        line = whole.filter_map(|line| line.strip_prefix("target ")).next().map(str::to_owned);
        line.is_some()
    });
    let line = line.expect("it was waited for");
    let mut words = vec!["write"];
    words.extend(line.split_whitespace());
    finish(&mut Program::start_file(program, &words), "wrote 1048576 bytes");
    finish(&mut target, "then the message \"done\"");
}
