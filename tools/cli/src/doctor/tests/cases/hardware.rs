//! Misconfigured hardware: PCIe, interrupts, cores.

use super::{Case, file, value};

pub(in crate::doctor::tests) fn cases() -> Vec<Case> {
    vec![
        file("pcie_width", "0000:20:00.0", |sample| {
            sample.sys("bus/pci/devices/0000:20:00.0/current_link_width", "8");
        }),
        file("iommu", "0000:18:00.0", |sample| {
            sample.sys("bus/pci/devices/0000:18:00.0/iommu_group/type", "DMA-FQ");
        }),
        file("pcie_acs", "0000:17:05.0", |sample| {
            sample.configuration("0000:17:05.0", true, true);
        }),
        file("relaxed_ordering", "0000:98:00.0", |sample| {
            sample.configuration("0000:98:00.0", false, false);
        }),
        file("irq_affinity", "ens1f0np0", |sample| {
            sample.proc("irq/1010/effective_affinity_list", "0-3");
        }),
        value("shard_cores", "ens1f0np0", |host| {
            host.cores = vec![0, 1, 2, 3];
        }),
        value("shard_cores", "cores", |host| host.cores = vec![0, 32, 999]),
        file("cpu_governor", "scaling_governor", |sample| {
            sample.sys("devices/system/cpu/cpu1/cpufreq/scaling_governor", "powersave");
        }),
    ]
}
