//! Asynchronous events of a device.
//! Invariant: an event is acknowledged before its translation is returned, so that no queue pair
//! ever waits for one while it is destroyed.

use std::os::fd::BorrowedFd;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};

use crate::device::DeviceEvent;
use crate::error::VerbsError;

use super::abi::{
    IBV_EVENT_DEVICE_FATAL, IBV_EVENT_GID_CHANGE, IBV_EVENT_LID_CHANGE, IBV_EVENT_PORT_ACTIVE,
    IBV_EVENT_PORT_ERR, IBV_EVENT_QP_ACCESS_ERR, IBV_EVENT_QP_FATAL, IBV_EVENT_QP_REQ_ERR, Zeroed,
    ibv_async_event,
};
use super::context::DeviceContext;
use super::failure::{meaning, returned};

/// The library makes its descriptors blocking.
pub(super) fn make_nonblocking(device: &str, fd: BorrowedFd<'_>) -> Result<(), VerbsError> {
    let set = || -> nix::Result<()> {
        let flags = OFlag::from_bits_retain(fcntl(fd, FcntlArg::F_GETFL)?);
        fcntl(fd, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
        Ok(())
    };
    set().map_err(|errno| meaning(device, "fcntl", errno))
}

/// The next event, if there is one.
pub(super) fn take(context: &DeviceContext) -> Result<Option<DeviceEvent>, VerbsError> {
    let mut event = ibv_async_event::zeroed();
    // SAFETY: the context is open, its descriptor does not block, and the structure is the
    // library's.
    let code = unsafe { (context.library.ibv_get_async_event)(context.raw, &raw mut event) };
    if code != 0 {
        return match returned(code) {
            Errno::EAGAIN | Errno::EINTR => Ok(None),
            errno => Err(context.failed("ibv_get_async_event", errno)),
        };
    }
    let translated = translate(&event);
    // SAFETY: the event came from `ibv_get_async_event` and is acknowledged once.
    unsafe { (context.library.ibv_ack_async_event)(&raw mut event) };
    Ok(Some(translated))
}

fn translate(event: &ibv_async_event) -> DeviceEvent {
    let port = || {
        // SAFETY: for events of ports this is the field that was filled in.
        let number = unsafe { event.element.port_num };
        u8::try_from(number).unwrap_or(0)
    };
    match event.event_type {
        IBV_EVENT_PORT_ERR => DeviceEvent::PortDown { port: port() },
        IBV_EVENT_PORT_ACTIVE => DeviceEvent::PortUp { port: port() },
        IBV_EVENT_GID_CHANGE | IBV_EVENT_LID_CHANGE => DeviceEvent::GidChange { port: port() },
        IBV_EVENT_DEVICE_FATAL => DeviceEvent::DeviceFatal,
        IBV_EVENT_QP_FATAL | IBV_EVENT_QP_REQ_ERR | IBV_EVENT_QP_ACCESS_ERR => {
            DeviceEvent::QueuePairFatal {
                // SAFETY: for events of queue pairs this is the field that was filled in, and the
                // queue pair cannot be destroyed before the event is acknowledged.
                queue_pair: unsafe { (*event.element.qp).qp_num },
            }
        }
        other => DeviceEvent::Other(u32::try_from(other).unwrap_or(u32::MAX)),
    }
}
