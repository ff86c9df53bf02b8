//! Where a device sits and how far two devices are apart. Invariant: distances compare nearest
//! first, and an unknown place is never nearer than a known one on the same NUMA node.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use crate::roots::Folder;

/// Address of a PCI function, such as `0000:18:00.0`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PciAddress {
    /// Domain (segment group).
    pub domain: u32,
    /// PCI bus, 0 to 255.
    pub bus: u8,
    /// Device on the bus.
    pub device: u8,
    /// Function of the device.
    pub function: u8,
}

impl FromStr for PciAddress {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (domain, rest) = text.split_once(':').ok_or(())?;
        let (bus, rest) = rest.split_once(':').ok_or(())?;
        let (device, function) = rest.split_once('.').ok_or(())?;
        if domain.len() < 4 || bus.len() != 2 || device.len() != 2 || function.len() != 1 {
            return Err(());
        }
        let byte = |text| u8::from_str_radix(text, 16).map_err(|_| ());
        Ok(Self {
            domain: u32::from_str_radix(domain, 16).map_err(|_| ())?,
            bus: byte(bus)?,
            device: byte(device)?,
            function: byte(function)?,
        })
    }
}

impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { domain, bus, device, function } = self;
        write!(f, "{domain:04x}:{bus:02x}:{device:02x}.{function:x}")
    }
}

/// The way from a host bridge down to a device.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PciPath {
    /// Host bridge, such as `pci0000:17`.
    root: String,
    /// Bridges and, last, the device itself.
    chain: Vec<PciAddress>,
}

impl PciPath {
    /// Reads the resolved path of a device folder; parts below the PCI function are left out.
    #[must_use]
    pub fn of_folder(path: &Path) -> Option<Self> {
        let mut root = None;
        let mut chain = Vec::new();
        for part in path.components().filter_map(|part| part.as_os_str().to_str()) {
            match part.parse::<PciAddress>() {
                Ok(address) => chain.push(address),
                Err(()) if chain.is_empty() && is_host_bridge(part) => root = Some(part),
                // Disks behind Intel VMD have a second host bridge below the first.
                Err(()) if chain.is_empty() || is_host_bridge(part) => {}
                Err(()) => break,
            }
        }
        let root = root?.to_owned();
        (!chain.is_empty()).then_some(Self { root, chain })
    }

    /// Address of the device itself.
    #[must_use]
    pub fn address(&self) -> PciAddress {
        *self.chain.last().expect("a path is only made with at least one address")
    }

    /// Name of the host bridge.
    #[must_use]
    pub fn root(&self) -> &str {
        &self.root
    }

    /// Bridges between host bridge and device, the outermost first.
    #[must_use]
    pub fn bridges(&self) -> &[PciAddress] {
        &self.chain[..self.chain.len() - 1]
    }

    /// Number of bridges below the host bridge that lie above both devices.
    fn shared_bridges(&self, other: &Self) -> usize {
        if self.root != other.root {
            return 0;
        }
        let pairs = self.bridges().iter().zip(other.bridges());
        pairs.take_while(|(one, two)| one == two).count()
    }

    /// True for two functions of one card.
    fn is_same_card(&self, other: &Self) -> bool {
        let (one, two) = (self.address(), other.address());
        self.root == other.root
            && (one.domain, one.bus, one.device) == (two.domain, two.bus, two.device)
    }
}

impl fmt::Display for PciPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.root)?;
        self.chain.iter().try_for_each(|address| write!(f, "/{address}"))
    }
}

fn is_host_bridge(part: &str) -> bool {
    part.strip_prefix("pci").and_then(|rest| rest.split_once(':')).is_some_and(|(domain, bus)| {
        let is_hex = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_hexdigit());
        is_hex(domain) && is_hex(bus)
    })
}

/// Where a device sits.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct DevicePlace {
    /// Its way from the host bridge; `None` for virtual devices.
    pub pci: Option<PciPath>,
    /// Its NUMA node, if the firmware says.
    pub node: Option<u32>,
}

impl DevicePlace {
    /// Reads the place of a device folder such as `class/infiniband/mlx5_0/device`.
    pub(crate) fn read(sys: &Folder, device: &str) -> Self {
        let pci = sys.resolve(device).and_then(|path| PciPath::of_folder(&path));
        let own = node_in(sys, device);
        let of_function = |path: &PciPath| {
            let folder = format!("bus/pci/devices/{}", path.address());
            node_in(sys, &folder)
        };
        let node = own.or_else(|| pci.as_ref().and_then(of_function));
        Self { pci, node }
    }

    /// For people: `0000:18:00.0, node 0`.
    #[must_use]
    pub fn readable(&self) -> String {
        let pci = match &self.pci {
            Some(path) => path.address().to_string(),
            None => "virtual".to_owned(),
        };
        match self.node {
            Some(node) => format!("{pci}, node {node}"),
            None => format!("{pci}, node unknown"),
        }
    }
}

/// -1 stands for unknown.
fn node_in(sys: &Folder, device: &str) -> Option<u32> {
    let node: i64 = sys.number(&format!("{device}/numa_node"))?;
    u32::try_from(node).ok()
}

/// How far two places are apart, nearest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Distance {
    /// Functions of one card.
    SameCard,
    /// Below one PCIe switch; more shared bridges are nearer.
    SameSwitch {
        /// Counts down with the number of shared bridges, so that it compares nearest first.
        farness: u8,
    },
    /// Below one host bridge.
    SameRoot,
    /// On one NUMA node, or the host has only one.
    SameNode,
    /// One of the places is not known.
    Unknown,
    /// On different NUMA nodes.
    CrossNode {
        /// Distance of the nodes as the firmware gives it; 10 is local.
        node_distance: u32,
    },
}

impl Distance {
    /// True if nothing between the two leaves the NUMA node.
    #[must_use]
    pub fn is_local(self) -> bool {
        self < Self::Unknown
    }

    /// From two PCI paths alone; `None` if they share no host bridge.
    pub(crate) fn of_paths(one: &PciPath, other: &PciPath) -> Option<Self> {
        if one.root() != other.root() {
            return None;
        }
        if one.is_same_card(other) {
            return Some(Self::SameCard);
        }
        // A root port leads to one device or switch: sharing it means sharing the switch below.
        match one.shared_bridges(other) {
            0 => Some(Self::SameRoot),
            shared => {
                let shared = u8::try_from(shared).unwrap_or(u8::MAX);
                Some(Self::SameSwitch { farness: u8::MAX - shared })
            }
        }
    }
}

impl fmt::Display for Distance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SameCard => f.write_str("same card"),
            Self::SameSwitch { farness } => {
                write!(f, "same PCIe switch ({} shared bridges)", u8::MAX - farness)
            }
            Self::SameRoot => f.write_str("same host bridge"),
            Self::SameNode => f.write_str("same NUMA node"),
            Self::Unknown => f.write_str("distance unknown"),
            Self::CrossNode { node_distance } => {
                write!(f, "another NUMA node (distance {node_distance})")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> PciPath {
        PciPath::of_folder(Path::new(text)).unwrap()
    }

    #[test]
    fn addresses_are_read_and_written_as_in_sysfs() {
        let address: PciAddress = "0001:af:1f.7".parse().unwrap();
        assert_eq!(address.to_string(), "0001:af:1f.7");
        for text in ["", "18:00.0", "0000:18:00", "0000:18:00.00", "0000:zz:00.0"] {
            assert!(text.parse::<PciAddress>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_path_ends_at_the_pci_function() {
        let virtio = path("devices/pci0000:00/0000:00:03.0/virtio2/net/eth0");
        assert_eq!(virtio.to_string(), "pci0000:00/0000:00:03.0");
        assert_eq!(virtio.bridges(), []);
        assert!(PciPath::of_folder(Path::new("devices/virtual/net/veth0")).is_none());
        assert!(PciPath::of_folder(Path::new("devices/pci0000:00")).is_none());
    }

    #[test]
    fn distances_follow_the_shared_bridges() {
        let nic = path("devices/pci0000:17/0000:17:01.0/0000:18:00.0/0000:19:00.0/0000:1a:00.0");
        let twin = path("devices/pci0000:17/0000:17:01.0/0000:18:00.0/0000:19:00.0/0000:1a:00.1");
        let near = path("devices/pci0000:17/0000:17:01.0/0000:18:00.0/0000:19:01.0/0000:1b:00.0");
        let other_port = path("devices/pci0000:17/0000:17:03.0/0000:1c:00.0");
        let other_root = path("devices/pci0000:97/0000:97:01.0/0000:98:00.0");
        assert_eq!(Distance::of_paths(&nic, &twin), Some(Distance::SameCard));
        let switch = Distance::of_paths(&nic, &near).unwrap();
        assert_eq!(switch.to_string(), "same PCIe switch (2 shared bridges)");
        assert_eq!(Distance::of_paths(&nic, &other_port), Some(Distance::SameRoot));
        assert_eq!(Distance::of_paths(&nic, &other_root), None);
        assert!(Distance::SameCard < switch && switch < Distance::SameRoot);
        assert!(!Distance::Unknown.is_local() && Distance::SameNode.is_local());
    }
}
