//! May this process pin the memory it registers with devices and rings?
//! Invariant: only asks; limits are never changed.

use nix::sys::resource::{Resource, getrlimit};

use crate::size::format_bytes;

/// `CAP_IPC_LOCK` in the capability masks.
const CAP_IPC_LOCK: u32 = 14;

/// Pinning that would fail.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum MemlockError {
    /// The limit is lower than what is needed and the process has no capability to pass it.
    #[error(
        "{} of memory must be locked but the limit is {}; raise it with `ulimit -l unlimited`, \
         LimitMEMLOCK=infinity in the systemd unit, `--ulimit memlock=-1` for containers, or grant CAP_IPC_LOCK",
        format_bytes(*needed_bytes), format_bytes(*limit_bytes)
    )]
    TooLow {
        /// What has to be locked.
        needed_bytes: u64,
        /// The soft RLIMIT_MEMLOCK.
        limit_bytes: u64,
    },
    /// The limit could not be read.
    #[error("Cannot read the limit of locked memory: {0}")]
    Unreadable(nix::errno::Errno),
}

/// Whether `needed_bytes` can be locked, and if not, what to do about it.
pub fn check_memlock(needed_bytes: u64) -> Result<(), MemlockError> {
    let (limit_bytes, _) = getrlimit(Resource::RLIMIT_MEMLOCK).map_err(MemlockError::Unreadable)?;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    judge(needed_bytes, limit_bytes, has_ipc_lock(&status))
}

fn judge(needed_bytes: u64, limit_bytes: u64, has_ipc_lock: bool) -> Result<(), MemlockError> {
    if has_ipc_lock || limit_bytes == libc::RLIM_INFINITY || needed_bytes <= limit_bytes {
        return Ok(());
    }
    Err(MemlockError::TooLow { needed_bytes, limit_bytes })
}

fn has_ipc_lock(status: &str) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> CAP_IPC_LOCK & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::{MemlockError, has_ipc_lock, judge};

    #[test]
    fn a_limit_below_the_need_is_an_error_that_names_the_remedy() {
        let error = judge(4 << 30, 8 << 20, false).unwrap_err();
        assert_eq!(error, MemlockError::TooLow { needed_bytes: 4 << 30, limit_bytes: 8 << 20 });
        let text = error.to_string();
        assert!(
            text.starts_with("4 GiB of memory must be locked but the limit is 8 MiB"),
            "{text}"
        );
        assert!(text.contains("LimitMEMLOCK=infinity"), "{text}");
    }

    #[test]
    fn capability_infinity_and_enough_all_pass() {
        assert_eq!(judge(4 << 30, 0, true), Ok(()));
        assert_eq!(judge(4 << 30, u64::MAX, false), Ok(()));
        assert_eq!(judge(4096, 4096, false), Ok(()));
    }

    #[test]
    fn the_capability_is_read_from_the_effective_mask() {
        assert!(has_ipc_lock("CapPrm:\t0\nCapEff:\t0000000000004000\n"));
        assert!(!has_ipc_lock("CapPrm:\t0000000000004000\nCapEff:\t0000000000003fff\n"));
        assert!(!has_ipc_lock("garbage"));
    }
}
