//! What shards run on. Invariant: the kernel is asked as a shard would ask it, in this very
//! container.

use super::finding::{CheckOutcome, Finding};
use super::host::HostFacts;
use perigee_shard::UringUnavailable;

/// What a container's seccomp profile has to say for io_uring.
const SECCOMP_LINE: &str = "add to \"syscalls\" of the container's seccomp profile: {\"names\": [\"io_uring_setup\", \
    \"io_uring_enter\", \"io_uring_register\"], \"action\": \"SCMP_ACT_ALLOW\"}";

/// Without io_uring everything works on epoll, slower over TCP.
pub(super) fn io_uring(host: &HostFacts) -> CheckOutcome {
    if let Some(reason) = &host.no_reactor {
        let message = format!("no store and no engine starts here: {reason}");
        let fix = "unset PERIGEE_REACTOR, which takes what there is";
        return CheckOutcome::of([Finding::failure("PERIGEE_REACTOR", message, fix)]);
    }
    let refusal = match &host.io_uring {
        None => return CheckOutcome::Skipped("another host's files are looked at"),
        Some(Ok(())) => return CheckOutcome::fine(),
        Some(Err(refusal)) => refusal,
    };
    let fix = match refusal {
        UringUnavailable::Seccomp { .. } => SECCOMP_LINE,
        UringUnavailable::Disabled(_) => "sysctl -w kernel.io_uring_disabled=0",
        UringUnavailable::Memlock { .. } => {
            "ulimit -l unlimited; LimitMEMLOCK=infinity in the systemd unit"
        }
        _ => "run Linux 6.1 or newer",
    };
    let message = format!("shards run on epoll, slower over TCP: {refusal}");
    CheckOutcome::of([Finding::warning("io_uring", message, fix)])
}
