//! Host memory through which bytes of devices pass, where the CPU sums them.
//! Invariant: memory is lent to one step of a call at a time; what is kept between calls was
//! registered with the rails once, when it was made.
#![expect(unsafe_code, reason = "it registers its memory with the rails")]

use crate::limits::{DEVICE_STAGE_BYTES_MIN, DEVICE_STAGES_KEPT_BYTES_MAX, STAGED_BYTES_MAX};
use perigee_memory::HostBuffer;
use perigee_rdma::Rdma;
use std::sync::{Arc, Mutex, PoisonError};

/// The memory of a client; the rails know it if there are any.
#[derive(Debug)]
pub(crate) struct DeviceStages {
    rdma: Option<Arc<Rdma>>,
    free: Mutex<Vec<HostBuffer>>,
}

/// Memory on loan to one step.
#[derive(Debug)]
pub(crate) struct DeviceStageLoan {
    stages: Arc<DeviceStages>,
    /// Always there until it is given back.
    buffer: Option<HostBuffer>,
}

impl DeviceStages {
    pub(crate) fn new(rdma: Option<Arc<Rdma>>) -> Arc<Self> {
        Arc::new(Self { rdma, free: Mutex::default() })
    }

    /// Memory of at least so many bytes.
    ///
    /// # Errors
    /// There is none; in words.
    pub(crate) fn lend(self: &Arc<Self>, bytes: usize) -> Result<DeviceStageLoan, String> {
        let buffer = match self.take(bytes) {
            Some(kept) => kept,
            None => self.make(bytes)?,
        };
        debug_assert!(buffer.len() >= bytes);
        Ok(DeviceStageLoan { stages: self.clone(), buffer: Some(buffer) })
    }

    /// The smallest that is free and large enough.
    fn take(&self, bytes: usize) -> Option<HostBuffer> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let fitting = free.iter().enumerate().filter(|(_, buffer)| buffer.len() >= bytes);
        let (at, _) = fitting.min_by_key(|(_, buffer)| buffer.len())?;
        Some(free.swap_remove(at))
    }

    fn make(&self, bytes: usize) -> Result<HostBuffer, String> {
        let room = match bytes {
            // A step has no more, but for one large object: that memory serves later ones too.
            0..=STAGED_BYTES_MAX => bytes.next_power_of_two().max(DEVICE_STAGE_BYTES_MIN),
            large => large,
        };
        let buffer = HostBuffer::allocate(room).map_err(|error| error.to_string())?;
        if let Some(rdma) = &self.rdma {
            // SAFETY: the buffer is unregistered before it is dropped.
            let made = unsafe { rdma.register(buffer.base() as u64, room as u64) };
            if let Err(error) = made {
                tracing::info!(%error, bytes = room, "RDMA devices refuse the stage of device memory; it is copied, or goes over TCP");
            }
        }
        Ok(buffer)
    }

    fn give_back(&self, buffer: HostBuffer) {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = free.iter().all(|other| other.base() != buffer.base());
        debug_assert!(is_new, "memory is on loan to one step, and comes back once");
        let kept: usize = free.iter().map(HostBuffer::len).sum();
        if kept + buffer.len() <= DEVICE_STAGES_KEPT_BYTES_MAX {
            free.push(buffer);
        } else {
            drop(free);
            self.forget(buffer);
        }
    }

    fn forget(&self, buffer: HostBuffer) {
        if let Some(rdma) = &self.rdma {
            rdma.unregister(buffer.base() as u64);
        }
        drop(buffer);
    }
}

impl Drop for DeviceStages {
    fn drop(&mut self) {
        let free = std::mem::take(&mut *self.free.lock().unwrap_or_else(PoisonError::into_inner));
        free.into_iter().for_each(|buffer| self.forget(buffer));
    }
}

impl DeviceStageLoan {
    /// Address of `bytes` at an offset, if they lie within it.
    pub(crate) fn range(&self, offset: usize, bytes: usize) -> Option<*mut u8> {
        self.buffer.as_ref()?.range(offset as u64, bytes as u64)
    }
}

impl Drop for DeviceStageLoan {
    fn drop(&mut self) {
        if let Some(buffer) = self.buffer.take() {
            self.stages.give_back(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first_byte(loan: &DeviceStageLoan) -> *mut u8 {
        loan.range(0, 1).unwrap()
    }

    #[test]
    fn memory_is_lent_once_at_a_time_and_used_again() {
        let stages = DeviceStages::new(None);
        let one = stages.lend(100).unwrap();
        let other = stages.lend(100).unwrap();
        assert_ne!(first_byte(&one), first_byte(&other));
        let address = first_byte(&one);
        drop(one);
        let again = stages.lend(DEVICE_STAGE_BYTES_MIN).unwrap();
        assert_eq!(first_byte(&again), address);
    }

    #[test]
    fn no_more_is_kept_than_the_limit() {
        let stages = DeviceStages::new(None);
        let loans: Vec<_> = (0..4).map(|_| stages.lend(STAGED_BYTES_MAX).unwrap()).collect();
        let large = stages.lend(DEVICE_STAGES_KEPT_BYTES_MAX + 1).unwrap();
        assert!(large.range(DEVICE_STAGES_KEPT_BYTES_MAX, 1).is_some());
        drop((loans, large));
        let kept: usize = stages.free.lock().unwrap().iter().map(HostBuffer::len).sum();
        assert_eq!(kept, DEVICE_STAGES_KEPT_BYTES_MAX);
    }
}
