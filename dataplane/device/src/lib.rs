//! Memory of accelerators: reached by network cards where driver and card can, staged through host
//! memory otherwise.
//! Invariant: addresses of a device are never touched by the CPU or handed to a socket, only to
//! [`DeviceMemory`].

mod cuda;
mod memory;
mod stage;

pub use memory::{DeviceMemory, DmaBuf, GivenDevices};
pub use stage::DeviceStage;

use std::sync::{Arc, OnceLock};

/// The accelerators of this host, if a driver is there. Looked for once.
pub fn of_this_host() -> Option<GivenDevices> {
    static FOUND: OnceLock<Option<GivenDevices>> = OnceLock::new();
    let find = || cuda::Cuda::load().map(|cuda| GivenDevices(Arc::new(cuda)));
    FOUND.get_or_init(find).clone()
}
