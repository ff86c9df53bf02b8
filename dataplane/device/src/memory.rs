//! What the rest of Perigee needs of an accelerator: its memory.
//! Invariant: an address is looked up before it is touched; memory of the host is left alone.

use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Memory of a device that other devices can reach.
#[derive(Debug)]
pub struct DmaBuf {
    /// The dma-buf.
    pub file: OwnedFd,
    /// Where the range that was asked for begins in it.
    pub offset_bytes: u64,
}

/// What an accelerator's driver does for us. Calls may come from any thread.
pub trait DeviceMemory: Send + Sync {
    /// Whether an address is memory of a device.
    fn holds(&self, address: u64) -> bool;

    /// Which device an address belongs to, as this process numbers them; `None` if the driver does
    /// not say.
    fn ordinal(&self, address: u64) -> Option<u32> {
        let _ = address;
        None
    }

    /// Makes a range of a device reachable for network cards.
    ///
    /// # Errors
    /// Driver or device cannot; in words.
    fn export(&self, device: u64, bytes: u64) -> Result<DmaBuf, String> {
        let _ = (device, bytes);
        Err("the driver makes no dma-bufs".to_owned())
    }

    /// Copies from a device to host memory and waits for it.
    ///
    /// # Safety
    /// `host` must be writable for `bytes`.
    ///
    /// # Errors
    /// What the driver says.
    unsafe fn load(&self, device: u64, host: *mut u8, bytes: usize) -> Result<(), String>;

    /// Copies from host memory to a device and waits for it.
    ///
    /// # Safety
    /// `host` must be readable for `bytes`.
    ///
    /// # Errors
    /// What the driver says.
    unsafe fn store(&self, device: u64, host: *const u8, bytes: usize) -> Result<(), String>;
}

/// Device memory that stands in for the host's accelerators, for tests.
#[derive(Clone)]
pub struct GivenDevices(pub Arc<dyn DeviceMemory>);

impl PartialEq for GivenDevices {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for GivenDevices {}

impl std::fmt::Debug for GivenDevices {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("GivenDevices")
    }
}
