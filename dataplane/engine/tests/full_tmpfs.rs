//! A `/dev/shm` without a free page: engines move bytes all the same, whether it was full at their
//! start or fills later.
#![allow(clippy::unwrap_used, reason = "tests")]

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::geteuid;
use perigee_engine::{Direction, EngineOptions, SubmitOptions, TransferEngine, TransferRequest};
use std::fs::File;
use std::io::Write;
use std::process::{Command, Output};

const SHM: &str = "/dev/shm";
/// In the environment of the process that this test starts: when the tmpfs is filled.
const FILLED: &str = "PERIGEE_TEST_FILLED";
const BYTES: usize = 4 << 20;

#[test]
fn engines_survive_a_full_dev_shm() {
    if let Ok(filled) = std::env::var(FILLED) {
        return move_bytes(&filled);
    }
    if !geteuid().is_root() {
        eprintln!("SKIP: only root mounts a tmpfs");
        return;
    }
    for filled in ["before", "after"] {
        // A process has one page: each case takes a process of its own.
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "engines_survive_a_full_dev_shm", "--nocapture"]);
        let Output { status, stderr, .. } = child.env(FILLED, filled).output().unwrap();
        let stderr = String::from_utf8_lossy(&stderr);
        assert!(status.success(), "filled {filled}: {status}\n{stderr}");
    }
}

fn move_bytes(filled: &str) {
    unshare(CloneFlags::CLONE_NEWNS).unwrap();
    let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    mount(None::<&str>, "/", None::<&str>, private, None::<&str>).unwrap();
    let size = Some("size=4m");
    mount(Some("tmpfs"), SHM, Some("tmpfs"), MsFlags::empty(), size).unwrap();
    if filled == "before" {
        fill();
    }
    let (here, there) = (engine(), engine());
    if filled == "after" {
        transfer(&here, &there, 1);
        fill();
    }
    transfer(&here, &there, 2);
    // Threads of their own take slots of their own.
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| transfer(&here, &there, 3));
        }
    });
    let has_page = perigee_activity::page().unwrap().path().is_some();
    assert_eq!(has_page, filled == "after");
    here.close();
    there.close();
}

fn engine() -> TransferEngine {
    let tcp_only = |name: &str| (name == "PERIGEE_SHARED_MEMORY").then(|| "0".to_owned());
    let options =
        EngineOptions::from_variables("127.0.0.1", "P2PHANDSHAKE", "tcp", "", tcp_only).unwrap();
    TransferEngine::start(options).unwrap()
}

fn transfer(here: &TransferEngine, there: &TransferEngine, byte: u8) {
    let (from, mut into) = (vec![byte; BYTES], vec![0u8; BYTES]);
    let remote = into.as_mut_ptr() as u64;
    let write = TransferRequest {
        direction: Direction::Write,
        local: from.as_ptr() as u64,
        remote,
        bytes: BYTES as u64,
    };
    // SAFETY: the memory lives until it is unregistered below.
    unsafe {
        there.register(remote, BYTES as u64, "*").unwrap();
        let done = here.transfer(there.local_name(), &[write], &SubmitOptions::default());
        done.unwrap();
    }
    there.unregister(remote).unwrap();
    assert!(into.iter().all(|found| *found == byte));
}

fn fill() {
    let mut file = File::create(format!("{SHM}/fill")).unwrap();
    while file.write_all(&[0; 4096]).is_ok() {}
}
