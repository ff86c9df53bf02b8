//! What goes wrong around the programs: disks, clocks, packages, rights of the agent.

use super::super::sample;
use super::{Case, file, value};
use crate::doctor::disk::{DiskFault, FileSystem, FolderFault};
use crate::limits::{DOCTOR_CLOCK_ERROR_US_MAX, DOCTOR_DISK_RATE_MIN};
use perigee_shard::ClockDiscipline;

pub(in crate::doctor::tests) fn cases() -> Vec<Case> {
    vec![
        value("disk_usable", "/data", |host| {
            host.disks[0].obstacle = Some(FolderFault::NotAllowed);
        }),
        value("disk_file_system", "/data", |host| {
            host.disks[0].file_system = Some(FileSystem::Network("NFS"));
        }),
        value("disk_in_use", "/data", |host| host.disks[0].in_use = 2),
        value("disk_direct", "/data", |host| {
            host.disks =
                vec![sample::disk(50, Err(DiskFault::Refused("Invalid argument".to_owned())))];
        }),
        value("disk_full", "/data", |host| {
            host.disks = vec![sample::disk(2, Ok(DOCTOR_DISK_RATE_MIN))];
        }),
        value("disk_full", "/data", |host| {
            host.disks = vec![sample::disk(50, Err(DiskFault::NoSpace))];
        }),
        value("disk_slow", "/data", |host| {
            host.disks = vec![sample::disk(50, Ok(DOCTOR_DISK_RATE_MIN / 4))];
        }),
        value("clock", "clock", |host| {
            host.clock = Some(ClockDiscipline { is_synchronised: false, error_us: 16_000_000 });
        }),
        value("clock_error", "clock", |host| {
            let error_us = DOCTOR_CLOCK_ERROR_US_MAX + 1;
            host.clock = Some(ClockDiscipline { is_synchronised: true, error_us });
        }),
        file("packages", "site-packages/mooncake", |sample| {
            sample.foreign_module("store.so");
        }),
        value("probes", "perigee", |host| host.has_probes = false),
        file("agent_rights", "CAP_BPF, CAP_PERFMON", |sample| {
            sample.capabilities("0000000000005002");
        }),
        file("btf", "btf", |sample| sample.remove("kernel/btf/vmlinux")),
        file("cgroup2", "cgroup2", |sample| {
            sample.proc("self/mounts", "proc /proc proc rw 0 0");
        }),
        file("cgroup2", "cgroup2", |sample| {
            sample.proc("self/mounts", "cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0");
        }),
    ]
}
