//! A host with nothing wrong, to be broken. Invariant: every check finds something to look at on
//! it.

use super::super::*;
use crate::doctor::disk::DiskFault;
use crate::doctor::pcie::sample_configuration;
use perigee_mesh::LinkBaseline;
use perigee_shard::ClockDiscipline;
use perigee_topology::fixture::{self, NicSpec, Tree};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

/// Capabilities of root.
const ALL_CAPABILITIES: &str = "000001ffffffffff";
const SEGMENT_BYTES: u64 = 8 << 30;

pub(super) struct Sample {
    folder: tempfile::TempDir,
    tree: Tree,
}

impl Sample {
    pub(super) fn sound() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let tree = fixture::two_socket_host(folder.path()).unwrap();
        let sample = Self { folder, tree };
        sample.kernel();
        sample.cards();
        sample
    }

    fn kernel(&self) {
        self.limits("unlimited", "1048576");
        self.proc(
            "self/status",
            &format!("Uid:\t0 0 0 0\nGid:\t0 0 0 0\nCapEff:\t{ALL_CAPABILITIES}"),
        );
        self.proc("self/mounts", "none /sys/fs/cgroup cgroup2 rw 0 0");
        self.proc("self/cgroup", "0::/");
        self.meminfo(8192, 8192, 64 << 20);
        self.proc("swaps", "Filename Type Size Used Priority");
        self.proc("sys/vm/swappiness", "60");
        self.proc("sys/net/ipv4/tcp_congestion_control", "cubic");
        self.proc("sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456");
        self.proc("sys/net/ipv4/tcp_wmem", "4096\t16384\t4194304");
        self.proc("sys/net/core/rmem_max", "212992");
        self.proc("sys/net/core/wmem_max", "212992");
        self.sys("kernel/mm/transparent_hugepage/shmem_enabled", "always [advise] never deny");
        self.sys("kernel/btf/vmlinux", "BTF");
        self.sys("fs/cgroup/memory.max", "max");
        for cpu in 0..2 {
            let folder = format!("devices/system/cpu/cpu{cpu}/cpufreq");
            self.sys(&format!("{folder}/scaling_governor"), "performance");
        }
    }

    fn cards(&self) {
        self.tree.pci("pci0000:17/0000:17:05.0/0000:20:00.0", 0x03_0200, 0x10de, 0).unwrap();
        let management = "pci0000:00/0000:00:1c.0/0000:02:00.0";
        self.tree.pci(management, 0x02_0000, 0x8086, 0).unwrap();
        let device = Some(management);
        self.tree.nic(NicSpec { name: "eno1", device, speed_mbps: 25_000, mtu: 1500 }).unwrap();
        let topology = Topology::discover(&self.tree.roots());
        for (number, device) in topology.rdma.iter().enumerate() {
            let path = device.place.pci.as_ref().unwrap();
            let folder = format!("bus/pci/devices/{}", path.address());
            self.sys(&format!("{folder}/iommu_group/type"), "identity");
            self.configuration(&path.address().to_string(), true, false);
            for vector in 0..2 {
                let interrupt = 1000 + number * 10 + vector;
                self.sys(&format!("{folder}/msi_irqs/{interrupt}"), "msix");
                let cpus = if number == 0 { "0-31" } else { "32-63" };
                self.proc(&format!("irq/{interrupt}/effective_affinity_list"), cpus);
            }
            let file = self.dev().join(format!("infiniband/uverbs{number}"));
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, "").unwrap();
            self.device_mode(&format!("infiniband/uverbs{number}"), 0o666);
        }
        for gpu in &topology.gpus {
            for bridge in gpu.place.pci.as_ref().unwrap().bridges() {
                self.configuration(&bridge.to_string(), true, false);
            }
        }
    }

    pub(super) fn host(&self) -> HostFacts {
        let roots = self.tree.roots();
        HostFacts {
            topology: Topology::discover(&roots),
            process: Process::read(&roots),
            roots,
            dev: self.dev(),
            has_probes: true,
            clock: Some(ClockDiscipline { is_synchronised: true, error_us: 900 }),
            io_uring: Some(Ok(())),
            no_reactor: None,
            links: Some(Ok(measured_links())),
            packages: vec![self.package()],
            segment_bytes: SEGMENT_BYTES,
            cores: vec![0, 1, 32, 33],
            disks: vec![disk(50, Ok(2 << 30))],
            peers: vec![peer(9000, "RoCE v2")],
            cluster: ClusterSegments::Seen(Vec::new()),
        }
    }

    /// A folder `mooncake` with nothing but ours.
    fn package(&self) -> PathBuf {
        let folder = self.folder.path().join("site-packages/mooncake");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("store.py"), "").unwrap();
        folder
    }

    /// Puts another package's compiled module beside ours.
    pub(super) fn foreign_module(&self, name: &str) {
        fs::write(self.package().join(name), "").unwrap();
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn dev(&self) -> PathBuf {
        self.folder.path().join("dev")
    }

    pub(super) fn sys(&self, path: &str, text: &str) {
        self.tree.sys(path, text).unwrap();
    }

    pub(super) fn proc(&self, path: &str, text: &str) {
        self.tree.proc(path, text).unwrap();
    }

    pub(super) fn remove(&self, path: &str) {
        self.tree.remove(path).unwrap();
    }

    pub(super) fn limits(&self, locked: &str, files: &str) {
        let text = format!(
            "Limit  Soft Limit  Hard Limit  Units\n\
             Max open files  {files}  1048576  files\n\
             Max locked memory  {locked}  unlimited  bytes"
        );
        self.proc("self/limits", &text);
    }

    pub(super) fn capabilities(&self, hex: &str) {
        let path = self.tree.proc_path().join("self/status");
        let text = fs::read_to_string(&path).unwrap();
        let (others, _) = text.split_once("CapEff").unwrap();
        fs::write(path, format!("{others}CapEff:\t{hex}\n")).unwrap();
    }

    pub(super) fn user(&self, number: u32) {
        let path = self.tree.proc_path().join("self/status");
        let text = fs::read_to_string(&path).unwrap();
        let line = format!(
            "Uid:\t{number} {number} {number} {number}\nGid:\t{number} {number} \
                            {number} {number}\n"
        );
        let (_, capabilities) = text.split_once("CapEff").unwrap();
        fs::write(path, format!("{line}CapEff{capabilities}")).unwrap();
    }

    pub(super) fn meminfo(&self, huge_pages: u64, free_huge_pages: u64, available_kib: u64) {
        let text = format!(
            "MemTotal: 134217728 kB\nMemAvailable: {available_kib} kB\n\
             HugePages_Total: {huge_pages}\nHugePages_Free: {free_huge_pages}\n\
             Hugepagesize: 2048 kB"
        );
        self.proc("meminfo", &text);
    }

    pub(super) fn configuration(&self, address: &str, relaxed_ordering: bool, redirects: bool) {
        let path = format!("bus/pci/devices/{address}/config");
        let bytes = sample_configuration(relaxed_ordering, redirects);
        self.tree.sys_bytes(&path, &bytes).unwrap();
    }

    pub(super) fn device_mode(&self, file: &str, mode: u32) {
        let permissions = fs::Permissions::from_mode(mode);
        fs::set_permissions(self.dev().join(file), permissions).unwrap();
    }

    pub(super) fn remove_device_file(&self, file: &str) {
        fs::remove_file(self.dev().join(file)).unwrap();
    }
}

/// A disk with so many percent free.
pub(super) fn disk(free_percent: u64, direct: Result<u64, DiskFault>) -> HostDisk {
    HostDisk {
        folder: PathBuf::from("/data"),
        obstacle: None,
        file_system: None,
        in_use: 0,
        own_bytes: 0,
        space: Some((free_percent << 30, 100 << 30)),
        direct,
    }
}

pub(super) fn peer(mtu: u64, gid_type: &str) -> PeerHost {
    PeerHost::of("other.json", mtu, gid_type)
}

/// Links that were measured a while ago, with nothing wrong.
fn measured_links() -> LinkBaseline {
    let mut links = LinkBaseline::default();
    links.checked_unix_s = 1;
    links
}
