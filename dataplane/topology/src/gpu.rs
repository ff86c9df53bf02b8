//! GPUs by their PCI class. Invariant: the index of a GPU is its position in PCI bus order among
//! those of its vendor, which is how the drivers count equal GPUs.

use crate::place::{DevicePlace, PciAddress};
use crate::roots::{Roots, is_word};

const VENDOR_NVIDIA: u32 = 0x10de;
const VENDOR_AMD: u32 = 0x1002;
/// Class byte of display controllers.
const CLASS_DISPLAY: u32 = 0x03;
/// Class and subclass of processing accelerators, which newer AMD GPUs report.
const CLASS_ACCELERATOR: u32 = 0x1200;

/// Who makes a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GpuVendor {
    /// Locations are called `cuda:N`.
    Nvidia,
    /// Locations are called `hip:N`.
    Amd,
}

/// One GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gpu {
    /// Position in bus order among those of its vendor.
    pub index: usize,
    /// Its maker.
    pub vendor: GpuVendor,
    /// Where it sits.
    pub place: DevicePlace,
    /// `GPU-…` as the driver tells it; NVIDIA only.
    pub uuid: Option<String>,
}

impl GpuVendor {
    /// Prefix of the names of memory locations.
    #[must_use]
    pub fn prefix(self) -> &'static str {
        match self {
            Self::Nvidia => "cuda",
            Self::Amd => "hip",
        }
    }
}

/// All GPUs, by vendor and bus order.
pub(crate) fn read(roots: &Roots) -> Vec<Gpu> {
    let names = roots.sys().names("bus/pci/devices");
    let mut found: Vec<(PciAddress, GpuVendor)> = names
        .iter()
        .filter_map(|name| Some((name.parse().ok()?, vendor_of(roots, name)?)))
        .collect();
    found.sort_by_key(|(address, _)| *address);
    let of_vendor = |vendor: GpuVendor| {
        let addresses = found.iter().filter(move |(_, of)| *of == vendor);
        let numbered = addresses.enumerate();
        numbered.map(move |(index, (address, _))| read_gpu(roots, index, vendor, *address))
    };
    of_vendor(GpuVendor::Nvidia).chain(of_vendor(GpuVendor::Amd)).collect()
}

fn vendor_of(roots: &Roots, name: &str) -> Option<GpuVendor> {
    let class = roots.sys().hex(&format!("bus/pci/devices/{name}/class"))?;
    let vendor = roots.sys().hex(&format!("bus/pci/devices/{name}/vendor"))?;
    let is_display = class >> 16 == CLASS_DISPLAY;
    match vendor {
        VENDOR_NVIDIA if is_display => Some(GpuVendor::Nvidia),
        VENDOR_AMD if is_display || class >> 8 == CLASS_ACCELERATOR => Some(GpuVendor::Amd),
        _ => None,
    }
}

fn read_gpu(roots: &Roots, index: usize, vendor: GpuVendor, address: PciAddress) -> Gpu {
    Gpu {
        index,
        vendor,
        place: DevicePlace::read(roots.sys(), &format!("bus/pci/devices/{address}")),
        uuid: uuid(roots, address),
    }
}

fn uuid(roots: &Roots, address: PciAddress) -> Option<String> {
    let text = roots.proc().text(&format!("driver/nvidia/gpus/{address}/information"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("GPU UUID:"))?;
    Some(line.trim()).filter(|uuid| is_word(uuid)).map(str::to_owned)
}
