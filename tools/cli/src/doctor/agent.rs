//! What the eBPF probes of the agent need. Invariant: warnings only; the agent runs without probes
//! and says what is off.

use super::finding::{CheckOutcome, Finding};
use super::host::HostFacts;

/// Numbers and names of the capabilities the probes need.
const CAPABILITIES: [(u32, &str); 3] =
    [(39, "CAP_BPF"), (38, "CAP_PERFMON"), (12, "CAP_NET_ADMIN")];
/// Older kernels have this one in place of the first two.
const CAPABILITY_SYS_ADMIN: u32 = 21;

/// Probes in the program itself.
pub(super) fn probes(host: &HostFacts) -> CheckOutcome {
    if host.has_probes {
        return CheckOutcome::fine();
    }
    CheckOutcome::of([Finding::warning(
        "perigee",
        "was built without eBPF probes: perigee agent shows only what the kernel and our processes count themselves",
        "Install a wheel or program built without PERIGEE_WITHOUT_PROBES=1, by `make wheel` or `make build` on Debian 12",
    )])
}

/// Rights to load and attach probes.
pub(super) fn capabilities(host: &HostFacts) -> CheckOutcome {
    if host.process.capabilities.is_none() {
        return CheckOutcome::Skipped("/proc/self/status cannot be read");
    }
    let has = |number: u32, name: &str| {
        host.process.has_capability(number)
            || (name != "CAP_NET_ADMIN" && host.process.has_capability(CAPABILITY_SYS_ADMIN))
    };
    let missing = CAPABILITIES.iter().filter(|(number, name)| !has(*number, name));
    let missing: Vec<&str> = missing.map(|(_, name)| *name).collect();
    if missing.is_empty() {
        return CheckOutcome::fine();
    }
    CheckOutcome::of([Finding::warning(
        missing.join(", "),
        "missing in this process: perigee agent would run without probes",
        format!(
            "AmbientCapabilities={} in the systemd unit, capabilities.add in the pod, or \
             setcap {}+ep \"$(command -v perigee)\"",
            missing.join(" "),
            missing.join(",").to_lowercase()
        ),
    )])
}

/// Type information of the kernel, by which probes find fields.
pub(super) fn type_information(host: &HostFacts) -> CheckOutcome {
    if host.roots.sys().has("kernel/btf/vmlinux") {
        return CheckOutcome::fine();
    }
    CheckOutcome::of([Finding::warning(
        "/sys/kernel/btf/vmlinux",
        "the kernel has no type information: tracing probes cannot load",
        "Run a kernel with CONFIG_DEBUG_INFO_BTF=y; in a container mount /sys of the host",
    )])
}

/// Probes on sockets attach to a group of version 2.
pub(super) fn control_groups(host: &HostFacts) -> CheckOutcome {
    let Some(mounts) = host.roots.proc().text("self/mounts") else {
        return CheckOutcome::Skipped("/proc/self/mounts cannot be read");
    };
    let is_mounted = mounts.lines().any(|line| line.split(' ').nth(2) == Some("cgroup2"));
    if is_mounted {
        return CheckOutcome::fine();
    }
    // A mount over those of version 1 would hide the controllers that limit the host's services.
    let has_version_1 = mounts.lines().any(|line| line.split(' ').nth(2) == Some("cgroup"));
    let remedy = match has_version_1 {
        true => {
            "mkdir -p /sys/fs/cgroup/unified && mount -t cgroup2 none /sys/fs/cgroup/unified, or boot \
             with systemd.unified_cgroup_hierarchy=1"
        }
        false => "mount -t cgroup2 none /sys/fs/cgroup",
    };
    CheckOutcome::of([Finding::warning(
        "cgroup2",
        "no control groups of version 2 are mounted: round-trip times of connections are not seen",
        remedy,
    )])
}
