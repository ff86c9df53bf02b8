//! C programs with engines.

use crate::compiler::{Programs, finish, line_after, run, start};
use crate::library::ENGINE;
use nix::sys::signal::Signal;
use perigee_tests::limits::EXIT_DEADLINE;

#[test]
fn two_c_programs_move_bytes_and_messages_between_their_engines() {
    Programs::each_way(ENGINE, |programs| {
        let mut owner = start(&programs.build("engine_owner"), &[]);
        let line = line_after(&owner, "owner ");
        let words: Vec<&str> = line.split(' ').collect();
        run(&programs.build("engine_peer"), &words);
        finish(&mut owner);
    });
}

#[test]
fn wrong_calls_of_an_engine_answer_errors_and_say_why() {
    Programs::each_way(ENGINE, |programs| {
        let log = run(&programs.build("engine_misuse"), &[]);
        for words in [
            "discoverTopology() failed: engine is NULL",
            "openSegment() failed: engine is not open",
            "createTransferEngine() failed: local_server_name is NULL",
            "submitTransfer() failed: opcode has no such value",
        ] {
            assert!(log.contains(words), "no line says {words:?}:\n{log}");
        }
    });
}

#[test]
fn an_engine_ends_with_the_signal_that_ends_its_program() {
    Programs::each_way(ENGINE, |programs| {
        let program = programs.build("engine_signal");
        for (signal, code) in [(Signal::SIGTERM, 143), (Signal::SIGINT, 130)] {
            let mut running = start(&program, &[]);
            line_after(&running, "waiting");
            running.signal(signal);
            let status = running.wait(EXIT_DEADLINE);
            assert_eq!(status.and_then(|it| it.code()), Some(code), "{}", running.log());
        }
    });
}
