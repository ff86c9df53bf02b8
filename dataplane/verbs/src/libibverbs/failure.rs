//! What a failed call means, from its errno.
//! Invariant: each errno with a known remedy becomes the variant that names the remedy.

use nix::errno::Errno;

use perigee_memory::memlock::{MemlockError, check_memlock};

use crate::error::VerbsError;

/// The call that opens the character device.
pub(super) const OPEN: &str = "ibv_open_device";

/// Calls of libibverbs return a positive errno, or -1 and set it.
pub(super) fn returned(code: i32) -> Errno {
    if code > 0 { Errno::from_raw(code) } else { Errno::last() }
}

/// The meaning of a failure of any call.
pub(super) fn meaning(device: &str, call: &'static str, errno: Errno) -> VerbsError {
    let device = device.to_owned();
    match errno {
        Errno::ENODEV | Errno::EIO => VerbsError::DeviceLost { device, call, errno },
        Errno::ENOMEM | Errno::ENOSPC => VerbsError::OutOfMemory { device, call },
        Errno::EOPNOTSUPP | Errno::ENOSYS => VerbsError::Unsupported { device, what: call },
        Errno::EPERM | Errno::EACCES | Errno::ENOENT if call == OPEN => {
            VerbsError::Permission { device, errno }
        }
        errno => VerbsError::Call { device, call, errno },
    }
}

/// The meaning of a failed registration of `bytes` at `address`.
pub(super) fn of_registration(
    device: &str,
    call: &'static str,
    (address, bytes): (u64, u64),
    errno: Errno,
) -> VerbsError {
    match errno {
        Errno::ENOMEM => match check_memlock(pinned_bytes().saturating_add(bytes)) {
            Err(MemlockError::TooLow { limit_bytes, .. }) => {
                VerbsError::LockedMemory { device: device.to_owned(), bytes, limit_bytes }
            }
            _ => meaning(device, call, errno),
        },
        Errno::EFAULT => VerbsError::NotPinnable { device: device.to_owned(), address, bytes },
        errno => meaning(device, call, errno),
    }
}

/// What this process has pinned already: it counts against the same limit.
fn pinned_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status
        .lines()
        .find_map(|line| line.strip_prefix("VmPin:"))
        .and_then(|rest| rest.split_whitespace().next())
        .and_then(|kib| kib.parse::<u64>().ok())
        .map_or(0, |kib| kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_positive_code_is_the_errno_itself() {
        assert_eq!(returned(libc::EINVAL), Errno::EINVAL);
    }

    #[test]
    fn known_errors_become_the_variant_with_the_remedy() {
        let registration = |errno| of_registration("mlx5_0", "ibv_reg_mr", (4096, 64), errno);
        let fault = registration(Errno::EFAULT);
        assert!(fault.to_string().contains("shared mapping of a disk file"), "{fault}");
        let gone = registration(Errno::ENODEV);
        assert!(matches!(gone, VerbsError::DeviceLost { .. }));
        let refused = meaning("mlx5_0", OPEN, Errno::EACCES);
        assert!(refused.to_string().contains("/dev/infiniband/uverbs*"), "{refused}");
        let other = meaning("mlx5_0", "ibv_modify_qp", Errno::EINVAL);
        assert!(other.to_string().starts_with("mlx5_0: ibv_modify_qp failed with EINVAL"));
    }
}
