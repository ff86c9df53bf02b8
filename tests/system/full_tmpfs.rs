//! A full `/dev/shm`, which a container shares with PyTorch and NCCL. Invariant: it costs the
//! counters that an agent sees, never a process.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::geteuid;
use perigee_tests::cluster::{Master, Node};
use perigee_tests::deadline::wait_until;
use perigee_tests::limits::MEMBERSHIP_DEADLINE;
use perigee_tests::program::Program;

const DRIVER: &str = env!("CARGO_BIN_EXE_store-driver");
const SHM: &str = "/dev/shm";
const POOL_BYTES: u64 = 64 << 20;
const KEYS: &str = "8";
const OBJECT_BYTES: &str = "100000";
/// Rounds of a client, each with a batch, before it counts as alive.
const LINES: usize = 20;

/// Gives this thread, and the programs that it starts, a small `/dev/shm` of their own.
fn own_shm() -> bool {
    if !geteuid().is_root() {
        eprintln!("SKIP: only root mounts a tmpfs");
        return false;
    }
    unshare(CloneFlags::CLONE_NEWNS).expect("root gets a mount namespace");
    let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    mount(None::<&str>, "/", None::<&str>, private, None::<&str>).expect("mounts can be private");
    let size = Some("size=8m");
    mount(Some("tmpfs"), SHM, Some("tmpfs"), MsFlags::empty(), size).expect("a tmpfs is mounted");
    true
}

/// Takes every free page.
fn fill_shm() {
    let mut file = File::create(Path::new(SHM).join("fill")).expect("a file can be made");
    while file.write_all(&[0; 4096]).is_ok() {}
}

fn pages() -> usize {
    let pages = std::fs::read_dir(Path::new(SHM).join("perigee"));
    pages.map_or(0, |pages| pages.flatten().count())
}

fn client(mode: &str, master: &Master) -> Program {
    let address = master.address();
    Program::start_file(DRIVER, &[mode, &address, "0", KEYS, OBJECT_BYTES])
}

/// Both kinds of clients, over shared memory and over TCP, go on working.
fn clients_work(clients: &mut [Program]) {
    for client in clients {
        let before = client.log().lines().count();
        wait_until("a client goes on", MEMBERSHIP_DEADLINE, || {
            assert!(client.is_running(), "a client died: {}", client.log());
            client.log().lines().count() >= before + LINES
        });
    }
}

#[test]
fn programs_start_and_serve_while_dev_shm_is_full() {
    if !own_shm() {
        return;
    }
    fill_shm();
    let mut master = Master::start(&[]);
    let mut node = Node::start(&master, POOL_BYTES);
    let mut clients = [client("put", &master), client("put-batch", &master)];
    clients_work(&mut clients);
    assert_eq!(pages(), 0, "there was no room for a page");
    for program in [&mut node.program, &mut master.program] {
        assert!(program.is_running(), "log: {}", program.log());
    }
    let message = "Cannot create an activity page in /dev/shm/perigee: No space left on device";
    assert_eq!(node.program.log().matches(message).count(), 1);
    node.program.stop();
    master.program.stop();
}

#[test]
fn programs_go_on_when_dev_shm_fills_after_their_start() {
    if !own_shm() {
        return;
    }
    let mut master = Master::start(&[]);
    let mut node = Node::start(&master, POOL_BYTES);
    let mut clients = [client("put", &master), client("put-batch", &master)];
    clients_work(&mut clients);
    assert!(pages() >= 3, "node and clients have pages that others see");
    fill_shm();
    // Further connections and threads use parts of the pages that were not touched before.
    let mut later = [client("put", &master), client("put-batch", &master)];
    clients_work(&mut later);
    clients_work(&mut clients);
    for program in [&mut node.program, &mut master.program] {
        assert!(program.is_running(), "log: {}", program.log());
    }
    node.program.stop();
    master.program.stop();
}
