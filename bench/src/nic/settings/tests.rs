//! Settings that can be run and settings that cannot.

use perigee_flags::{ProcessEnvironment, ProgramStart};

use super::*;

fn load(words: &[&str]) -> Result<NicSettings, BenchError> {
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    match PROGRAM.load(&words, &ProcessEnvironment::of(&[]))? {
        ProgramStart::Run(settings) => NicSettings::of(&settings),
        ProgramStart::Print(text) => panic!("{text}"),
    }
}

#[test]
fn what_a_target_does_not_follow_is_known() {
    let named = |words: &[&str]| {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        match PROGRAM.load(&words, &ProcessEnvironment::of(&[("PERIGEE_BENCH_NIC_DEPTH", "2")])) {
            Ok(ProgramStart::Run(settings)) => without_effect(&settings),
            other => panic!("{other:?}"),
        }
    };
    let words = ["--role=target", "--size=4k", "--buffer=1MiB", "--format=json"];
    assert_eq!(named(&words), ["size", "format"]);
    assert!(named(&["--size=4k"]).is_empty());
}

#[test]
fn a_target_with_a_smaller_buffer_is_refused_and_a_larger_one_is_not() {
    let settings = load(&["--buffer=8MiB"]).unwrap();
    assert!(settings.check_target(8 << 20).is_ok() && settings.check_target(9 << 20).is_ok());
    let error = settings.check_target(4 << 20).unwrap_err();
    assert_eq!(error.exit_code(), 2);
    assert!(error.to_string().contains("--buffer 4MiB here"), "{error}");
}

#[test]
fn no_settings_are_a_loopback_run_of_both_directions() {
    let settings = load(&[]).unwrap();
    assert_eq!(settings.role, Role::Loopback);
    assert_eq!(settings.load.operations, ["write", "read"]);
    assert_eq!(settings.load.sizes, [1 << 20]);
}

#[test]
fn all_sizes_go_from_4_kib_to_64_mib() {
    let sizes = load(&["--all"]).unwrap().load.sizes;
    assert_eq!((sizes.len(), sizes[0], sizes[14]), (15, 4096, 64 << 20));
}

#[test]
fn settings_that_cannot_be_run_say_what_to_do() {
    for (words, part) in [
        (&["--role=initiator"][..], "--peer"),
        (&["--peer=a:1"], "--role initiator"),
        (&["--name=a"], "--role target"),
        (&["--role=target", "--peer=a:1"], "--role initiator"),
        (&["--size=0"], "size"),
        (&["--all", "--size=4k"], "not both"),
        (&["--size=64MiB", "--threads=4"], "--buffer 1GiB"),
        (&["--transport=pigeon"], "auto, tcp, rdma, shm"),
        (&["--depth=0"], "depth"),
        (&["--rate=5", "--depth=2"], "--threads"),
        (&["--sise=4k"], "`size`"),
    ] {
        let error = load(words).unwrap_err();
        assert!(error.to_string().contains(part), "{words:?}: {error}");
        assert_eq!(error.exit_code(), 2, "{words:?}");
    }
}

#[test]
fn a_target_needs_room_for_nothing_in_particular() {
    assert!(load(&["--role=target", "--buffer=4k"]).is_ok());
}

#[test]
fn an_open_loop_has_one_operation_in_flight_per_thread() {
    let load = load(&["--rate=200", "--threads=2"]).unwrap().load;
    assert_eq!((load.depth, load.span.every), (1, Duration::from_millis(5)));
}
