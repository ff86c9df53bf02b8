//! Kernel settings of TCP. Invariant: the values that the kernel has by default are accepted,
//! except a congestion control that paces.

use super::finding::{CheckOutcome, Finding};
use super::host::HostFacts;
use crate::limits::{DOCTOR_AUTOTUNED_BYTES_MIN, DOCTOR_SOCKET_BYTES_MIN};

/// Pacing halves what one connection moves over short, fast links.
pub(super) fn congestion_control(host: &HostFacts) -> CheckOutcome {
    let Some(name) = host.sysctl("net/ipv4/tcp_congestion_control") else {
        return CheckOutcome::Skipped("the setting cannot be read");
    };
    if !name.starts_with("bbr") {
        return CheckOutcome::fine();
    }
    CheckOutcome::of([Finding::warning(
        "net.ipv4.tcp_congestion_control",
        format!(
            "{name} paces each connection; on short, fast links that costs up to half of the rate"
        ),
        "sysctl -w net.ipv4.tcp_congestion_control=cubic",
    )])
}

/// Buffers grow by themselves, up to these sizes.
pub(super) fn socket_buffers(host: &HostFacts) -> CheckOutcome {
    let largest = |name: &str| -> Option<u64> {
        let text = host.sysctl(name)?;
        text.split_whitespace().last()?.parse().ok()
    };
    let settings = [
        ("net/ipv4/tcp_rmem", DOCTOR_AUTOTUNED_BYTES_MIN, "4096 131072 33554432"),
        ("net/ipv4/tcp_wmem", DOCTOR_AUTOTUNED_BYTES_MIN, "4096 65536 33554432"),
        ("net/core/rmem_max", DOCTOR_SOCKET_BYTES_MIN, "33554432"),
        ("net/core/wmem_max", DOCTOR_SOCKET_BYTES_MIN, "33554432"),
    ];
    let read: Vec<_> = settings
        .iter()
        .filter_map(|(name, least, good)| Some((name, largest(name)?, *least, good)))
        .collect();
    if read.is_empty() {
        return CheckOutcome::Skipped("the settings cannot be read");
    }
    let small = read.into_iter().filter(|(_, bytes, least, _)| bytes < least);
    CheckOutcome::of(small.map(|(name, bytes, least, good)| {
        let name = name.replace('/', ".");
        let message = format!("at most {bytes} bytes, {least} are needed to fill a fast link");
        Finding::warning(&name, message, format!("sysctl -w {name}=\"{good}\""))
    }))
}
