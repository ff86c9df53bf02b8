//! Reliable connected queue pairs.
//! Invariant: the arrays that a chain is built in are made once, so posting allocates nothing.

use std::ffi::c_int;
use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::ptr;
use std::sync::Arc;

use nix::errno::Errno;

use crate::capacity::QueuePairCapacity;
use crate::error::{PostError, VerbsError};
use crate::limits::{CHAIN_MAX, INLINE_STEPS_BYTES, SEQUENCE_MASK};
use crate::queue::{ConnectOptions, EndpointAddress, QueuePair, QueuePairOptions, QueuePairState};
use crate::work::WorkRequest;

use super::abi::{
    IBV_QP_STATE, IBV_QPS_ERR, IBV_QPS_RTS, IBV_QPT_RC, PostSend, Zeroed, ibv_cq, ibv_qp,
    ibv_qp_attr, ibv_qp_cap, ibv_qp_init_attr,
};
use super::completion::QueueInner;
use super::context::DeviceContext;
use super::failure::returned;

mod chain;
mod steps;

use chain::Chain;

/// One end of a connection.
pub(super) struct HostQueuePair {
    queue: Arc<QueueInner>,
    raw: *mut ibv_qp,
    post: PostSend,
    endpoint: EndpointAddress,
    capacity: QueuePairCapacity,
    options: QueuePairOptions,
    chain: Chain,
}

// SAFETY: the queue pair may be used from any thread, and `&mut self` keeps the chain to one at a
// time.
unsafe impl Send for HostQueuePair {}

impl fmt::Debug for HostQueuePair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueuePair")
            .field("device", &self.queue.context.info.name)
            .field("number", &self.endpoint.queue_pair)
            .finish_non_exhaustive()
    }
}

/// Whether a queue pair like this can be made; it is destroyed at once.
pub(super) fn can_create(
    context: &DeviceContext,
    queue: *mut ibv_cq,
    options: &QueuePairOptions,
) -> bool {
    match create_raw(context, queue, options) {
        Ok((raw, _)) => {
            // SAFETY: made just now, not used yet.
            unsafe { (context.library.ibv_destroy_qp)(raw) };
            true
        }
        Err(_) => false,
    }
}

fn create_raw(
    context: &DeviceContext,
    queue: *mut ibv_cq,
    options: &QueuePairOptions,
) -> Result<(*mut ibv_qp, ibv_qp_cap), Errno> {
    let mut attributes = ibv_qp_init_attr::zeroed();
    attributes.send_cq = queue;
    attributes.recv_cq = queue;
    attributes.qp_type = IBV_QPT_RC;
    attributes.cap = ibv_qp_cap {
        max_send_wr: options.send_entries,
        // Nothing is ever received; some providers refuse queues of no entries.
        max_recv_wr: 1,
        max_send_sge: options.pieces,
        max_recv_sge: 1,
        max_inline_data: options.inline_bytes,
    };
    // SAFETY: domain and queue are alive, and the structure is the library's.
    let raw = unsafe { (context.library.ibv_create_qp)(context.domain, &raw mut attributes) };
    if raw.is_null() {
        return Err(Errno::last());
    }
    Ok((raw, attributes.cap))
}

impl HostQueuePair {
    pub(super) fn create(
        queue: &Arc<QueueInner>,
        options: &QueuePairOptions,
    ) -> Result<HostQueuePair, VerbsError> {
        let context = &queue.context;
        check_options(context, options)?;
        let post = post_call(context)?;
        let gid = steps::own_gid(context, options.gid_index)?;
        let (raw, granted) = create_stepping(context, queue.raw.queue, options)?;
        // SAFETY: made just now; its number never changes.
        let number = unsafe { (*raw).qp_num };
        let capacity = QueuePairCapacity {
            send_entries: options.send_entries,
            pieces: options.pieces,
            inline_bytes: granted.max_inline_data.min(options.inline_bytes),
        };
        // From here on it is destroyed by dropping.
        let pair = HostQueuePair {
            queue: Arc::clone(queue),
            raw,
            post,
            endpoint: EndpointAddress {
                gid,
                lid: context.info.lid,
                queue_pair: number,
                sequence: RandomState::new().build_hasher().finish() as u32 & SEQUENCE_MASK,
                mtu_bytes: context.info.mtu_bytes.min(options.mtu_bytes),
            },
            capacity,
            options: *options,
            chain: Chain::new(options.pieces as usize),
        };
        pair.modify(&mut steps::to_init(context, options), steps::INIT_MASK)?;
        Ok(pair)
    }

    fn modify(&self, attributes: &mut ibv_qp_attr, mask: c_int) -> Result<(), VerbsError> {
        let context = &self.queue.context;
        // SAFETY: the queue pair is alive, and the structure is the library's.
        let code = unsafe { (context.library.ibv_modify_qp)(self.raw, attributes, mask) };
        match code {
            0 => Ok(()),
            code => Err(context.failed("ibv_modify_qp", returned(code))),
        }
    }

    /// Posts up to [`CHAIN_MAX`] requests with one doorbell.
    fn post_chain(&mut self, requests: &[WorkRequest<'_>]) -> Result<(), PostError> {
        let first = self.chain.build(requests);
        let mut bad = ptr::null_mut();
        // SAFETY: the chain's requests and pieces stay in place until the call returns; inline data
        // is borrowed by `requests`; everything else is named by keys that the device checks.
        let code = unsafe { (self.post)(self.raw, first, &raw mut bad) };
        if code == 0 {
            return Ok(());
        }
        let accepted = self.chain.position(bad);
        let context = &self.queue.context;
        let source = match returned(code) {
            Errno::ENOMEM => VerbsError::QueueFull {
                device: context.info.name.clone(),
                queue_pair: self.endpoint.queue_pair,
            },
            errno => context.failed("ibv_post_send", errno),
        };
        Err(PostError { accepted, source })
    }
}

/// Steps inline data down when it was that which could not be had.
fn create_stepping(
    context: &DeviceContext,
    queue: *mut ibv_cq,
    options: &QueuePairOptions,
) -> Result<(*mut ibv_qp, ibv_qp_cap), VerbsError> {
    let wanted = options.inline_bytes.min(context.info.limits.inline_bytes);
    let smaller = INLINE_STEPS_BYTES.into_iter().filter(|step| *step < wanted);
    let mut last = Errno::EINVAL;
    for inline_bytes in std::iter::once(wanted).chain(smaller) {
        let attempt = QueuePairOptions { inline_bytes, ..*options };
        match create_raw(context, queue, &attempt) {
            Ok(made) => return Ok(made),
            Err(Errno::EINVAL) => last = Errno::EINVAL,
            Err(errno) => return Err(context.failed("ibv_create_qp", errno)),
        }
    }
    Err(context.failed("ibv_create_qp", last))
}

fn check_options(context: &DeviceContext, options: &QueuePairOptions) -> Result<(), VerbsError> {
    let limits = context.info.limits;
    for (what, asked, limit) in [
        ("Entries of a send queue", options.send_entries, limits.send_entries),
        ("Pieces of a work request", options.pieces, limits.pieces),
        // The field of the address vector has eight bits.
        ("GID index", options.gid_index, u32::from(u8::MAX)),
    ] {
        if asked > limit {
            return Err(too_much(context, what, u64::from(asked), limit));
        }
    }
    Ok(())
}

fn too_much(context: &DeviceContext, what: &'static str, asked: u64, limit: u32) -> VerbsError {
    VerbsError::TooMuch { device: context.info.name.clone(), what, asked, limit: u64::from(limit) }
}

fn post_call(context: &DeviceContext) -> Result<PostSend, VerbsError> {
    // SAFETY: an open context has its table filled in.
    let call = unsafe { (*context.raw).ops.post_send };
    call.ok_or_else(|| context.failed("ibv_post_send", Errno::EOPNOTSUPP))
}

impl QueuePair for HostQueuePair {
    fn number(&self) -> u32 {
        self.endpoint.queue_pair
    }

    fn endpoint(&self) -> &EndpointAddress {
        &self.endpoint
    }

    fn capacity(&self) -> QueuePairCapacity {
        self.capacity
    }

    fn connect(
        &mut self,
        remote: &EndpointAddress,
        options: &ConnectOptions,
    ) -> Result<(), VerbsError> {
        let context = &self.queue.context;
        options.check(context.name())?;
        let state = self.state()?;
        if state != QueuePairState::Unconnected {
            return Err(VerbsError::WrongState {
                device: context.info.name.clone(),
                queue_pair: self.number(),
                state,
                call: "ibv_modify_qp",
            });
        }
        let mut ready = steps::to_receive(&context.info, &self.options, remote, options);
        self.modify(&mut ready, steps::RECEIVE_MASK)?;
        let mut sending = steps::to_send(&context.info, self.endpoint.sequence, options);
        self.modify(&mut sending, steps::SEND_MASK)
    }

    fn post(&mut self, requests: &[WorkRequest<'_>]) -> Result<(), PostError> {
        let mut posted = 0;
        for part in requests.chunks(CHAIN_MAX) {
            let fault = part.iter().enumerate().find_map(|(index, work)| {
                Some((index, work.check(&self.queue.context.info, &self.capacity).err()?))
            });
            let good = fault.as_ref().map_or(part.len(), |(index, _)| *index);
            if good > 0 {
                self.post_chain(&part[..good]).map_err(|error| PostError {
                    accepted: posted + error.accepted,
                    source: error.source,
                })?;
            }
            posted += good;
            if let Some((_, source)) = fault {
                return Err(PostError { accepted: posted, source });
            }
        }
        Ok(())
    }

    fn state(&self) -> Result<QueuePairState, VerbsError> {
        let context = &self.queue.context;
        let mut attributes = ibv_qp_attr::zeroed();
        let mut initial = ibv_qp_init_attr::zeroed();
        // SAFETY: the queue pair is alive, and both structures are the library's.
        let code = unsafe {
            (context.library.ibv_query_qp)(
                self.raw,
                &raw mut attributes,
                IBV_QP_STATE,
                &raw mut initial,
            )
        };
        match (code, attributes.qp_state) {
            (0, IBV_QPS_RTS) => Ok(QueuePairState::Connected),
            (0, 0..IBV_QPS_RTS) => Ok(QueuePairState::Unconnected),
            (0, _) => Ok(QueuePairState::Failed),
            (code, _) => Err(context.failed("ibv_query_qp", returned(code))),
        }
    }

    fn fail(&mut self) -> Result<(), VerbsError> {
        let mut attributes = ibv_qp_attr::zeroed();
        attributes.qp_state = IBV_QPS_ERR;
        self.modify(&mut attributes, IBV_QP_STATE)
    }
}

impl Drop for HostQueuePair {
    fn drop(&mut self) {
        // SAFETY: the pointer has no other owner, and events of queue pairs are acknowledged when
        // taken.
        unsafe { (self.queue.context.library.ibv_destroy_qp)(self.raw) };
    }
}
