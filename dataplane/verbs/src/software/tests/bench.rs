//! Two hosts with a connected pair of queue pairs, for the tests.

use std::sync::Arc;
use std::time::Duration;

use perigee_memory::HostBuffer;

use crate::device::{Device, Fabric};
use crate::queue::{CompletionQueue, ConnectOptions, QueuePair, QueuePairOptions};
use crate::region::{Region, RegionAccess};
use crate::software::{Clock, DevicePlan, SoftwareNetwork};
use crate::work::{Sge, WorkCompletion, WorkOperation, WorkRequest};

pub(super) const BYTES: usize = 1 << 16;

/// One end: a buffer, its region, a completion queue and a queue pair.
pub(super) struct End {
    pub(super) pair: Box<dyn QueuePair>,
    pub(super) queue: Arc<dyn CompletionQueue>,
    pub(super) region: Arc<dyn Region>,
    pub(super) buffer: HostBuffer,
    pub(super) device: Arc<dyn Device>,
}

pub(super) fn end(fabric: &dyn Fabric, device: &str) -> End {
    let device = fabric.open(device).unwrap();
    let buffer = HostBuffer::allocate(BYTES).unwrap();
    // SAFETY: the region is declared before the buffer, so it is dropped first.
    let region = unsafe { device.register(buffer.base() as u64, BYTES as u64, RegionAccess::ALL) };
    let queue = device.completion_queue(64).unwrap();
    let options = QueuePairOptions {
        send_entries: 8,
        pieces: 4,
        inline_bytes: 64,
        ..QueuePairOptions::default()
    };
    let pair = queue.queue_pair(&options).unwrap();
    End { pair, queue, region: region.unwrap(), buffer, device }
}

/// Retries twice, 67 ms each.
pub(super) fn options() -> ConnectOptions {
    ConnectOptions { retries: 2, ..ConnectOptions::default() }
}

pub(super) fn join(a: &mut End, b: &mut End) {
    a.pair.connect(b.pair.endpoint(), &options()).unwrap();
    b.pair.connect(a.pair.endpoint(), &options()).unwrap();
}

/// Hosts `a` and `b` with a device `sw0` each, joined.
pub(super) fn joined(clock: Clock) -> (SoftwareNetwork, End, End) {
    let network = SoftwareNetwork::new(clock).unwrap();
    let [mut a, mut b] = ["a", "b"].map(|host| {
        let fabric = network.host(host, &[DevicePlan::new("sw0")]).unwrap();
        end(fabric.as_ref(), "sw0")
    });
    join(&mut a, &mut b);
    (network, a, b)
}

impl End {
    pub(super) fn fill(&self, byte: u8) {
        // SAFETY: the buffer is BYTES long, and the fabric is not at work on it.
        unsafe { self.buffer.base().write_bytes(byte, BYTES) };
    }

    pub(super) fn byte(&self, offset: usize) -> u8 {
        assert!(offset < BYTES);
        // SAFETY: inside the buffer; volatile because the fabric writes behind the compiler's back.
        unsafe { self.buffer.base().add(offset).read_volatile() }
    }

    pub(super) fn piece(&self, offset: u64, bytes: u32) -> Sge {
        Sge { address: self.region.address() + offset, bytes, local_key: self.region.local_key() }
    }

    /// Writes the first `bytes` of this end to the start of `to`.
    pub(super) fn write(&mut self, id: u64, to: &dyn Region, bytes: u32) {
        let piece = [self.piece(0, bytes)];
        let work = request(id, WorkOperation::Write(&piece), to);
        self.pair.post(&[work]).unwrap();
    }

    pub(super) fn poll(&self) -> Vec<WorkCompletion> {
        let mut taken = [WorkCompletion::EMPTY; 32];
        let count = self.queue.poll(&mut taken).unwrap();
        taken[..count].to_vec()
    }

    /// Ids and statuses that are there now.
    pub(super) fn ended(&self) -> Vec<(u64, crate::work::CompletionStatus)> {
        let completions = self.poll();
        completions.iter().map(|end| (end.id, end.status)).collect()
    }
}

pub(super) fn request<'a>(
    id: u64,
    operation: WorkOperation<'a>,
    to: &dyn Region,
) -> WorkRequest<'a> {
    WorkRequest {
        id,
        operation,
        remote_address: to.address(),
        remote_key: to.remote_key(),
        signaled: true,
    }
}

/// Longer than all retries of [`options`].
pub(super) const PAST_RETRIES: Duration = Duration::from_millis(300);
