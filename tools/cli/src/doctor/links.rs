//! Links to other hosts as `perigee check` found them last. Invariant: nothing is measured here; a
//! finding says how old it is.

use super::finding::{CheckOutcome, Finding};
use super::host::HostFacts;
use crate::check::age_text;
use perigee_mesh::LinkBaseline;
use std::time::{SystemTime, UNIX_EPOCH};

/// What was wrong with links, and NICs that are not what they were.
pub(super) fn baseline(host: &HostFacts) -> CheckOutcome {
    let baseline = match &host.links {
        None => return CheckOutcome::Skipped("the links of another host are not known"),
        Some(Err(reason)) => {
            return CheckOutcome::of([Finding::warning(
                "baseline of links",
                reason,
                "Name a file that can be read with --baseline; a damaged one is moved away and made again by perigee check HOST HOST ...",
            )]);
        }
        Some(Ok(baseline)) if baseline.checked_unix_s == 0 => {
            return CheckOutcome::Skipped("perigee check has not been run on this host");
        }
        Some(Ok(baseline)) => baseline,
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let ago = age_text(now.saturating_sub(baseline.checked_unix_s));
    let mut findings = links(baseline, &ago);
    findings.extend(nics(host, baseline, &ago));
    CheckOutcome::of(findings)
}

fn links(baseline: &LinkBaseline, ago: &str) -> Vec<Finding> {
    let found = baseline.findings.iter().map(|found| {
        let make = if found.kind.is_failure() { Finding::failure } else { Finding::warning };
        make(
            format!("{} -> {}", found.from, found.to),
            format!("{}, {ago} ago", found.evidence),
            "Look at cable, switch port and NIC of both ends; then run perigee check HOST HOST ... again",
        )
    });
    found.collect()
}

/// NICs of this host that were faster, or had other frames.
fn nics(host: &HostFacts, baseline: &LinkBaseline, ago: &str) -> Vec<Finding> {
    let own = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok());
    let Some(before) = own.and_then(|name| baseline.hosts.get(&name)) else {
        return Vec::new();
    };
    let mut findings = Vec::new();
    for nic in &before.nics {
        let Some(now) = host.topology.nics.iter().find(|other| other.name == nic.name) else {
            let text = format!("it is gone; it was there {ago} ago");
            let fix = "Look at the card and its driver (dmesg), or run perigee check --renew HOST HOST ...";
            findings.push(Finding::failure(&nic.name, text, fix));
            continue;
        };
        if let (Some(now), Some(then)) = (now.speed_mbps, nic.speed_mbps)
            && now < then
        {
            let text = format!("the link runs at {now} Mbit/s, {ago} ago it was {then}");
            let fix =
                "Look at cable, module and switch port; a bad one makes both ends agree on less";
            findings.push(Finding::warning(&nic.name, text, fix));
        }
        if let Some(now) = now.mtu.filter(|now| *now != nic.mtu) {
            let text = format!("its MTU is {now}, {ago} ago it was {}", nic.mtu);
            let fix = format!("ip link set dev {} mtu {}", nic.name, nic.mtu);
            findings.push(Finding::warning(&nic.name, text, fix));
        }
    }
    findings
}
