//! Misconfigured memory: locked pages, huge pages, limits, swap.

use super::{Case, double, file, value};

pub(in crate::doctor::tests) fn cases() -> Vec<Case> {
    vec![
        file("memlock", "RLIMIT_MEMLOCK", |sample| {
            sample.limits("65536", "65536");
            sample.capabilities("000000c000001000");
        }),
        file("memlock", "RLIMIT_MEMLOCK", |sample| {
            sample.limits("8388608", "65536");
        }),
        value("reactor", "io_uring", |host| {
            host.io_uring = Some(Err(perigee_shard::UringUnavailable::Disabled(2)));
        }),
        value("reactor", "PERIGEE_REACTOR", |host| {
            host.no_reactor = Some("PERIGEE_REACTOR is \"bogus\"".to_owned());
        }),
        file("open_files", "RLIMIT_NOFILE", |sample| {
            sample.limits("unlimited", "1024");
        }),
        file("huge_pages", "vm.nr_hugepages", |sample| {
            sample.meminfo(9000, 100, 64 << 20);
        }),
        double("shmem_huge_pages", "huge_pages", "shmem_enabled", |sample| {
            sample
                .sys("kernel/mm/transparent_hugepage/shmem_enabled", "always advise [never] deny");
            sample.meminfo(0, 0, 64 << 20);
        }),
        file("memory_limit", "memory limit", |sample| {
            sample.proc("self/cgroup", "0::/pod/engine");
            sample.sys("fs/cgroup/pod/memory.max", "4294967296");
        }),
        file("memory_limit", "memory limit", |sample| {
            sample.proc("self/cgroup", "4:memory:/docker/1");
            sample.sys("fs/cgroup/memory/memory.limit_in_bytes", "1073741824");
        }),
        file("memory_limit", "free memory", |sample| {
            sample.meminfo(9000, 9000, 1 << 20);
        }),
        file("swap", "swap", |sample| {
            sample.proc("swaps", "Filename Type Size Used Priority\n/dev/sda2 partition 8 0 -2");
        }),
    ]
}
