//! Memory that is to be locked, shared and donated. Invariant: sizes that were not said are judged
//! by what a small node needs.

use super::finding::{CheckOutcome, Finding, Severity};
use super::host::HostFacts;
use crate::limits::{DOCTOR_LOCKED_BYTES_MIN, DOCTOR_OPEN_FILES_MIN, DOCTOR_SWAPPINESS_MAX};
use crate::size::size_text;

/// `CAP_IPC_LOCK`: the limit does not apply.
const CAPABILITY_LOCK: u32 = 14;
/// What a process needs beside its segment.
const OVERHEAD_BYTES: u64 = 256 << 20;

/// RDMA pins what it registers, and rings are locked as well.
pub(super) fn memlock(host: &HostFacts) -> CheckOutcome {
    let Some(limit) = host.process.locked_bytes else {
        return CheckOutcome::Skipped("/proc/self/limits cannot be read");
    };
    let needed = locked_bytes_needed(host);
    if limit >= needed {
        return CheckOutcome::fine();
    }
    let message = match needed {
        u64::MAX => {
            format!("only {} may be locked, and RDMA locks all it registers", size_text(limit))
        }
        needed => {
            format!("{} may be locked and {} are needed", size_text(limit), size_text(needed))
        }
    };
    let fix = "ulimit -l unlimited; LimitMEMLOCK=infinity in the systemd unit; \
               --ulimit memlock=-1 for containers";
    let mut finding = Finding::failure("RLIMIT_MEMLOCK", message, fix);
    // Without enough for rings shards run on epoll. What RDMA registers the kernel lets root lock.
    let is_exempt =
        host.process.capabilities.is_some() && host.process.has_capability(CAPABILITY_LOCK);
    let only_rings = host.topology.rdma.is_empty();
    let is_known = needed != u64::MAX;
    if only_rings || limit >= DOCTOR_LOCKED_BYTES_MIN && (is_exempt || !is_known) {
        finding.severity = Severity::Warning;
    }
    CheckOutcome::of([finding])
}

/// Everything, where RDMA registers memory of an unknown size.
fn locked_bytes_needed(host: &HostFacts) -> u64 {
    if host.topology.rdma.is_empty() {
        return DOCTOR_LOCKED_BYTES_MIN;
    }
    match host.segment_bytes {
        0 => u64::MAX,
        bytes => bytes.saturating_add(OVERHEAD_BYTES),
    }
}

/// Registration of huge pages is many times faster.
pub(super) fn huge_pages(host: &HostFacts) -> CheckOutcome {
    if host.topology.rdma.is_empty() && host.segment_bytes == 0 {
        return CheckOutcome::Skipped("no RDMA device and no --segment_size");
    }
    let Some(page_bytes) = memory_bytes(host, "Hugepagesize:") else {
        return CheckOutcome::Skipped("/proc/meminfo says nothing of huge pages");
    };
    let free = memory_count(host, "HugePages_Free:").unwrap_or(0);
    let needed = host.segment_bytes.div_ceil(page_bytes.max(1)).max(1);
    if free >= needed {
        return CheckOutcome::fine();
    }
    CheckOutcome::of([Finding::warning(
        "vm.nr_hugepages",
        format!("{free} huge pages are free and {needed} are needed; small pages register slowly"),
        format!("sysctl -w vm.nr_hugepages={}", needed.max(512)),
    )])
}

/// Segments are shared memory: only this setting gives them large pages without reserving.
pub(super) fn shmem_huge_pages(host: &HostFacts) -> CheckOutcome {
    const FILE: &str = "kernel/mm/transparent_hugepage/shmem_enabled";
    let Some(text) = host.roots.sys().text(FILE) else {
        return CheckOutcome::Skipped("the kernel has no transparent huge pages");
    };
    let reserved = memory_count(host, "HugePages_Total:").unwrap_or(0);
    let chosen = text.split(['[', ']']).nth(1).unwrap_or_default();
    if reserved > 0 || !matches!(chosen, "never" | "deny") {
        return CheckOutcome::fine();
    }
    CheckOutcome::of([Finding::warning(
        "shmem_enabled",
        format!("it is `{chosen}` and no huge pages are reserved: segments use 4 KiB pages"),
        format!("echo advise > /sys/{FILE}"),
    )])
}

/// Pages that are swapped out cost a disk access per transfer.
pub(super) fn swap(host: &HostFacts) -> CheckOutcome {
    let Some(swaps) = host.roots.proc().text("swaps") else {
        return CheckOutcome::Skipped("/proc/swaps cannot be read");
    };
    let count = swaps.lines().skip(1).count();
    let swappiness = host.sysctl("vm/swappiness").and_then(|text| text.parse::<u32>().ok());
    let swappiness = swappiness.unwrap_or(0);
    if count == 0 || swappiness <= DOCTOR_SWAPPINESS_MAX {
        return CheckOutcome::fine();
    }
    CheckOutcome::of([Finding::warning(
        "swap",
        format!(
            "{count} swap areas are on with vm.swappiness {swappiness}: segments may go to disk"
        ),
        "swapoff -a, or sysctl -w vm.swappiness=1",
    )])
}

/// A segment that does not fit ends with the process being killed while it is filled.
pub(super) fn memory_limit(host: &HostFacts) -> CheckOutcome {
    if host.segment_bytes == 0 {
        return CheckOutcome::Skipped("no --segment_size");
    }
    let needed = host.segment_bytes.saturating_add(OVERHEAD_BYTES);
    let mut findings = Vec::new();
    if let Some(limit) = group_limit(host).filter(|limit| *limit < needed) {
        findings.push(Finding::failure(
            "memory limit",
            format!(
                "the container may use {} and the segment needs {}",
                size_text(limit),
                size_text(needed)
            ),
            "Raise the container's memory limit, or donate less with --global_segment_size",
        ));
    }
    if let Some(free) = memory_bytes(host, "MemAvailable:").filter(|free| *free < needed) {
        findings.push(Finding::failure(
            "free memory",
            format!("{} are free and the segment needs {}", size_text(free), size_text(needed)),
            "Donate less with --global_segment_size, or stop what uses the memory",
        ));
    }
    CheckOutcome::Checked(findings)
}

/// Servers raise the soft limit to the hard one; clients inside other programs do not.
pub(super) fn open_files(host: &HostFacts) -> CheckOutcome {
    match host.process.open_files {
        None => CheckOutcome::Skipped("/proc/self/limits cannot be read"),
        Some(limit) if limit >= DOCTOR_OPEN_FILES_MIN => CheckOutcome::fine(),
        Some(limit) => CheckOutcome::of([Finding::warning(
            "RLIMIT_NOFILE",
            format!("{limit} files may be open; connections to many peers need more"),
            "ulimit -n 65536; LimitNOFILE=65536 in the systemd unit",
        )]),
    }
}

/// The smallest limit of the control groups of this process, version 2 or 1.
fn group_limit(host: &HostFacts) -> Option<u64> {
    let groups = host.roots.proc().text("self/cgroup").unwrap_or_default();
    let path_of = |prefix: &str| {
        let mut lines = groups.lines();
        lines.find_map(|line| line.split_once(prefix).map(|(_, path)| path.trim_matches('/')))
    };
    let unified = limits_upwards(host, "fs/cgroup", path_of("0::").unwrap_or(""), "memory.max");
    let old_path = path_of(":memory:").unwrap_or("");
    let old = limits_upwards(host, "fs/cgroup/memory", old_path, "memory.limit_in_bytes");
    unified.into_iter().chain(old).min()
}

/// From the group itself to the top: each may set a limit, and inside a container only the top is
/// visible.
fn limits_upwards(host: &HostFacts, top: &str, path: &str, file: &str) -> Option<u64> {
    let mut limits = vec![host.roots.sys().number(&format!("{top}/{file}"))];
    let mut folder = top.to_owned();
    for part in path.split('/').filter(|part| !part.is_empty()) {
        folder = format!("{folder}/{part}");
        limits.push(host.roots.sys().number(&format!("{folder}/{file}")));
    }
    limits.into_iter().flatten().min()
}

fn memory_count(host: &HostFacts, name: &str) -> Option<u64> {
    let text = host.roots.proc().text("meminfo")?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Lines with a size are in KiB.
fn memory_bytes(host: &HostFacts, name: &str) -> Option<u64> {
    memory_count(host, name)?.checked_mul(1024)
}
