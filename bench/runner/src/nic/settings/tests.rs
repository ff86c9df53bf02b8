//! Settings that can be run and settings that cannot.

use perigee_flags::{Environment, Outcome};

use super::*;

fn load(words: &[&str]) -> Result<NicSettings, BenchError> {
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    match NIC.load(&words, &Environment::of(&[]))? {
        Outcome::Run(settings) => NicSettings::of(&settings),
        Outcome::Print(text) => panic!("{text}"),
    }
}

#[test]
fn the_table_is_sound_and_the_help_is_short() {
    assert_eq!(NIC.check(), Vec::<String>::new());
    let help = ["--help".to_owned()];
    let Ok(Outcome::Print(text)) = NIC.load(&help, &Environment::of(&[])) else {
        panic!("no help");
    };
    let text = crate::help::with_examples(&text, EXAMPLES);
    assert!(text.lines().count() <= 60, "{} lines", text.lines().count());
    let examples = text.find("Examples:").unwrap();
    assert!(examples < text.find("Ends:").unwrap(), "{text}");
}

#[test]
fn what_a_target_does_not_follow_is_known() {
    let named = |words: &[&str]| {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        match NIC.load(
            &words,
            &Environment::of(&[("PERIGEE_BENCH_NIC_DEPTH", "2")]),
        ) {
            Ok(Outcome::Run(settings)) => without_effect(&settings),
            other => panic!("{other:?}"),
        }
    };
    let words = [
        "--role=target",
        "--size=4k",
        "--buffer=1MiB",
        "--format=json",
    ];
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
    assert_eq!(settings.operations, ["write", "read"]);
    assert_eq!(settings.sizes, [1 << 20]);
}

#[test]
fn all_sizes_go_from_4_kib_to_64_mib() {
    let sizes = load(&["--all"]).unwrap().sizes;
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
