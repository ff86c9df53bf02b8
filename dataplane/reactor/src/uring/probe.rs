//! Whether this process may use io_uring as a shard does, found out by raw calls before an executor
//! is started on it: glommio panics, or ends the process, where one of them is refused.

use super::setup::builder;
use crate::limits::{MEMLOCK_BYTES_MIN, RING_ENTRIES};
use io_uring::{IoUring, Probe, opcode};
use nix::sys::resource::{Resource, getrlimit};
use std::io;

/// What stands between this process and io_uring.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UringUnavailable {
    /// A seccomp filter answers for the kernel.
    #[error(
        "a seccomp filter refuses {call} ({error}), as default container profiles do; allow io_uring_setup, \
         io_uring_enter and io_uring_register in the profile"
    )]
    Seccomp {
        /// The system call.
        call: &'static str,
        /// What it answered.
        error: String,
    },
    /// The administrator has turned it off.
    #[error(
        "kernel.io_uring_disabled is {0}; `sysctl kernel.io_uring_disabled=0` on the host allows it"
    )]
    Disabled(u8),
    /// The kernel has none, or none with the flags that shards need.
    #[error("Linux {release} refuses {call} ({error}); shards need io_uring of Linux 6.1 or newer")]
    Kernel {
        /// The system call.
        call: &'static str,
        /// Release of the running kernel.
        release: String,
        /// What it answered.
        error: String,
    },
    /// Executors on io_uring need a higher limit.
    #[error(
        "the limit of locked memory is {limit} bytes and shards on io_uring need {MEMLOCK_BYTES_MIN}: raise it with \
         `ulimit -l unlimited`, LimitMEMLOCK=infinity in the systemd unit, or a container's memlock ulimit"
    )]
    Memlock {
        /// The present soft limit in bytes.
        limit: u64,
    },
}

/// Asks for everything that a shard on io_uring needs, and gives it back.
///
/// # Errors
/// What is refused, and how to change it.
pub fn probe() -> Result<(), UringUnavailable> {
    check_memlock()?;
    let ring = builder().build(RING_ENTRIES);
    let ring = ring.map_err(|error| refused("io_uring_setup", &error))?;
    let entered = ring.submitter().submit();
    entered.map_err(|error| refused("io_uring_enter", &error))?;
    let mut known = Probe::new();
    let registered = ring.submitter().register_probe(&mut known);
    registered.map_err(|error| refused("io_uring_register", &error))?;
    if let Some(number) = NEEDED.into_iter().find(|number| !known.is_supported(*number)) {
        let error = io::Error::other(format!("no operation {number}"));
        return Err(refused("io_uring_register", &error));
    }
    // The executor has a ring of its own for disks, which it never uses here but asks for.
    let polled = IoUring::builder().setup_iopoll().build(RING_ENTRIES);
    let polled: Result<IoUring, _> = polled;
    polled.map_err(|error| refused("io_uring_setup", &error))?;
    Ok(())
}

/// Operations of our ring, and those without which glommio ends the process.
const NEEDED: [u8; 24] = [
    opcode::Nop::CODE,
    opcode::Readv::CODE,
    opcode::Writev::CODE,
    opcode::Fsync::CODE,
    opcode::ReadFixed::CODE,
    opcode::WriteFixed::CODE,
    opcode::PollAdd::CODE,
    opcode::PollRemove::CODE,
    opcode::SendMsg::CODE,
    opcode::RecvMsg::CODE,
    opcode::Timeout::CODE,
    opcode::TimeoutRemove::CODE,
    opcode::Accept::CODE,
    opcode::AsyncCancel::CODE,
    opcode::LinkTimeout::CODE,
    opcode::Connect::CODE,
    opcode::Fallocate::CODE,
    opcode::OpenAt::CODE,
    opcode::Close::CODE,
    opcode::Statx::CODE,
    opcode::Read::CODE,
    opcode::Write::CODE,
    opcode::Send::CODE,
    opcode::Recv::CODE,
];

fn check_memlock() -> Result<(), UringUnavailable> {
    match getrlimit(Resource::RLIMIT_MEMLOCK) {
        Ok((limit, _)) if limit < MEMLOCK_BYTES_MIN => Err(UringUnavailable::Memlock { limit }),
        _ => Ok(()),
    }
}

fn refused(call: &'static str, error: &io::Error) -> UringUnavailable {
    let switch = std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled");
    let disabled = switch.ok().and_then(|text| text.trim().parse().ok());
    let release =
        nix::sys::utsname::uname().map(|name| name.release().to_string_lossy().into_owned());
    explain(call, error, disabled, has_filter(), &release.unwrap_or_default())
}

/// Whether a seccomp filter sits on this thread.
fn has_filter() -> bool {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let mut lines = status.lines();
    lines.any(|line| line.strip_prefix("Seccomp:").is_some_and(|mode| mode.trim() == "2"))
}

fn explain(
    call: &'static str,
    error: &io::Error,
    disabled: Option<u8>,
    filtered: bool,
    release: &str,
) -> UringUnavailable {
    let said = error.to_string();
    let number = error.raw_os_error();
    match (number, disabled) {
        (Some(libc::EPERM), Some(level @ 1..)) => UringUnavailable::Disabled(level),
        (Some(libc::EPERM | libc::EACCES | libc::ENOSYS), _) if filtered => {
            UringUnavailable::Seccomp { call, error: said }
        }
        _ => UringUnavailable::Kernel { call, release: release.to_owned(), error: said },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_its_cause_and_what_allows_io_uring() {
        let cases = [
            (libc::EPERM, Some(2), true, "io_uring_disabled is 2"),
            (libc::EPERM, Some(0), true, "seccomp"),
            (libc::ENOSYS, None, true, "seccomp"),
            (libc::EINVAL, None, true, "Linux 5.15.0 refuses io_uring_setup"),
            (libc::ENOSYS, None, false, "Linux 6.1 or newer"),
        ];
        for (number, disabled, filtered, words) in cases {
            let error = io::Error::from_raw_os_error(number);
            let refusal = explain("io_uring_setup", &error, disabled, filtered, "5.15.0");
            assert!(refusal.to_string().contains(words), "{refusal}");
        }
    }
}
