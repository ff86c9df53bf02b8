//! Host memory that stands for ranges of device memory while their bytes are under way. Invariant:
//! each part of it belongs to exactly one range, and it is freed only when no bytes move through
//! it.

use crate::memory::GivenDevices;
use perigee_memory::HostBuffer;

/// Staged ranges of device memory.
#[derive(Debug)]
pub struct DeviceStage {
    devices: GivenDevices,
    host: HostBuffer,
    /// In order, one behind the other.
    parts: Vec<StagedRange>,
}

/// One range and where it begins in the host memory.
#[derive(Clone, Copy, Debug)]
struct StagedRange {
    offset: u64,
    device: u64,
    bytes: u64,
}

// SAFETY: the buffer is plain memory of the process; the mover that uses it has the only right to
// the ranges.
unsafe impl Send for DeviceStage {}
// SAFETY: as above; the methods only pass its address on.
unsafe impl Sync for DeviceStage {}

impl DeviceStage {
    /// Host memory for ranges, each given by its first byte and its length, which is not 0.
    ///
    /// # Errors
    /// There is no memory; in words.
    pub fn new(
        devices: &GivenDevices,
        ranges: impl IntoIterator<Item = (u64, u64)>,
    ) -> Result<Self, String> {
        let mut total = 0;
        let part = |(device, bytes)| {
            let offset = total;
            total += bytes;
            StagedRange { offset, device, bytes }
        };
        let parts = ranges.into_iter().map(part).collect();
        let host = HostBuffer::allocate(total as usize).map_err(|error| error.to_string())?;
        Ok(Self { devices: devices.clone(), host, parts })
    }

    /// First byte of the host memory.
    pub fn host(&self) -> *mut u8 {
        self.host.base()
    }

    /// Where each range begins in host memory, in the order they were given.
    pub fn places(&self) -> impl Iterator<Item = u64> {
        let first = self.host() as u64;
        self.parts.iter().map(move |part| first + part.offset)
    }

    /// The device's address for which a byte of the host memory stands; `None` if it is not of this
    /// stage.
    pub fn origin(&self, host: u64) -> Option<u64> {
        let (offset, part) = self.part(host)?;
        Some(part.device + (offset - part.offset))
    }

    /// Brings the devices' bytes here.
    ///
    /// # Errors
    /// What the driver says.
    pub fn load(&self) -> Result<(), String> {
        for part in &self.parts {
            let host = self.host().wrapping_add(part.offset as usize);
            // SAFETY: the buffer is ours, and was made long enough for all parts.
            unsafe { self.devices.0.load(part.device, host, part.bytes as usize) }?;
        }
        Ok(())
    }

    /// Brings what is here from `host` on to the device, if all of it stands for one range.
    ///
    /// # Errors
    /// It does not, or what the driver says.
    pub fn store(&self, host: u64, bytes: u64) -> Result<(), String> {
        let inside = self.part(host).filter(|(offset, part)| {
            let end = offset.checked_add(bytes);
            end.is_some_and(|end| end <= part.offset + part.bytes)
        });
        let Some((offset, part)) = inside else {
            return Err(format!("{bytes} bytes at {host:#x} are not in the stage"));
        };
        let device = part.device + (offset - part.offset);
        // SAFETY: the range was just checked against the buffer.
        unsafe { self.devices.0.store(device, host as *const u8, bytes as usize) }
    }

    /// The part that an address of the host memory is in, and its offset there.
    fn part(&self, host: u64) -> Option<(u64, StagedRange)> {
        let offset = host.checked_sub(self.host() as u64)?;
        let next = self.parts.partition_point(|part| part.offset <= offset);
        let part = *self.parts.get(next.checked_sub(1)?)?;
        (offset < part.offset + part.bytes).then_some((offset, part))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::DeviceMemory;
    use std::sync::{Arc, Mutex};

    /// 256 bytes of a device, from address 1000 on.
    struct Card(Mutex<Vec<u8>>);

    impl DeviceMemory for Card {
        fn holds(&self, address: u64) -> bool {
            (1000..1256).contains(&address)
        }

        unsafe fn load(&self, device: u64, host: *mut u8, bytes: usize) -> Result<(), String> {
            let memory = self.0.lock().unwrap();
            let from = &memory[device as usize - 1000..][..bytes];
            // SAFETY: the caller vouches for `host`.
            unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), host, bytes) };
            Ok(())
        }

        unsafe fn store(&self, device: u64, host: *const u8, bytes: usize) -> Result<(), String> {
            let mut memory = self.0.lock().unwrap();
            let to = &mut memory[device as usize - 1000..][..bytes];
            // SAFETY: the caller vouches for `host`.
            unsafe { std::ptr::copy_nonoverlapping(host, to.as_mut_ptr(), bytes) };
            Ok(())
        }
    }

    #[test]
    fn every_byte_of_a_stage_stands_for_its_own_of_the_device() {
        let card = Arc::new(Card(Mutex::new((0..=255).collect())));
        let devices = GivenDevices(card.clone());
        let stage = DeviceStage::new(&devices, [(1100, 10), (1003, 1), (1200, 56)]).unwrap();
        stage.load().unwrap();
        let places: Vec<u64> = stage.places().collect();
        let first = stage.host() as u64;
        assert_eq!(places, [first, first + 10, first + 11]);
        for (offset, device) in [(0, 1100), (9, 1109), (10, 1003), (11, 1200), (66, 1255)] {
            assert_eq!(stage.origin(first + offset), Some(device));
            // SAFETY: the stage has 67 bytes.
            let byte = unsafe { stage.host().add(offset as usize).read() };
            assert_eq!(u64::from(byte), device - 1000);
        }
        assert_eq!(stage.origin(first + 67), None);
        assert_eq!(stage.origin(first - 1), None);
        // SAFETY: as above.
        unsafe { stage.host().write_bytes(0, 67) };
        stage.store(first + 8, 2).unwrap();
        assert!(stage.store(first + 8, 3).is_err(), "two ranges");
        assert!(stage.store(first + 67, 1).is_err());
        let memory = card.0.lock().unwrap();
        let changed = memory.iter().zip(0..=255u8).filter(|(now, then)| *now != then);
        assert_eq!(changed.map(|(_, at)| at).collect::<Vec<_>>(), [108, 109]);
    }
}
