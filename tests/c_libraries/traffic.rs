//! The line of throughput and latency that Mooncake's variables ask for.

use crate::compiler::Programs;
use crate::library::{ENGINE, STORE};
use perigee_tests::cluster::{Master, Node};
use perigee_tests::deadline::wait_until;
use perigee_tests::limits::CALL_DEADLINE;
use perigee_tests::program::Program;
use std::path::Path;

/// Waits until a program with these variables has written a line with all these words.
#[track_caller]
fn says(program: &Path, arguments: &[&str], variables: &[(&str, &str)], words: &[&str]) {
    let file = program.display().to_string();
    let running = Program::start_file_with(&file, arguments, variables);
    wait_until("the line is in the log", CALL_DEADLINE, || {
        let log = running.log();
        log.lines().any(|line| words.iter().all(|word| line.contains(word)))
    });
}

#[test]
fn a_store_says_what_it_puts_and_gets() {
    let master = Master::start(&[]);
    let _node = Node::start(&master, 64 << 20);
    let variables = [("MC_STORE_CLIENT_METRIC_INTERVAL", "1")];
    Programs::plain(STORE, |programs| {
        let words = ["INFO", "Store metrics of ", "MB/s read by", "MB/s written by", "99 % within"];
        says(&programs.build("store_traffic"), &[&master.address()], &variables, &words);
    });
}

#[test]
fn an_engine_says_what_it_writes() {
    let variables = [("MC_TE_METRIC", "true"), ("MC_TE_METRIC_INTERVAL_SECONDS", "1")];
    Programs::plain(ENGINE, |programs| {
        let words = ["INFO", "Transfer engine metrics of ", "MB/s written by", "50 % within"];
        says(&programs.build("engine_traffic"), &[], &variables, &words);
    });
}
