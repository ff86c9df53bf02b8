//! The seccomp filter of default container profiles, as far as it concerns shards.
//! Invariant: it holds for the calling thread and the programs it starts, for good.

use nix::libc;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, apply_filter};

/// Has the kernel refuse io_uring with EPERM, as the default profiles of Docker and containerd do.
pub fn refuse_io_uring() {
    let calls = [libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_io_uring_register];
    let filter = SeccompFilter::new(
        calls.map(|call| (call, Vec::new())).into(),
        SeccompAction::Allow,
        SeccompAction::Errno(libc::EPERM.unsigned_abs()),
        std::env::consts::ARCH.try_into().expect("a known processor"),
    );
    let program: BpfProgram =
        filter.and_then(TryInto::try_into).expect("a list of calls is a valid filter");
    apply_filter(&program).expect("a thread may give up rights");
}
