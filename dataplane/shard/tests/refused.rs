//! Shards of a process that insists on io_uring where it is refused: the same clear error each
//! time, and no panic.
#![allow(clippy::unwrap_used, reason = "tests")]

use perigee_shard::{Shard, ShardOptions};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, apply_filter};

fn refuse_io_uring() {
    let filter = SeccompFilter::new(
        [(libc::SYS_io_uring_setup, Vec::new())].into(),
        SeccompAction::Allow,
        SeccompAction::Errno(libc::EPERM.unsigned_abs()),
        std::env::consts::ARCH.try_into().unwrap(),
    );
    let program: BpfProgram = filter.unwrap().try_into().unwrap();
    apply_filter(&program).unwrap();
}

#[test]
fn a_second_start_fails_like_the_first() {
    // SAFETY: the only test of this program; no other thread reads or writes its environment.
    unsafe { std::env::set_var("PERIGEE_REACTOR", "io_uring") };
    refuse_io_uring();
    let start = || Shard::start(ShardOptions::named("test-refused"), |_| async {});
    let errors = [start(), start()].map(|shard| shard.unwrap_err().to_string());
    assert_eq!(errors[0], errors[1]);
    assert!(errors[0].contains("PERIGEE_REACTOR is io_uring"), "{}", errors[0]);
    assert!(errors[0].contains("seccomp"), "{}", errors[0]);
}
