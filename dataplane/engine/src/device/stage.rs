//! Host memory that stands for a range of device memory during a transfer.
//! Invariant: it belongs to exactly one range, and is freed only when nobody moves bytes through it.

use super::GivenDevices;
use perigee_memory::HostBuffer;

/// A staged range of device memory.
#[derive(Debug)]
pub(crate) struct Stage {
    devices: GivenDevices,
    address: u64,
    host: HostBuffer,
}

// SAFETY: the buffer is plain memory of the process; whoever moves bytes through it has the only right to the range.
unsafe impl Send for Stage {}
// SAFETY: as above; the methods only pass its address on.
unsafe impl Sync for Stage {}

impl Stage {
    pub(crate) fn new(devices: &GivenDevices, address: u64, bytes: u64) -> Result<Self, String> {
        let host = HostBuffer::allocate(bytes as usize).map_err(|error| error.to_string())?;
        Ok(Self {
            devices: devices.clone(),
            address,
            host,
        })
    }

    /// First byte of the host memory.
    pub(crate) fn host(&self) -> *mut u8 {
        self.host.base()
    }

    /// Whether host memory at `address` belongs to this stage.
    pub(crate) fn covers(&self, address: u64) -> bool {
        address
            .checked_sub(self.host() as u64)
            .is_some_and(|offset| offset < self.host.len() as u64)
    }

    /// Brings the device's bytes here.
    pub(crate) fn load(&self) -> Result<(), String> {
        // SAFETY: the buffer is ours and has exactly this length.
        unsafe {
            self.devices
                .0
                .load(self.address, self.host(), self.host.len())
        }
    }

    /// Brings a part of what is here to the device; `host` is an address that this stage covers.
    pub(crate) fn store(&self, host: u64, bytes: u64) -> Result<(), String> {
        let offset = host - self.host() as u64;
        let inside = offset
            .checked_add(bytes)
            .is_some_and(|end| end <= self.host.len() as u64);
        if !inside {
            return Err(format!("{bytes} bytes at {offset} are not in the stage"));
        }
        // SAFETY: the range was just checked against the buffer.
        unsafe {
            self.devices
                .0
                .store(self.address + offset, host as *const u8, bytes as usize)
        }
    }
}
