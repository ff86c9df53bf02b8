//! Ends of connections on the devices that there are.

use std::io::Write;
use std::os::fd::BorrowedFd;
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use perigee_memory::HostBuffer;
use perigee_verbs::libibverbs::HostDevices;
use perigee_verbs::{
    CompletionQueue, CompletionStatus, ConnectOptions, Device, Fabric, QueuePair, QueuePairOptions,
    Region, RegionAccess, Sge, WorkCompletion, WorkOperation, WorkRequest, gid,
};

/// Longer than anything takes on a busy emulated machine.
pub(crate) const LONG: Duration = Duration::from_secs(60);
pub(crate) const BYTES: usize = 1 << 20;

static TURN: Mutex<()> = Mutex::new(());

/// The devices of this host, for one test at a time.
pub(crate) struct Host {
    pub(crate) fabric: HostDevices,
    pub(crate) names: Vec<String>,
    _turn: MutexGuard<'static, ()>,
}

/// The active devices, or a loud word and nothing.
pub(crate) fn host() -> Option<Host> {
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let fabric = match HostDevices::load() {
        Ok(fabric) => fabric,
        Err(error) => return skip(&error.to_string()),
    };
    let active = fabric.devices().unwrap().into_iter().filter(|info| info.active);
    let names: Vec<String> = active.map(|info| info.name).collect();
    if names.is_empty() {
        return skip("this host has no active RDMA device; `make test-rdma` makes some");
    }
    Some(Host { fabric, names, _turn: turn })
}

/// As [`host`], in the guest only: for tests that break rails.
pub(crate) fn guest() -> Option<Host> {
    if std::env::var_os("PERIGEE_VM_RAIL").is_none() {
        return skip("rails are broken only inside the guest of `make test-rdma`");
    }
    host()
}

fn skip<T>(why: &str) -> Option<T> {
    // Straight to the descriptor: the test runner would swallow a print.
    let line = format!("SKIP: {why}\n");
    std::io::stderr().write_all(line.as_bytes()).unwrap();
    None
}

/// Runs the guest's script that breaks and mends rails: `["cut", "1"]`.
pub(crate) fn rail(arguments: &[&str]) {
    let script = std::env::var("PERIGEE_VM_RAIL").unwrap();
    let status = Command::new("bash").arg(script).args(arguments).status();
    assert!(status.unwrap().success(), "{arguments:?}");
}

/// One end of a connection with a buffer of [`BYTES`].
pub(crate) struct End {
    pub(crate) pair: Box<dyn QueuePair>,
    pub(crate) queue: Arc<dyn CompletionQueue>,
    pub(crate) region: Arc<dyn Region>,
    pub(crate) buffer: HostBuffer,
    pub(crate) device: Arc<dyn Device>,
    pub(crate) gid_index: u32,
}

impl Host {
    /// Two ends, on two devices if there are two, joined.
    pub(crate) fn joined(&self) -> (End, End) {
        let mut a = self.end(1);
        let mut b = self.end(0);
        join(&mut a, &mut b);
        (a, b)
    }

    /// An end on device `number`, or on the last one.
    pub(crate) fn end(&self, number: usize) -> End {
        let name = &self.names[number.min(self.names.len() - 1)];
        let device = self.fabric.open(name).unwrap();
        let ranked = gid::rank(name, &device.gids().unwrap(), None).unwrap();
        let gid_index = ranked[0].gid.index;
        let buffer = HostBuffer::allocate(BYTES).unwrap();
        // SAFETY: the region is dropped before the buffer, by the order of the fields.
        let region =
            unsafe { device.register(buffer.base() as u64, BYTES as u64, RegionAccess::ALL) };
        let queue = device.completion_queue(256).unwrap();
        let pair = queue.queue_pair(&options(gid_index)).unwrap();
        End { pair, queue, region: region.unwrap(), buffer, device, gid_index }
    }
}

pub(crate) fn options(gid_index: u32) -> QueuePairOptions {
    QueuePairOptions {
        gid_index,
        send_entries: 64,
        pieces: 4,
        inline_bytes: 128,
        ..QueuePairOptions::default()
    }
}

/// Three retries of 268 ms: what fails, fails soon, and a pause of a busy machine is no failure.
pub(crate) fn impatient() -> ConnectOptions {
    ConnectOptions { timeout_exponent: 16, retries: 3, ..ConnectOptions::default() }
}

pub(crate) fn join(a: &mut End, b: &mut End) {
    join_with(a, b, &impatient());
}

pub(crate) fn join_with(a: &mut End, b: &mut End, options: &ConnectOptions) {
    a.pair.connect(b.pair.endpoint(), options).unwrap();
    b.pair.connect(a.pair.endpoint(), options).unwrap();
}

impl End {
    /// A fresh queue pair in place of a failed one.
    pub(crate) fn renew(&mut self) {
        self.pair = self.queue.queue_pair(&options(self.gid_index)).unwrap();
    }

    pub(crate) fn fill(&self, with: impl Fn(usize) -> u8) {
        for offset in 0..BYTES {
            // SAFETY: inside of the buffer; volatile because the device reads behind the compiler's
            // back.
            unsafe { self.buffer.base().add(offset).write_volatile(with(offset)) };
        }
    }

    /// A copy of what the buffer holds.
    pub(crate) fn bytes(&self, offset: usize, length: usize) -> Vec<u8> {
        assert!(offset + length <= BYTES);
        let range = offset..offset + length;
        // SAFETY: inside of the buffer; volatile because the device writes behind the compiler's
        // back.
        range.map(|at| unsafe { self.buffer.base().add(at).read_volatile() }).collect()
    }

    pub(crate) fn piece(&self, offset: usize, bytes: usize) -> Sge {
        Sge {
            address: self.region.address() + offset as u64,
            bytes: u32::try_from(bytes).unwrap(),
            local_key: self.region.local_key(),
        }
    }

    /// The next completions, at least one.
    pub(crate) fn wait(&self) -> Vec<WorkCompletion> {
        let end = Instant::now() + LONG;
        let mut taken = [WorkCompletion::EMPTY; 64];
        while Instant::now() < end {
            let count = self.queue.poll(&mut taken).unwrap();
            if count > 0 {
                return taken[..count].to_vec();
            }
            // The device's work is done by the same processors.
            std::thread::yield_now();
        }
        unreachable!("no completion within {LONG:?}");
    }

    /// Writes or reads and waits for the end.
    pub(crate) fn run(&mut self, work: WorkRequest<'_>) -> CompletionStatus {
        self.pair.post(&[work]).unwrap();
        let ended = self.wait();
        assert_eq!((ended.len(), ended[0].id), (1, work.id));
        ended[0].status
    }

    /// Writes `bytes` from the start of this buffer to the start of `to`.
    pub(crate) fn write(&mut self, to: &End, bytes: usize) -> CompletionStatus {
        let pieces = [self.piece(0, bytes)];
        self.run(request(1, WorkOperation::Write(&pieces), to))
    }
}

pub(crate) fn request<'a>(id: u64, operation: WorkOperation<'a>, to: &End) -> WorkRequest<'a> {
    WorkRequest {
        id,
        operation,
        remote_address: to.region.address(),
        remote_key: to.region.remote_key(),
        signaled: true,
    }
}

/// Whether the descriptor becomes readable in time.
pub(crate) fn readable(fd: BorrowedFd<'_>, limit: Duration) -> bool {
    let mut fds = [PollFd::new(fd, PollFlags::POLLIN)];
    poll(&mut fds, PollTimeout::try_from(limit).unwrap()).unwrap() == 1
}

pub(crate) fn pattern(offset: usize) -> u8 {
    (offset * 31 % 251) as u8
}
