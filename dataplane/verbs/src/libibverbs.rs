//! The devices of this host, through libibverbs.
//! Invariant: the library is loaded at run time and only here; without it every call says what is
//! missing, and the rest of the program works.
//!
//! Types and constants are our own and not those of `rdma-sys`: that crate links libibverbs at
//! build time, which no binary of ours may; it needs clang and rdma-core's headers on every build
//! host, fails to build with current clang, and has not been kept since 2023. What it would give,
//! layouts that follow the headers, the tests of `abi` give: they compile a C program against the
//! installed headers and compare every size, offset and constant.

use std::ffi::CStr;
use std::sync::Arc;

use crate::device::{Device, Fabric};
use crate::device_info::DeviceInfo;
use crate::error::VerbsError;
use crate::limits::DEVICES_MAX;

mod abi;
mod completion;
mod context;
mod events;
mod facts;
mod failure;
mod gids;
mod library;
mod pair;
mod region;

use abi::ibv_device;
use context::DeviceContext;
use failure::meaning;
use library::Library;

/// The devices of this host.
#[derive(Clone, Debug)]
pub struct HostDevices {
    library: Arc<Library>,
}

impl HostDevices {
    /// Loads the library. Fails with [`VerbsError::LibraryMissing`] where there is none.
    pub fn load() -> Result<HostDevices, VerbsError> {
        Ok(HostDevices { library: Library::load()? })
    }

    /// Does `with` to the list of devices, each with its name, and frees the list.
    fn with_list<T>(
        &self,
        with: impl FnOnce(&[(String, *mut ibv_device)]) -> T,
    ) -> Result<T, VerbsError> {
        let mut count = 0;
        // SAFETY: the library writes one number.
        let list = unsafe { (self.library.ibv_get_device_list)(&raw mut count) };
        if list.is_null() {
            let errno = nix::errno::Errno::last();
            if errno == nix::errno::Errno::ENOSYS {
                // The kernel has no RDMA at all: that is a host without devices.
                return Ok(with(&[]));
            }
            return Err(meaning("RDMA", "ibv_get_device_list", errno));
        }
        let count = usize::try_from(count).unwrap_or(0).min(DEVICES_MAX);
        let mut devices = Vec::with_capacity(count);
        for index in 0..count {
            // SAFETY: the list has `count` entries; names are C strings that live as long as it.
            let (device, name) = unsafe {
                let device = *list.add(index);
                (device, CStr::from_ptr((self.library.ibv_get_device_name)(device)))
            };
            devices.push((name.to_string_lossy().into_owned(), device));
        }
        devices.sort_by(|a, b| a.0.cmp(&b.0));
        let result = with(&devices);
        // SAFETY: it came from `ibv_get_device_list`; open contexts do not depend on it.
        unsafe { (self.library.ibv_free_device_list)(list) };
        Ok(result)
    }

    fn open_context(&self, name: &str, port: Option<u8>) -> Result<Arc<DeviceContext>, VerbsError> {
        self.with_list(|devices| {
            let found = devices.iter().find(|(own, _)| own == name);
            let Some((_, device)) = found else {
                return Err(VerbsError::UnknownDevice {
                    name: name.to_owned(),
                    known: devices.iter().map(|(own, _)| own.clone()).collect(),
                });
            };
            // SAFETY: the pointer is from the list, which is freed only after this closure.
            unsafe { DeviceContext::open(&self.library, name, *device, port) }.map(Arc::new)
        })?
    }
}

impl Fabric for HostDevices {
    fn devices(&self) -> Result<Vec<DeviceInfo>, VerbsError> {
        let names: Vec<String> =
            self.with_list(|devices| devices.iter().map(|(name, _)| name.clone()).collect())?;
        if names.is_empty() {
            return check_drivers(&facts::kernel_devices());
        }
        let (mut infos, mut first_error) = (Vec::new(), None);
        for name in &names {
            match self.open_context(name, None) {
                Ok(context) => infos.push(context.info.clone()),
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
        match first_error {
            Some(error) if infos.is_empty() => Err(error),
            _ => Ok(infos),
        }
    }

    fn open(&self, name: &str) -> Result<Arc<dyn Device>, VerbsError> {
        let (device, port) = match name.split_once(':') {
            Some((device, port)) => (device, Some(port)),
            None => (name, None),
        };
        let port = port.map(|port| port.parse().unwrap_or(0));
        Ok(Arc::new(context::HostDevice { context: self.open_context(device, port)? }))
    }
}

/// The library shows nothing: fine where the kernel has nothing either.
fn check_drivers(kernel: &[String]) -> Result<Vec<DeviceInfo>, VerbsError> {
    if kernel.is_empty() {
        return Ok(Vec::new());
    }
    Err(VerbsError::LibraryMissing {
        detail: format!(
            "the kernel has {} but the library finds no driver or no /dev/infiniband for it",
            kernel.join(", ")
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_without_devices_or_library_says_so_and_does_not_fail_otherwise() {
        match HostDevices::load() {
            Err(error) => assert!(error.to_string().contains("install libibverbs1"), "{error}"),
            Ok(host) => {
                let known = host.devices();
                let error = host.open("no_such_device").unwrap_err();
                assert!(matches!(error, VerbsError::UnknownDevice { .. }), "{known:?}");
            }
        }
    }
    #[test]
    fn devices_of_the_kernel_that_the_library_does_not_see_are_named() {
        assert_eq!(check_drivers(&[]), Ok(Vec::new()));
        let error = check_drivers(&["mlx5_0".to_owned()]).unwrap_err();
        assert!(error.to_string().contains("the kernel has mlx5_0"), "{error}");
        assert!(error.to_string().contains("ibverbs-providers"), "{error}");
    }
}
