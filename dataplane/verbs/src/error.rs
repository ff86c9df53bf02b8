//! What can go wrong with a device, each with the remedy where there is one. Invariant: every error
//! names the device it came from, so that one bad rail stands out.

use nix::errno::Errno;

use perigee_memory::size::format_bytes;

/// A failed call on a fabric, device, region or queue.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VerbsError {
    /// No verbs library on this host.
    #[error(
        "RDMA is off: {detail}; install libibverbs1 and ibverbs-providers (rdma-core), or use TCP"
    )]
    LibraryMissing {
        /// What the dynamic loader said.
        detail: String,
    },
    /// No device of that name.
    #[error("There is no RDMA device {name}; this host has {}", list(known))]
    UnknownDevice {
        /// As asked for.
        name: String,
        /// Names that exist.
        known: Vec<String>,
    },
    /// The device has no such port.
    #[error("{device} has ports 1 to {ports}, not {port}")]
    UnknownPort {
        /// Name of the device, as in `/sys/class/infiniband`.
        device: String,
        /// As asked for.
        port: u8,
        /// Ports it has.
        ports: u8,
    },
    /// The character device may not be opened.
    #[error(
        "{device} cannot be opened ({errno}); give this user access to /dev/infiniband/uverbs*, \
         or pass the device into the container"
    )]
    Permission {
        /// Name of the device, as in `/sys/class/infiniband`.
        device: String,
        /// EACCES or EPERM, or ENOENT where a container lacks the device's file.
        errno: Errno,
    },
    /// More memory would be pinned than the process may.
    #[error(
        "{device} cannot pin {}: the limit of locked memory is {}; raise it with `ulimit -l unlimited`, \
         LimitMEMLOCK=infinity in the systemd unit, or `--ulimit memlock=-1` for containers",
        format_bytes(*bytes), format_bytes(*limit_bytes)
    )]
    LockedMemory {
        /// Name of the device, as in `/sys/class/infiniband`.
        device: String,
        /// What was to be registered.
        bytes: u64,
        /// The soft limit of this process.
        limit_bytes: u64,
    },
    /// Host or device has no memory left for it.
    #[error(
        "{device} has no memory or table entry left for {call}; free memory, close queue pairs and \
         regions, or raise the limit of locked memory (`ulimit -l unlimited`)"
    )]
    OutOfMemory {
        /// Name of the device, as in `/sys/class/infiniband`.
        device: String,
        /// The call of libibverbs that failed.
        call: &'static str,
    },
    /// The pages cannot be pinned for writing.
    #[error(
        "{device} cannot register {bytes} B at {address:#x}: not mapped, not writable, or a shared mapping \
         of a disk file; use anonymous memory, a memfd, tmpfs or huge pages, or register it for reading only"
    )]
    NotPinnable {
        /// Name of the device, as in `/sys/class/infiniband`.
        device: String,
        /// First byte.
        address: u64,
        /// Length.
        bytes: u64,
    },
    /// The device or its driver does not do it.
    #[error("{device} does not support {what}")]
    Unsupported {
        /// Name of the device, as in `/sys/class/infiniband`.
        device: String,
        /// The feature.
        what: &'static str,
    },
    /// More than the device, or this crate, allows.
    #[error("{device}: {what} is {asked}, at most {limit} is possible")]
    TooMuch {
        /// Name of the device, as in `/sys/class/infiniband`.
        device: String,
        /// What was asked for.
        what: &'static str,
        /// How much of it.
        asked: u64,
        /// How much there is.
        limit: u64,
    },
    /// Empty memory, or an address range that wraps around.
    #[error("{device}: {bytes} B at {address:#x} is not a range of memory")]
    BadRange {
        /// Name of the device, as in `/sys/class/infiniband`.
        device: String,
        /// First byte.
        address: u64,
        /// Length.
        bytes: u64,
    },
    /// The GID table has no usable entry.
    #[error(
        "{device} has no usable GID: give its network interface an address and bring the link up"
    )]
    NoGid {
        /// Name of the device, as in `/sys/class/infiniband`.
        device: String,
    },
    /// A GID index was forced that is not in the table.
    #[error("{device} has no GID {index} ({variable}); it has {}", list(known))]
    UnknownGid {
        /// Name of the device, as in `/sys/class/infiniband`.
        device: String,
        /// As forced.
        index: u32,
        /// The variable that forced it.
        variable: &'static str,
        /// Indexes that exist.
        known: Vec<String>,
    },
    /// The send queue is full: take completions first.
    #[error("{device}: the send queue of queue pair {queue_pair} is full; take completions first")]
    QueueFull {
        /// Name of the device, as in `/sys/class/infiniband`.
        device: String,
        /// Its number.
        queue_pair: u32,
    },
    /// Not connected yet, connected twice, or failed.
    #[error("{device}: queue pair {queue_pair} is {state:?}, which does not allow {call}")]
    WrongState {
        /// Name of the device, as in `/sys/class/infiniband`.
        device: String,
        /// Its number.
        queue_pair: u32,
        /// State in which the call is not allowed.
        state: crate::pair_state::QueuePairState,
        /// What was tried.
        call: &'static str,
    },
    /// The device is gone: unplugged, reset, or its driver unloaded.
    #[error(
        "{device} is gone ({call} failed with {errno}); its rail stays down until it is opened again"
    )]
    DeviceLost {
        /// Name of the device, as in `/sys/class/infiniband`.
        device: String,
        /// The call that noticed.
        call: &'static str,
        /// ENODEV or EIO.
        errno: Errno,
    },
    /// Any other failure of a call.
    #[error("{device}: {call} failed with {errno}")]
    Call {
        /// Name of the device, as in `/sys/class/infiniband`.
        device: String,
        /// The verb, as libibverbs calls it.
        call: &'static str,
        /// What it returned.
        errno: Errno,
    },
    /// A thread that was needed could not be started, or has ended.
    #[error("Memory cannot be registered in the background: {detail}")]
    Background {
        /// Why.
        detail: String,
    },
    /// It was not over in time.
    #[error("{what} was not over within {waited_ms} ms")]
    Deadline {
        /// What was waited for.
        what: &'static str,
        /// For how long.
        waited_ms: u64,
    },
}

impl VerbsError {
    /// Whether the same call may work later although the set-up has not changed.
    pub fn is_transient(&self) -> bool {
        matches!(
            self,
            VerbsError::QueueFull { .. }
                | VerbsError::OutOfMemory { .. }
                | VerbsError::DeviceLost { .. }
                | VerbsError::Deadline { .. }
        )
    }
}

/// A chain of work requests that was not taken whole.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{source}, after {accepted} work requests")]
pub struct PostError {
    /// Requests, from the start of the chain, that are on their way.
    pub accepted: usize,
    /// What the first one that was refused met.
    pub source: VerbsError,
}

fn list(names: &[String]) -> String {
    if names.is_empty() {
        return "none".to_owned();
    }
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::VerbsError;

    #[test]
    fn errors_name_the_device_and_the_remedy() {
        let error = VerbsError::LockedMemory {
            device: "mlx5_0".into(),
            bytes: 4 << 30,
            limit_bytes: 8 << 20,
        };
        let text = error.to_string();
        assert!(text.starts_with("mlx5_0 cannot pin 4 GiB"), "{text}");
        assert!(text.contains("ulimit -l unlimited"), "{text}");
        assert!(text.contains("LimitMEMLOCK=infinity"), "{text}");
    }

    #[test]
    fn an_unknown_device_lists_those_there_are() {
        let mut error = VerbsError::UnknownDevice {
            name: "mlx5_9".into(),
            known: vec!["mlx5_0".into(), "mlx5_1".into()],
        };
        assert!(error.to_string().ends_with("this host has mlx5_0, mlx5_1"));
        if let VerbsError::UnknownDevice { known, .. } = &mut error {
            known.clear();
        }
        assert!(error.to_string().ends_with("this host has none"));
    }
}
