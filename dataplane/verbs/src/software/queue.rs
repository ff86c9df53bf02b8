//! Completion queues and queue pairs of software devices.
//! Invariant: a send entry is taken by posting and given back only with a completion that was
//! polled, exactly as on hardware.

use std::os::fd::BorrowedFd;
use std::sync::{Arc, MutexGuard};

use nix::errno::Errno;

use crate::capacity::QueuePairCapacity;
use crate::error::{PostError, VerbsError};
use crate::limits::SEQUENCE_MASK;
use crate::queue::{
    CompletionQueue, ConnectOptions, EndpointAddress, QueuePair, QueuePairOptions, QueuePairState,
};
use crate::work::{WorkCompletion, WorkOperation, WorkRequest};

use super::device::OpenDevice;
use super::signal::EventPipe;
use super::state::{
    CompletionQueueState, FabricState, LocalBytes, PairState, PostedRequest, strikes,
};

/// The handle of a completion queue.
#[derive(Debug)]
pub(super) struct SoftwareCompletionQueue {
    inner: Arc<QueueHandle>,
}

/// What the queue and its queue pairs share: the entry in the table lives as long as any of them.
#[derive(Debug)]
struct QueueHandle {
    opened: Arc<OpenDevice>,
    number: u64,
    entries: u32,
    signal: Arc<EventPipe>,
}

impl SoftwareCompletionQueue {
    pub(super) fn new(
        opened: &Arc<OpenDevice>,
        entries: u32,
    ) -> Result<SoftwareCompletionQueue, VerbsError> {
        let limit = u64::from(opened.info.limits.completion_entries);
        opened.check_most("Entries of a completion queue", u64::from(entries), limit)?;
        if entries == 0 {
            return Err(opened.failed("ibv_create_cq", Errno::EINVAL));
        }
        let signal = Arc::new(EventPipe::new(&opened.info.name)?);
        let mut state = opened.lock_live("ibv_create_cq")?;
        let number = state.next_serial();
        state.queues.insert(
            number,
            CompletionQueueState {
                entries,
                ready: std::collections::VecDeque::new(),
                armed: false,
                overrun: false,
                signal: Arc::clone(&signal),
            },
        );
        Ok(SoftwareCompletionQueue {
            inner: Arc::new(QueueHandle { opened: Arc::clone(opened), number, entries, signal }),
        })
    }
}

impl CompletionQueue for SoftwareCompletionQueue {
    fn poll(&self, into: &mut [WorkCompletion]) -> Result<usize, VerbsError> {
        const CALL: &str = "ibv_poll_cq";
        let mut state = self.inner.opened.lock(CALL)?;
        let until = state.now() + state.poll_step;
        state.run_until(until);
        let taken = state.take_completions(self.inner.number, into);
        taken.ok_or_else(|| self.inner.opened.failed(CALL, Errno::EOVERFLOW))
    }

    fn arm(&self) -> Result<(), VerbsError> {
        let mut state = self.inner.opened.lock("ibv_req_notify_cq")?;
        if let Some(queue) = state.queues.get_mut(&self.inner.number) {
            queue.armed = true;
        }
        Ok(())
    }

    fn event_fd(&self) -> BorrowedFd<'_> {
        self.inner.signal.fd()
    }

    fn drain_events(&self) -> Result<usize, VerbsError> {
        let drained = self.inner.signal.drain();
        drained.map_err(|errno| self.inner.opened.failed("ibv_get_cq_event", errno))
    }

    fn entries(&self) -> u32 {
        self.inner.entries
    }

    fn queue_pair(&self, options: &QueuePairOptions) -> Result<Box<dyn QueuePair>, VerbsError> {
        let pair = SoftwareQueuePair::new(&self.inner, options)?;
        Ok(Box::new(pair))
    }
}

impl Drop for QueueHandle {
    fn drop(&mut self) {
        let mut state = self.opened.network().shared().lock();
        state.queues.remove(&self.number);
    }
}

/// The handle of a queue pair.
#[derive(Debug)]
struct SoftwareQueuePair {
    queue: Arc<QueueHandle>,
    number: u32,
    endpoint: EndpointAddress,
    capacity: QueuePairCapacity,
}

impl SoftwareQueuePair {
    fn new(
        queue: &Arc<QueueHandle>,
        options: &QueuePairOptions,
    ) -> Result<SoftwareQueuePair, VerbsError> {
        const CALL: &str = "ibv_create_qp";
        let opened = &queue.opened;
        let limits = opened.info.limits;
        for (what, asked, limit) in [
            ("Entries of a send queue", options.send_entries, limits.send_entries),
            ("Pieces of a work request", options.pieces, limits.pieces),
        ] {
            opened.check_most(what, u64::from(asked), u64::from(limit))?;
        }
        let mut state = opened.lock_live(CALL)?;
        let port = &mut state.ports[opened.port];
        let refused = strikes(&mut port.planned.refuse_queue_pairs);
        if refused || port.queue_pairs >= limits.queue_pairs {
            return Err(opened.out_of_memory(CALL));
        }
        let gid = port.gids.iter().find(|gid| gid.index == options.gid_index);
        let gid = gid.ok_or_else(|| opened.failed("ibv_query_gid", Errno::EINVAL))?.address;
        port.queue_pairs += 1;
        let mtu_bytes = port.info.mtu_bytes.min(options.mtu_bytes);
        let number = state.next_queue_pair();
        let capacity = QueuePairCapacity {
            send_entries: options.send_entries,
            pieces: options.pieces,
            inline_bytes: options.inline_bytes.min(limits.inline_bytes),
        };
        let pair = PairState::new(opened.port, opened.number, queue.number, *options);
        state.pairs.insert(number, pair);
        Ok(SoftwareQueuePair {
            queue: Arc::clone(queue),
            number,
            endpoint: EndpointAddress {
                gid,
                lid: 0,
                queue_pair: number,
                sequence: number & SEQUENCE_MASK,
                mtu_bytes,
            },
            capacity,
        })
    }

    fn wrong_state(&self, state: QueuePairState, call: &'static str) -> VerbsError {
        VerbsError::WrongState {
            device: self.queue.opened.info.name.clone(),
            queue_pair: self.number,
            state,
            call,
        }
    }

    /// Whether one more request can be taken.
    fn admit(&self, state: &mut FabricState, work: &WorkRequest<'_>) -> Result<(), VerbsError> {
        const CALL: &str = "ibv_post_send";
        let opened = &self.queue.opened;
        let Some(pair) = state.pairs.get(&self.number) else {
            return Err(self.wrong_state(QueuePairState::Failed, CALL));
        };
        if pair.state != QueuePairState::Connected {
            return Err(self.wrong_state(pair.state, CALL));
        }
        work.check(&opened.info, &self.capacity)?;
        let is_full = pair.held >= self.capacity.send_entries;
        let planned = &mut state.ports[opened.port].planned;
        if strikes(&mut planned.refuse_posts) {
            return Err(opened.failed(CALL, Errno::EIO));
        }
        if is_full || strikes(&mut planned.report_full) {
            return Err(VerbsError::QueueFull {
                device: opened.info.name.clone(),
                queue_pair: self.number,
            });
        }
        Ok(())
    }
}

impl QueuePair for SoftwareQueuePair {
    fn number(&self) -> u32 {
        self.number
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
        const CALL: &str = "ibv_modify_qp";
        options.check(&self.queue.opened.info.name)?;
        let mut state = self.queue.opened.lock_live(CALL)?;
        let Some(pair) = state.pairs.get_mut(&self.number) else {
            return Err(self.wrong_state(QueuePairState::Failed, CALL));
        };
        if pair.state != QueuePairState::Unconnected {
            return Err(self.wrong_state(pair.state, CALL));
        }
        pair.peer = Some((*remote, *options));
        pair.state = QueuePairState::Connected;
        Ok(())
    }

    fn post(&mut self, chain: &[WorkRequest<'_>]) -> Result<(), PostError> {
        let refused = |accepted, source| PostError { accepted, source };
        let opened = &self.queue.opened;
        let mut state: MutexGuard<'_, FabricState> =
            opened.lock_live("ibv_post_send").map_err(|source| refused(0, source))?;
        for (accepted, work) in chain.iter().enumerate() {
            if let Err(source) = self.admit(&mut state, work) {
                opened.network().shared().settle(&mut state);
                return Err(refused(accepted, source));
            }
            let local = match work.operation {
                WorkOperation::Read(pieces) => LocalBytes::Read(pieces.to_vec()),
                WorkOperation::Write(pieces) => LocalBytes::Write(pieces.to_vec()),
                WorkOperation::WriteInline(data) => LocalBytes::Inline(data.to_vec()),
            };
            let remote = (work.remote_address, work.remote_key);
            state.post(self.number, PostedRequest::new(work.id, local, remote, work.signaled));
        }
        opened.network().shared().settle(&mut state);
        Ok(())
    }

    fn state(&self) -> Result<QueuePairState, VerbsError> {
        let state = self.queue.opened.lock("ibv_query_qp")?;
        let pair = state.pairs.get(&self.number);
        Ok(pair.map_or(QueuePairState::Failed, |pair| pair.state))
    }

    fn fail(&mut self) -> Result<(), VerbsError> {
        let mut state = self.queue.opened.lock("ibv_modify_qp")?;
        state.fail_queue_pair(self.number);
        Ok(())
    }
}

impl Drop for SoftwareQueuePair {
    fn drop(&mut self) {
        let opened = &self.queue.opened;
        let mut state = opened.network().shared().lock();
        if state.pairs.remove(&self.number).is_some() {
            state.ports[opened.port].queue_pairs -= 1;
        }
    }
}
