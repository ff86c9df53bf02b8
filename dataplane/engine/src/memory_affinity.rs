//! Which NICs suit which memory of this engine. Invariant: read once, when the engine starts; what
//! it tells users is what the rails go by.

use crate::error::EngineError;
use crate::options::EngineOptions;
use crate::registry::{MemoryLocation, RegisteredRegion};
use perigee_device::GivenDevices;
use perigee_rails::Preference;
use perigee_settings::SettingError;
use perigee_topology::{CUSTOM_MATRIX_VARIABLE, Matrix, Roots};

/// Pages of a buffer that are asked for their NUMA node.
const PAGES_ASKED: u64 = 8;
/// `MPOL_F_NODE | MPOL_F_ADDR` of `linux/mempolicy.h`: which node has the page at an address.
const NODE_OF_ADDRESS: libc::c_ulong = 3;

#[derive(Debug)]
pub(crate) struct MemoryAffinity {
    matrix: Matrix,
    /// Whether the rails are devices of which the matrix knows.
    is_of_rails: bool,
}

impl MemoryAffinity {
    /// The matrix of the user or of the host, narrowed down to the devices of the options.
    ///
    /// # Errors
    /// The user's matrix cannot be read.
    pub(crate) fn read(options: &EngineOptions) -> Result<Self, EngineError> {
        let environment = |name: &str| options.topology_variable(name);
        let read = |devices: &str| Matrix::local_of_known(&Roots::system(), devices, &environment);
        // Devices that cannot be read end RDMA alone, which says so itself.
        let matrix = read(&options.devices).or_else(|_| read(""));
        Ok(Self {
            matrix: matrix.map_err(|error| {
                let matrix = options.topology.clone().unwrap_or_default();
                SettingError::new(CUSTOM_MATRIX_VARIABLE, matrix, error.to_string())
            })?,
            is_of_rails: options.fabric.is_none() || options.topology.is_some(),
        })
    }

    /// The matrix in Mooncake's JSON.
    pub(crate) fn to_json(&self) -> String {
        self.matrix.to_json()
    }

    /// The rails for a buffer. The processors reach any NIC at full speed, so busy ones are helped
    /// by others; between a GPU and a NIC of another switch or socket there is less than either
    /// takes, so those are for when the near ones fail.
    pub(crate) fn of(
        &self,
        region: &RegisteredRegion,
        devices: Option<&GivenDevices>,
    ) -> Preference {
        let location = locate(region, devices);
        if !self.is_of_rails || location == MemoryLocation::Anywhere {
            return Preference::default();
        }
        let rails = self.matrix.rails(&location.to_string());
        Preference {
            preferred: rails.preferred,
            others: rails.others,
            is_strict: matches!(location, MemoryLocation::Cuda(_)),
        }
    }
}

/// Where a buffer lies: as its owner says, otherwise as the driver or the kernel says.
fn locate(region: &RegisteredRegion, devices: Option<&GivenDevices>) -> MemoryLocation {
    let said = region.location();
    if said != MemoryLocation::Anywhere {
        return said;
    }
    let found = if region.is_on_device() {
        let ordinal = devices.and_then(|devices| devices.0.ordinal(region.address()));
        ordinal.map(MemoryLocation::Cuda)
    } else {
        node_of(region.address(), region.bytes()).map(MemoryLocation::Cpu)
    };
    found.unwrap_or_default()
}

/// The NUMA node of memory; `None` if it lies on several, or the kernel does not say.
fn node_of(address: u64, bytes: u64) -> Option<u32> {
    let step = (bytes / PAGES_ASKED).max(1);
    let pages = (0..PAGES_ASKED).map(|index| index * step);
    let mut nodes =
        pages.take_while(|offset| *offset < bytes).map(|offset| node_of_page(address + offset));
    let first = nodes.next()??;
    nodes.all(|node| node == Some(first)).then_some(first)
}

fn node_of_page(address: u64) -> Option<u32> {
    let mut node: libc::c_int = -1;
    // SAFETY: with these flags the kernel writes one number into `node`, asks for no mask, and
    // checks the address itself.
    let code = unsafe {
        libc::syscall(
            libc::SYS_get_mempolicy,
            &raw mut node,
            std::ptr::null_mut::<libc::c_ulong>(),
            0 as libc::c_ulong,
            address,
            NODE_OF_ADDRESS,
        )
    };
    (code == 0).then(|| u32::try_from(node).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use perigee_device::DeviceMemory;
    use std::sync::Arc;

    /// All addresses are memory of the device with number 3.
    struct OneGpu;

    impl DeviceMemory for OneGpu {
        fn holds(&self, _: u64) -> bool {
            true
        }

        fn ordinal(&self, _: u64) -> Option<u32> {
            Some(3)
        }

        unsafe fn load(&self, _: u64, _: *mut u8, _: usize) -> Result<(), String> {
            Err("not here".to_owned())
        }

        unsafe fn store(&self, _: u64, _: *const u8, _: usize) -> Result<(), String> {
            Err("not here".to_owned())
        }
    }

    fn affinity(json: &str) -> MemoryAffinity {
        MemoryAffinity { matrix: Matrix::from_json(json).unwrap(), is_of_rails: true }
    }

    #[test]
    fn memory_is_located_by_its_owner_its_driver_or_the_kernel() {
        let gpu = GivenDevices(Arc::new(OneGpu));
        let at = |location| RegisteredRegion::new(4096, 1, location);
        let located = |region: &RegisteredRegion| locate(region, Some(&gpu));
        assert_eq!(located(&at(MemoryLocation::Cuda(1))), MemoryLocation::Cuda(1));
        let unsaid = at(MemoryLocation::Anywhere).on_device(true);
        assert_eq!(located(&unsaid), MemoryLocation::Cuda(3));
        assert_eq!(
            located(&at(MemoryLocation::Anywhere)),
            MemoryLocation::Anywhere,
            "nothing is there"
        );
        let bytes = vec![1u8; 1 << 20];
        let host = RegisteredRegion::new(bytes.as_ptr() as u64, 1 << 20, MemoryLocation::Anywhere);
        let found = located(&host);
        assert!(matches!(found, MemoryLocation::Cpu(_) | MemoryLocation::Anywhere), "{found}");
    }

    #[test]
    fn only_memory_of_a_gpu_is_strict_about_its_rails() {
        let near = affinity(r#"{"cpu:0": [["a"], ["b"]], "cuda:1": [["b"], ["a"]]}"#);
        let of = |location| near.of(&RegisteredRegion::new(4096, 1, location), None);
        let (host, gpu) = (of(MemoryLocation::Cpu(0)), of(MemoryLocation::Cuda(1)));
        assert_eq!((host.preferred[0].as_str(), host.is_strict), ("a", false));
        assert_eq!((gpu.preferred[0].as_str(), gpu.is_strict), ("b", true));
        assert_eq!(of(MemoryLocation::Anywhere), Preference::default());
    }
}
