//! Interrupts and threads beside their cards. Invariant: a host with one NUMA node has everything
//! in the right place.

use super::finding::{CheckOutcome, Finding};
use super::host::HostFacts;
use perigee_topology::{Nic, NumaNode, cpu_list};
use std::collections::{BTreeMap, BTreeSet};

/// Interrupts served on another node cost a trip between sockets per packet.
pub(super) fn interrupts(host: &HostFacts) -> CheckOutcome {
    if host.topology.nodes.len() < 2 {
        return CheckOutcome::Skipped("the host has one NUMA node");
    }
    let mut findings = Vec::new();
    let mut is_any = false;
    for nic in host.rails() {
        let Some(node) = node_of(host, nic) else {
            continue;
        };
        let affinities = affinities(host, nic);
        is_any |= !affinities.is_empty();
        let is_far = |cpus: &Vec<u32>| !cpus.iter().any(|cpu| node.cpus.contains(cpu));
        let far = affinities.iter().filter(|cpus| is_far(cpus)).count();
        if far > 0 {
            let message = format!(
                "{far} of {} interrupts are served by other nodes than the card's node {}",
                affinities.len(),
                node.number
            );
            let fix = format!(
                "Stop irqbalance; write the CPUs of node {} to /proc/irq/N/smp_affinity_list for N \
                 in /sys/class/net/{}/device/msi_irqs",
                node.number, nic.name
            );
            findings.push(Finding::warning(&nic.name, message, fix));
        }
    }
    match is_any {
        true => CheckOutcome::Checked(findings),
        false => CheckOutcome::Skipped("no rail with known interrupts and node"),
    }
}

fn node_of<'a>(host: &'a HostFacts, nic: &Nic) -> Option<&'a NumaNode> {
    let number = host.topology.node_of(&nic.place)?;
    host.topology.nodes.iter().find(|node| node.number == number)
}

/// Processors of each interrupt of a card.
fn affinities(host: &HostFacts, nic: &Nic) -> Vec<Vec<u32>> {
    let interrupts = host.roots.sys().names(&format!("class/net/{}/device/msi_irqs", nic.name));
    let cpus = |interrupt: &String| {
        let file = |name: &str| host.roots.proc().text(&format!("irq/{interrupt}/{name}"));
        let text = file("effective_affinity_list").filter(|text| !text.is_empty());
        let cpus = cpu_list(&text.or_else(|| file("smp_affinity_list"))?);
        // A vector that is not in use has none.
        (!cpus.is_empty()).then_some(cpus)
    };
    interrupts.iter().filter_map(cpus).collect()
}

/// A rail without a shard on its node is driven from across the sockets.
pub(super) fn shard_cores(host: &HostFacts) -> CheckOutcome {
    if host.cores.is_empty() {
        return CheckOutcome::Skipped("no --cores");
    }
    let online: BTreeSet<u32> =
        host.topology.nodes.iter().flat_map(|node| node.cpus.iter().copied()).collect();
    let mut findings = Vec::new();
    let absent: Vec<String> =
        host.cores.iter().filter(|cpu| !online.contains(cpu)).map(u32::to_string).collect();
    if !absent.is_empty() {
        let message = format!("this host has no CPU {}", absent.join(", "));
        findings.push(Finding::failure("cores", message, "Name CPUs of `lscpu -e`"));
    }
    for nic in host.rails() {
        let Some(node) = node_of(host, nic) else {
            continue;
        };
        if !host.cores.iter().any(|cpu| node.cpus.contains(cpu)) {
            let message = format!("it is on node {} and no shard has a core there", node.number);
            let fix = format!("Give the shards cores of node {} as well", node.number);
            findings.push(Finding::warning(&nic.name, message, fix));
        }
    }
    CheckOutcome::Checked(findings)
}

/// A clock that follows the load wakes up slowly.
pub(super) fn cpu_governor(host: &HostFacts) -> CheckOutcome {
    let sys = host.roots.sys();
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for name in sys.names("devices/system/cpu") {
        let file = format!("devices/system/cpu/{name}/cpufreq/scaling_governor");
        if let Some(governor) = sys.text(&file) {
            *counts.entry(governor).or_default() += 1;
        }
    }
    if counts.is_empty() {
        return CheckOutcome::Skipped("the kernel does not set the CPU frequency");
    }
    let slow = counts.into_iter().filter(|(governor, _)| governor != "performance");
    CheckOutcome::of(slow.map(|(governor, count)| {
        Finding::warning(
            "scaling_governor",
            format!("{count} CPUs follow `{governor}`: latency grows when the load is low"),
            "cpupower frequency-set -g performance",
        )
    }))
}
