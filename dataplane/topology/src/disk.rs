//! Block devices that are hardware. Invariant: devices made of others (loop, RAM, mapper, RAID) are
//! left out, so that no disk counts twice.

use crate::place::DevicePlace;
use crate::roots::Folder;

/// Unit of `size` in sysfs, whatever the device's own block size.
const SECTOR_BYTES: u64 = 512;

/// One disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disk {
    /// Name, such as `nvme0n1`.
    pub name: String,
    /// Where it sits.
    pub place: DevicePlace,
    /// Capacity in bytes.
    pub bytes: u64,
    /// True for spinning disks.
    pub is_rotational: bool,
    /// True for NVMe.
    pub is_nvme: bool,
}

/// All disks by name.
pub(crate) fn read(sys: &Folder) -> Vec<Disk> {
    let names = sys.names("block");
    let hardware = names.into_iter().filter(|name| sys.has(&format!("block/{name}/device")));
    hardware.map(|name| read_disk(sys, name)).collect()
}

fn read_disk(sys: &Folder, name: String) -> Disk {
    let sectors: u64 = sys.number(&format!("block/{name}/size")).unwrap_or(0);
    Disk {
        place: place_of(sys, &name),
        bytes: sectors.saturating_mul(SECTOR_BYTES),
        is_rotational: sys.number(&format!("block/{name}/queue/rotational")) == Some(1),
        is_nvme: name.starts_with("nvme"),
        name,
    }
}

/// With multipath an NVMe disk hangs below a virtual subsystem; its first controller has the place.
fn place_of(sys: &Folder, name: &str) -> DevicePlace {
    let place = DevicePlace::read(sys, &format!("block/{name}/device"));
    let controller = name.strip_prefix("nvme").and_then(|rest| rest.split('n').next());
    match controller {
        Some(number) if place.pci.is_none() => {
            DevicePlace::read(sys, &format!("class/nvme/nvme{number}/device"))
        }
        _ => place,
    }
}
