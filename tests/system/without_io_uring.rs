//! Programs where io_uring is refused, as in containers with the default seccomp profile.
//! Invariant: they run on epoll and say so; a program that insists on io_uring ends with one clear
//! error.

use perigee_tests::cluster::{MASTER, Master, Node};
use perigee_tests::deadline::wait_until;
use perigee_tests::http;
use perigee_tests::limits::{EXIT_DEADLINE, MEMBERSHIP_DEADLINE};
use perigee_tests::program::{Program, path};
use perigee_tests::seccomp::refuse_io_uring;

const DRIVER: &str = env!("CARGO_BIN_EXE_store-driver");
const POOL_BYTES: u64 = 64 << 20;
const KEYS: &str = "8";
const OBJECT_BYTES: &str = "1000000";
/// Lines of a client that show that it has done its work a few times.
const LINES: usize = 40;
/// A user who has nothing else here: locked memory is counted per user.
const LODGER: u32 = 65_117;
const REASON: &str = "a seccomp filter refuses io_uring_setup";

fn assert_on_epoll(program: &Program) {
    let log = program.log();
    assert!(log.contains("epoll") && log.contains(REASON), "{log}");
    assert!(!log.contains("panicked"), "{log}");
}

#[test]
fn objects_are_put_and_read_on_epoll() {
    refuse_io_uring();
    let mut master = Master::start(&[]);
    let mut node = Node::start(&master, POOL_BYTES);
    let address = master.address();
    let start = |mode: &str, first: &str| {
        let arguments = [mode, &address, first, KEYS, OBJECT_BYTES];
        Program::start_file(DRIVER, &arguments)
    };
    // Over shared memory, and over TCP.
    let mut clients = [start("put", "0"), start("put-batch", "100")];
    for client in &mut clients {
        wait_until("objects are stored", MEMBERSHIP_DEADLINE, || {
            assert!(client.is_running(), "a client died: {}", client.log());
            client.log().lines().count() >= LINES
        });
    }
    for (mode, first) in [("get", "0"), ("get-batch", "100")] {
        let mut reader = start(mode, first);
        wait_until("objects are read", MEMBERSHIP_DEADLINE, || {
            assert!(reader.is_running(), "a reader died: {}", reader.log());
            reader.log().matches("got ").count() >= LINES
        });
    }
    assert_on_epoll(&master.program);
    assert_on_epoll(&node.program);
    let metrics = http::get(master.http, "/metrics").body;
    assert!(metrics.contains("reactor=\"epoll\""), "{metrics}");
    node.program.stop();
    master.program.stop();
}

/// Rings count as locked memory, which is limited per user over all processes: what is left when a
/// process starts may be too little for its later shards.
#[test]
fn shards_for_which_no_memory_can_be_locked_run_on_epoll() {
    let launch = |command: &str, flags: &[String]| {
        let script = format!(
            "ulimit -l 512 && exec setpriv --reuid={LODGER} --regid={LODGER} --clear-groups \
             --bounding-set=-all --no-new-privs \"$0\" {command} \"$@\""
        );
        let mut words = vec!["-c".to_owned(), script, path().display().to_string()];
        words.extend_from_slice(flags);
        Program::start_file("/bin/bash", &words)
    };
    let master = Master::start(&[]);
    let nodes =
        [(); 2].map(|()| Node::launch(&master, POOL_BYTES, &[], |flags| launch("node", flags)));
    let arguments = ["put-batch", &master.address(), "0", KEYS, OBJECT_BYTES];
    let mut client = Program::start_file(DRIVER, &arguments);
    wait_until("objects are stored", MEMBERSHIP_DEADLINE, || {
        assert!(client.is_running(), "the client died: {}", client.log());
        client.log().lines().count() >= LINES
    });
    let logs = nodes.map(|node| node.program.log());
    for log in &logs {
        assert!(!log.contains("panicked") && !log.contains("glommio"), "{log}");
    }
    let have_fallen_back = logs.iter().any(|log| log.contains("epoll"));
    assert!(have_fallen_back || !counts_rings(), "{logs:?}");
}

/// Whether the kernel counts rings as locked memory.
fn counts_rings() -> bool {
    let name = nix::sys::utsname::uname().expect("the kernel has a name");
    let release = name.release().to_string_lossy().into_owned();
    let mut numbers = release.split('.').map(|part| part.parse::<u32>().unwrap_or_default());
    (numbers.next(), numbers.next()) >= (Some(6), Some(14))
}

#[test]
fn the_doctor_prints_what_allows_io_uring() {
    refuse_io_uring();
    let ended = Program::run("perigee", &["doctor", "--only=reactor"]);
    assert!(ended.output.contains(REASON), "{}", ended.output);
    assert!(ended.output.contains("SCMP_ACT_ALLOW"), "{}", ended.output);
}

#[test]
fn a_master_that_must_have_io_uring_says_why_it_cannot_start() {
    refuse_io_uring();
    let wish = [("PERIGEE_REACTOR", "io_uring")];
    let flags = ["--rpc_port=0", "--metrics_port=0", "--logtostderr=true"];
    let mut master = Program::start_with(MASTER, &flags, &wish);
    let status = master.wait(EXIT_DEADLINE).expect("it ends by itself");
    let log = master.log();
    assert!(!status.success(), "{log}");
    assert!(log.contains("PERIGEE_REACTOR is io_uring") && log.contains(REASON), "{log}");
    assert!(!log.contains("panicked"), "{log}");
}
