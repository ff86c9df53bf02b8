//! Completion queues with their channels.
//! Invariant: destroyed only when no queue pair reports to it (each holds it), and with all its
//! events acknowledged, because the library waits for them.

use std::ffi::{c_int, c_uint};
use std::fmt;
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::ptr;
use std::sync::Arc;

use nix::errno::Errno;

use crate::error::VerbsError;
use crate::limits::POLL_MAX;
use crate::queue::{CompletionQueue, QueuePair, QueuePairOptions};
use crate::work::{CompletionStatus, WorkCompletion};

use super::abi::{
    IBV_WC_FATAL_ERR, IBV_WC_LOC_ACCESS_ERR, IBV_WC_LOC_LEN_ERR, IBV_WC_LOC_PROT_ERR,
    IBV_WC_LOC_QP_OP_ERR, IBV_WC_REM_ACCESS_ERR, IBV_WC_REM_INV_REQ_ERR, IBV_WC_REM_OP_ERR,
    IBV_WC_RETRY_EXC_ERR, IBV_WC_RNR_RETRY_EXC_ERR, IBV_WC_SUCCESS, IBV_WC_WR_FLUSH_ERR, PollCq,
    ReqNotifyCq, ibv_comp_channel, ibv_cq, ibv_wc,
};
use super::context::DeviceContext;
use super::events::make_nonblocking;
use super::failure::returned;
use super::library::Library;
use super::pair::HostQueuePair;

/// A channel and its one queue, as the library made them.
pub(super) struct CompletionChannel {
    channel: *mut ibv_comp_channel,
    pub(super) queue: *mut ibv_cq,
}

impl CompletionChannel {
    pub(super) fn open_raw(
        context: &DeviceContext,
        entries: u32,
    ) -> Result<CompletionChannel, VerbsError> {
        let library = &context.library;
        // SAFETY: the context is open.
        let channel = unsafe { (library.ibv_create_comp_channel)(context.raw) };
        if channel.is_null() {
            return Err(context.failed("ibv_create_comp_channel", Errno::last()));
        }
        let entries = c_int::try_from(entries).unwrap_or(c_int::MAX);
        // SAFETY: context and channel are alive; vector 0 exists on every device.
        let queue =
            unsafe { (library.ibv_create_cq)(context.raw, entries, ptr::null_mut(), channel, 0) };
        if queue.is_null() {
            let errno = Errno::last();
            // SAFETY: nothing uses the channel.
            unsafe { (library.ibv_destroy_comp_channel)(channel) };
            return Err(context.failed("ibv_create_cq", errno));
        }
        Ok(CompletionChannel { channel, queue })
    }

    /// Destroys both. All events taken must have been acknowledged.
    pub(super) fn close(&self, library: &Library) {
        // SAFETY: called once, when no queue pair is left; the queue goes before its channel.
        unsafe {
            (library.ibv_destroy_cq)(self.queue);
            (library.ibv_destroy_comp_channel)(self.channel);
        }
    }
}

/// What the handle and its queue pairs share.
pub(super) struct QueueInner {
    pub(super) context: Arc<DeviceContext>,
    pub(super) raw: CompletionChannel,
    poll: PollCq,
    notify: ReqNotifyCq,
    entries: u32,
}

// SAFETY: the verbs interface is thread-safe by its specification.
unsafe impl Send for QueueInner {}
// SAFETY: as above.
unsafe impl Sync for QueueInner {}

impl fmt::Debug for QueueInner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompletionQueue")
            .field("device", &self.context.info.name)
            .field("entries", &self.entries)
            .finish_non_exhaustive()
    }
}

impl Drop for QueueInner {
    fn drop(&mut self) {
        self.raw.close(&self.context.library);
    }
}

/// The handle of a completion queue.
#[derive(Debug)]
pub(super) struct HostCompletionQueue {
    inner: Arc<QueueInner>,
}

impl HostCompletionQueue {
    pub(super) fn create(
        context: &Arc<DeviceContext>,
        entries: u32,
    ) -> Result<HostCompletionQueue, VerbsError> {
        let limit = context.info.limits.completion_entries;
        if entries > limit {
            return Err(VerbsError::TooMuch {
                device: context.info.name.clone(),
                what: "Entries of a completion queue",
                asked: u64::from(entries),
                limit: u64::from(limit),
            });
        }
        // SAFETY: an open context has its table filled in.
        let ops = unsafe { &(*context.raw).ops };
        let (Some(poll), Some(notify)) = (ops.poll_cq, ops.req_notify_cq) else {
            return Err(context.failed("ibv_poll_cq", Errno::EOPNOTSUPP));
        };
        let raw = CompletionChannel::open_raw(context, entries)?;
        // SAFETY: the queue was just made.
        let granted = unsafe { (*raw.queue).cqe };
        let inner = QueueInner {
            context: Arc::clone(context),
            raw,
            poll,
            notify,
            entries: u32::try_from(granted).unwrap_or(entries).max(entries),
        };
        let queue = HostCompletionQueue { inner: Arc::new(inner) };
        make_nonblocking(&context.info.name, queue.event_fd())?;
        Ok(queue)
    }
}

impl CompletionQueue for HostCompletionQueue {
    fn poll(&self, into: &mut [WorkCompletion]) -> Result<usize, VerbsError> {
        let mut taken = 0;
        while taken < into.len() {
            let mut batch = [const { MaybeUninit::<ibv_wc>::uninit() }; POLL_MAX];
            let room = (into.len() - taken).min(POLL_MAX);
            // SAFETY: the queue is alive and `batch` has room for what is asked.
            let count = unsafe {
                (self.inner.poll)(self.inner.raw.queue, room as c_int, batch.as_mut_ptr().cast())
            };
            let Ok(count) = usize::try_from(count) else {
                return Err(self.inner.context.failed("ibv_poll_cq", returned(count)));
            };
            for (to, from) in into[taken..].iter_mut().zip(&batch[..count]) {
                // SAFETY: the library filled in the first `count`.
                *to = translate(unsafe { from.assume_init_ref() });
            }
            taken += count;
            if count < room {
                break;
            }
        }
        Ok(taken)
    }

    fn arm(&self) -> Result<(), VerbsError> {
        // SAFETY: the queue is alive; 0 asks for every completion.
        let code = unsafe { (self.inner.notify)(self.inner.raw.queue, 0) };
        match code {
            0 => Ok(()),
            code => Err(self.inner.context.failed("ibv_req_notify_cq", returned(code))),
        }
    }

    fn event_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the channel, and its descriptor, live as long as `self`.
        unsafe { BorrowedFd::borrow_raw((*self.inner.raw.channel).fd) }
    }

    fn drain_events(&self) -> Result<usize, VerbsError> {
        let library = &self.inner.context.library;
        let mut count: c_uint = 0;
        let outcome = loop {
            let (mut queue, mut cookie) = (ptr::null_mut(), ptr::null_mut());
            // SAFETY: the channel is alive and does not block; both pointers are written by it.
            let code = unsafe {
                (library.ibv_get_cq_event)(self.inner.raw.channel, &raw mut queue, &raw mut cookie)
            };
            if code == 0 {
                count += 1;
                continue;
            }
            break match returned(code) {
                Errno::EAGAIN | Errno::EINTR => Ok(count as usize),
                errno => Err(self.inner.context.failed("ibv_get_cq_event", errno)),
            };
        };
        if count > 0 {
            // SAFETY: the channel has only this queue, so all events were its.
            unsafe { (library.ibv_ack_cq_events)(self.inner.raw.queue, count) };
        }
        outcome
    }

    fn entries(&self) -> u32 {
        self.inner.entries
    }

    fn queue_pair(&self, options: &QueuePairOptions) -> Result<Box<dyn QueuePair>, VerbsError> {
        let pair = HostQueuePair::create(&self.inner, options)?;
        Ok(Box::new(pair))
    }
}

fn translate(from: &ibv_wc) -> WorkCompletion {
    let status = status_of(from.status);
    WorkCompletion {
        id: from.wr_id,
        status,
        // Only what was read is counted by devices; the rest of the fields of a failure is
        // undefined.
        bytes: if status.is_success() && from.opcode == IBV_WC_RDMA_READ {
            from.byte_len
        } else {
            0
        },
        queue_pair: from.qp_num,
    }
}

/// `enum ibv_wc_opcode`, where a read is 2; work requests count otherwise.
const IBV_WC_RDMA_READ: c_int = 2;

fn status_of(code: c_int) -> CompletionStatus {
    match code {
        IBV_WC_SUCCESS => CompletionStatus::Success,
        IBV_WC_WR_FLUSH_ERR => CompletionStatus::Flushed,
        IBV_WC_LOC_PROT_ERR | IBV_WC_LOC_ACCESS_ERR => CompletionStatus::LocalProtection,
        IBV_WC_LOC_QP_OP_ERR | IBV_WC_LOC_LEN_ERR => CompletionStatus::LocalOperation,
        IBV_WC_REM_ACCESS_ERR => CompletionStatus::RemoteAccess,
        IBV_WC_REM_INV_REQ_ERR => CompletionStatus::RemoteInvalidRequest,
        IBV_WC_REM_OP_ERR => CompletionStatus::RemoteOperation,
        IBV_WC_RETRY_EXC_ERR => CompletionStatus::RetryExceeded,
        IBV_WC_RNR_RETRY_EXC_ERR => CompletionStatus::RnrRetryExceeded,
        IBV_WC_FATAL_ERR => CompletionStatus::DeviceFatal,
        other => CompletionStatus::Other(u32::try_from(other).unwrap_or(u32::MAX)),
    }
}
