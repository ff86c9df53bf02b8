//! Upserts of one key that overlap, with a writer that is killed in the middle of its own.
//! Invariant: after an upsert that answered 0, its writer reads its own bytes or those of an upsert
//! that began later.

use perigee_schemas::Status;
use perigee_tests::cluster::{Master, Node};
use perigee_tests::deadline::wait_until;
use perigee_tests::limits::MEMBERSHIP_DEADLINE;
use perigee_tests::objects::Objects;
use perigee_tests::program::Program;

const DRIVER: &str = env!("CARGO_BIN_EXE_store-driver");
const POOL_BYTES: u64 = 512 << 20;
const KEY: u64 = 0;
/// Large, so that each upsert of the other writer begins inside one of ours.
const OBJECT_BYTES: usize = 4 << 20;
/// Versions of ours; those of the other writer count from 0.
const OURS: u64 = 1 << 40;
/// Upserts of the other writer that are overlapped before it is killed.
const ROUNDS: usize = 20;
const KILLS: u64 = 3;

/// Begun upserts of the other writer, as its lines tell.
fn begun(driver: &Program) -> usize {
    let log = driver.log();
    log.lines().filter(|line| line.starts_with("begin")).count()
}

/// Upserts our next version and reads the key: never one of our earlier versions.
#[track_caller]
fn upsert_and_read(objects: &Objects, version: u64) {
    let statuses = objects.upsert_objects(&[KEY], version, OBJECT_BYTES);
    assert_eq!(statuses, [Status::Ok]);
    let read = objects.get_object(KEY, OBJECT_BYTES).expect("the key is there");
    assert!(
        read == version || read < OURS,
        "version {} is read after {} was acknowledged",
        read - OURS,
        version - OURS
    );
}

#[test]
fn an_acknowledged_upsert_is_read_whatever_becomes_of_a_later_one() {
    let master =
        Master::start(&["--put_start_discard_timeout_sec=1", "--put_start_release_timeout_sec=2"]);
    let _node = Node::start(&master, POOL_BYTES);
    let objects = Objects::open_over_tcp(&master.address());
    let arguments = ["put-batch", &master.address(), "0", "1", &OBJECT_BYTES.to_string()];
    let mut version = OURS;
    for kill in 0..KILLS {
        let mut driver = Program::start_file(DRIVER, &arguments);
        wait_until("the other writer has overlapped", MEMBERSHIP_DEADLINE, || {
            version += 1;
            upsert_and_read(&objects, version);
            begun(&driver) >= ROUNDS
        });
        driver.kill();
        version += 1;
        upsert_and_read(&objects, version);
        assert_eq!(objects.get_object(KEY, OBJECT_BYTES), Ok(version), "kill {kill}");
    }
}
