//! How a bench run ends whose target stops answering, or that a signal ends. Invariant: it ends
//! long before the time that one operation may take, with the exit code of the help text.

use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::bench::{Target, refused, text};

/// Longer than any of these tests may take.
const FOREVER: &str = "--timeout=1h";
/// Longest a run may take to end on a busy machine.
const DEADLINE: Duration = Duration::from_secs(100);
const PAUSE: Duration = Duration::from_millis(20);

fn signal(child: &Child, signal: Signal) {
    kill(Pid::from_raw(child.id().cast_signed()), signal).unwrap();
}

/// A target with a buffer of 4 MiB, and its name.
fn target() -> (Target, String) {
    let words = ["bench", "nic", "--role=target", "--name=127.0.0.1", "--buffer=4MiB"];
    let mut target = Target::start("perigee", &words);
    let name = target.ready("Target ready: ");
    (target, name)
}

/// An initiator; its standard error is kept.
fn initiator(peer: &str, flags: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_perigee"))
        .args(["bench", "nic", "--role=initiator", "--peer", peer, "--buffer=4MiB"])
        .args(flags)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Waits until the run has a thread of this name: `perigee-load` moves bytes, `perigee-contact`
/// asks for the target's buffer.
#[track_caller]
fn wait_for_thread(child: &Child, wanted: &str) {
    let tasks = format!("/proc/{}/task", child.id());
    let is_there = || {
        let entries = std::fs::read_dir(&tasks).unwrap();
        entries.flatten().any(|entry| {
            let name = std::fs::read_to_string(entry.path().join("comm"));
            name.is_ok_and(|name| name.trim() == wanted)
        })
    };
    let end = Instant::now() + DEADLINE;
    while !is_there() {
        assert!(Instant::now() < end, "no thread {wanted}");
        std::thread::sleep(PAUSE);
    }
}

/// The exit status and what was said, or a failed test.
#[track_caller]
fn ended(mut child: Child) -> (ExitStatus, String) {
    let end = Instant::now() + DEADLINE;
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > end {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("the run does not end");
        }
        std::thread::sleep(PAUSE);
    }
    let output = child.wait_with_output().unwrap();
    (output.status, text(&output.stderr))
}

#[test]
fn a_frozen_target_is_reported_as_a_missing_answer() {
    for depth in ["--depth=1", "--depth=4"] {
        let (target, name) = target();
        let run = initiator(&name, &[depth, "--size=64k", "--duration=1h", "--timeout=1s"]);
        wait_for_thread(&run, "perigee-load");
        signal(&target.child, Signal::SIGSTOP);
        let (status, said) = ended(run);
        assert_eq!(status.code(), Some(75), "{said}");
        assert!(said.contains(&name) && said.contains("did not finish within 1s;"), "{said}");
    }
}

#[test]
fn a_target_that_is_frozen_from_the_beginning_is_waited_for_as_long_as_set() {
    let (target, name) = target();
    signal(&target.child, Signal::SIGSTOP);
    let (status, said) = ended(initiator(&name, &["--timeout=0.5s"]));
    assert_eq!(status.code(), Some(75), "{said}");
    assert!(said.contains("within 500ms"), "{said}");
}

#[test]
fn a_signal_ends_the_wait_for_a_frozen_target() {
    for flags in [
        &["--depth=1"][..],
        &["--depth=4"],
        &["--depth=1", "--operation=read"],
        &["--operation=mixed", "--verify"],
    ] {
        let (target, name) = target();
        let mut words = vec![FOREVER, "--size=512k", "--duration=1h"];
        words.extend(flags);
        let run = initiator(&name, &words);
        wait_for_thread(&run, "perigee-load");
        signal(&target.child, Signal::SIGSTOP);
        signal(&run, Signal::SIGINT);
        let (status, said) = ended(run);
        assert_eq!(status.code(), Some(130), "{flags:?}: {said}");
    }
}

#[test]
fn a_signal_ends_the_wait_for_the_first_answer() {
    let (target, name) = target();
    signal(&target.child, Signal::SIGSTOP);
    let run = initiator(&name, &[FOREVER]);
    wait_for_thread(&run, "perigee-contact");
    signal(&run, Signal::SIGTERM);
    let (status, said) = ended(run);
    assert_eq!(status.code(), Some(130), "{said}");
}

#[test]
fn a_buffer_larger_than_the_targets_is_refused_before_the_run() {
    let (_target, name) = target();
    let words = ["bench", "nic", "--role=initiator", "--peer", &name, "--buffer=8MiB"];
    refused(&words, 2, "pass --buffer 4MiB here, or start the target with --buffer 8MiB");
}

#[test]
fn a_trace_of_blocks_that_the_cluster_cannot_hold_fails_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.jsonl");
    std::fs::write(&path, "{\"hash_ids\": [1, 2]}\n").unwrap();
    let trace = path.to_str().unwrap();
    let own = ["bench", "trace", "--trace", trace, "--pool=8MiB", "--block=16MiB"];
    refused(&own, 2, "--pool 16MiB");
    let mut cluster = Target::start("perigee", &["bench", "store", "--serve", "--pool=1MiB"]);
    let master = cluster.ready("Cluster ready: ");
    let foreign = ["bench", "trace", "--trace", trace, "--block=16MiB", "--master", &master];
    refused(&foreign, 75, "None of 2 blocks");
}
