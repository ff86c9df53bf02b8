//! What shards run on. Invariant: the kernel is asked as a shard would ask it, in this very container.

use super::finding::{Finding, Outcome};
use super::host::Host;
use perigee_shard::Refusal;

/// What a container's seccomp profile has to say for io_uring.
const SECCOMP_LINE: &str = "add to \"syscalls\" of the container's seccomp profile: {\"names\": [\"io_uring_setup\", \
    \"io_uring_enter\", \"io_uring_register\"], \"action\": \"SCMP_ACT_ALLOW\"}";

/// Without io_uring everything works on epoll, slower over TCP.
pub(super) fn io_uring(host: &Host) -> Outcome {
    let refusal = match &host.io_uring {
        None => return Outcome::Skipped("another host's files are looked at"),
        Some(Ok(())) => return Outcome::fine(),
        Some(Err(refusal)) => refusal,
    };
    let fix = match refusal {
        Refusal::Seccomp { .. } => SECCOMP_LINE,
        Refusal::Disabled(_) => "sysctl -w kernel.io_uring_disabled=0",
        Refusal::Memlock { .. } => "ulimit -l unlimited; LimitMEMLOCK=infinity in the systemd unit",
        _ => "run Linux 6.1 or newer",
    };
    let message = format!("shards run on epoll, slower over TCP: {refusal}");
    Outcome::of([Finding::warning("io_uring", message, fix)])
}
