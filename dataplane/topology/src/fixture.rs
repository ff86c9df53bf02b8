//! Sysfs and procfs trees made to order, for tests here and in other crates. Invariant: files and
//! links have the form of the kernel's own, so that readers cannot tell them apart.

mod hosts;

pub use hosts::{bare_host, eight_gpu_host, two_socket_host, virtual_machine};

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::roots::Roots;

/// A tree under construction: a folder with `sys` and `proc` inside.
#[derive(Debug)]
pub struct Tree {
    top: PathBuf,
}

/// One RDMA device to add.
#[derive(Debug, Clone, Copy)]
pub struct RdmaSpec<'a> {
    /// Name, such as `mlx5_0`.
    pub name: &'a str,
    /// Folder of its device below `devices`.
    pub device: &'a str,
    /// Network interface of its GIDs.
    pub netdev: &'a str,
    /// Text of `rate`.
    pub rate: &'a str,
    /// Index, type and address of its GIDs.
    pub gids: &'a [(u32, &'a str, &'a str)],
}

/// One network interface to add.
#[derive(Debug, Clone, Copy)]
pub struct NicSpec<'a> {
    /// Name, such as `eth0`.
    pub name: &'a str,
    /// Folder of its device below `devices`; `None` for a virtual one.
    pub device: Option<&'a str>,
    /// Text of `speed`.
    pub speed_mbps: i64,
    /// Largest payload of a frame, in bytes.
    pub mtu: u32,
}

impl Tree {
    /// An empty tree below `top`.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn new(top: impl Into<PathBuf>) -> io::Result<Self> {
        let tree = Self { top: top.into() };
        fs::create_dir_all(tree.sys_path())?;
        fs::create_dir_all(tree.proc_path())?;
        Ok(tree)
    }

    /// Roots to read it by.
    #[must_use]
    pub fn roots(&self) -> Roots {
        Roots::new(self.sys_path(), self.proc_path())
    }

    /// Path of its `/sys`.
    #[must_use]
    pub fn sys_path(&self) -> PathBuf {
        self.top.join("sys")
    }

    /// Path of its `/proc`.
    #[must_use]
    pub fn proc_path(&self) -> PathBuf {
        self.top.join("proc")
    }

    /// Writes a file below `/sys`.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn sys(&self, path: &str, text: &str) -> io::Result<()> {
        write(&self.sys_path().join(path), text)
    }

    /// Writes a file below `/proc`.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn proc(&self, path: &str, text: &str) -> io::Result<()> {
        write(&self.proc_path().join(path), text)
    }

    /// Writes bytes as they are below `/sys`, such as a PCI configuration space.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn sys_bytes(&self, path: &str, bytes: &[u8]) -> io::Result<()> {
        let path = self.sys_path().join(path);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(path, bytes)
    }

    /// Removes a file, link or folder below `/sys`.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn remove(&self, path: &str) -> io::Result<()> {
        let path = self.sys_path().join(path);
        match fs::symlink_metadata(&path)?.is_dir() {
            true => fs::remove_dir_all(path),
            false => fs::remove_file(path),
        }
    }

    /// A link below `/sys`, written relative as the kernel does.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn link(&self, path: &str, target: &str) -> io::Result<()> {
        let link = self.sys_path().join(path);
        if let Some(folder) = link.parent() {
            fs::create_dir_all(folder)?;
        }
        let upwards = "../".repeat(path.split('/').count() - 1);
        symlink(format!("{upwards}{target}"), link)
    }

    /// A NUMA node with its processors and distances.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn node(&self, number: u32, cpus: &str, distances: &str) -> io::Result<()> {
        let folder = format!("devices/system/node/node{number}");
        self.sys(&format!("{folder}/cpulist"), cpus)?;
        self.sys(&format!("{folder}/distance"), distances)
    }

    /// A PCI function at `path` (`pci0000:17/0000:17:01.0/0000:18:00.0`); -1 for no node.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn pci(&self, path: &str, class: u32, vendor: u32, node: i32) -> io::Result<()> {
        let folder = format!("devices/{path}");
        self.sys(&format!("{folder}/class"), &format!("0x{class:06x}"))?;
        self.sys(&format!("{folder}/vendor"), &format!("0x{vendor:04x}"))?;
        self.sys(&format!("{folder}/numa_node"), &node.to_string())?;
        for end in ["current", "max"] {
            self.sys(&format!("{folder}/{end}_link_speed"), "32.0 GT/s PCIe")?;
            self.sys(&format!("{folder}/{end}_link_width"), "16")?;
        }
        let address = path.rsplit('/').next().unwrap_or(path);
        self.link(&format!("bus/pci/devices/{address}"), &folder)
    }

    /// An RDMA device with one active port, and its file below `/dev/infiniband`.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn rdma(&self, spec: RdmaSpec<'_>) -> io::Result<()> {
        let name = spec.name;
        let folder = format!("devices/{}/infiniband/{name}", spec.device);
        let port = format!("{folder}/ports/1");
        self.sys(&format!("{port}/state"), "4: ACTIVE")?;
        self.sys(&format!("{port}/rate"), spec.rate)?;
        self.sys(&format!("{port}/link_layer"), "Ethernet")?;
        for (index, kind, gid) in spec.gids {
            self.sys(&format!("{port}/gids/{index}"), gid)?;
            self.sys(&format!("{port}/gid_attrs/types/{index}"), kind)?;
            self.sys(&format!("{port}/gid_attrs/ndevs/{index}"), spec.netdev)?;
        }
        self.link(&format!("class/infiniband/{name}"), &folder)?;
        if spec.device.starts_with("pci") {
            self.link(
                &format!("{folder}/device"),
                &format!("devices/{}", spec.device),
            )?;
        } else {
            // Soft-RoCE has no device, only the interface it runs over.
            self.sys(&format!("{folder}/parent"), spec.netdev)?;
        }
        self.uverbs(name)
    }

    fn uverbs(&self, name: &str) -> io::Result<()> {
        let verbs = self.sys_path().join("class/infiniband_verbs");
        let number = fs::read_dir(verbs).map_or(0, Iterator::count);
        self.sys(
            &format!("class/infiniband_verbs/uverbs{number}/ibdev"),
            name,
        )
    }

    /// A network interface that is up.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn nic(&self, spec: NicSpec<'_>) -> io::Result<()> {
        let device = spec.device.unwrap_or("virtual");
        let folder = format!("devices/{device}/net/{}", spec.name);
        let number = self.roots().sys().names("class/net").len() + 1;
        for (file, text) in [
            ("ifindex", number.to_string()),
            (
                "type",
                if spec.name == "lo" { "772" } else { "1" }.to_owned(),
            ),
            ("speed", spec.speed_mbps.to_string()),
            ("mtu", spec.mtu.to_string()),
            ("operstate", "up".to_owned()),
            ("address", format!("02:00:00:00:00:{number:02x}")),
        ] {
            self.sys(&format!("{folder}/{file}"), &text)?;
        }
        self.link(&format!("class/net/{}", spec.name), &folder)?;
        match spec.device {
            Some(device) => self.link(&format!("{folder}/device"), &format!("devices/{device}")),
            None => Ok(()),
        }
    }

    /// A disk of so many bytes; `device` as for a network interface.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn disk(&self, name: &str, device: &str, bytes: u64, rotational: bool) -> io::Result<()> {
        let folder = format!("devices/{device}/block/{name}");
        self.sys(&format!("{folder}/size"), &(bytes / 512).to_string())?;
        let rotational = if rotational { "1" } else { "0" };
        self.sys(&format!("{folder}/queue/rotational"), rotational)?;
        self.link(&format!("{folder}/device"), &format!("devices/{device}"))?;
        self.link(&format!("block/{name}"), &folder)
    }
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, format!("{text}\n"))
}
