//! Batches as the data plane marks them. Attached only while the agent is read.

use crate::kernel::{self, NAMESPACES_NETWORK, TASK_NAMESPACES, offset};
use crate::loss;
use aya_ebpf::helpers::{
    bpf_get_current_pid_tgid, bpf_get_current_task_btf, bpf_ktime_get_boot_ns, bpf_probe_read_user,
};
use aya_ebpf::macros::{map, uprobe};
use aya_ebpf::maps::{Array, PerCpuArray, PerCpuHashMap, RingBuf};
use aya_ebpf::programs::ProbeContext;
use perigee_probe_types::{BatchKey, BatchMark, BatchTotals, Loss, SlowBatch};

const LABELS: u32 = 4096;
/// Memory for a key when it first comes: all keys times all CPUs would be megabytes on large hosts.
const NO_PREALLOC: u32 = 1;
const RING_BYTES: u32 = 1 << 18;
/// Do not replace what another CPU has put there.
const NO_EXIST: u64 = 1;

/// Set by the loader: batches that take longer go to the ring.
#[unsafe(no_mangle)]
static SLOW_BATCH_NS: u64 = 0;

#[map]
static BATCHES: PerCpuHashMap<BatchKey, BatchTotals> =
    PerCpuHashMap::with_max_entries(LABELS, NO_PREALLOC);
#[map]
static SLOW: RingBuf = RingBuf::with_byte_size(RING_BYTES, 0);
/// Values too large for the stack.
#[map]
static SCRATCH: PerCpuArray<Scratch> = PerCpuArray::with_max_entries(1, 0);
#[map]
static NO_BATCHES: Array<BatchTotals> = Array::with_max_entries(1, 0);

#[repr(C)]
struct Scratch {
    mark: BatchMark,
    key: BatchKey,
}

/// `perigee_batch_done(mark)`
#[uprobe]
pub fn batch_done(context: ProbeContext) -> u32 {
    let (Some(address), Some(scratch)) = (context.arg::<u64>(0), SCRATCH.get_ptr_mut(0)) else {
        return 0;
    };
    // SAFETY: the slot belongs to this CPU; the helper checks the user's address.
    let scratch = unsafe {
        match bpf_probe_read_user(address as *const BatchMark) {
            Ok(mark) => (*scratch).mark = mark,
            Err(_) => {
                loss::count(Loss::BatchRead);
                return 0;
            }
        }
        &mut *scratch
    };
    let mark = &scratch.mark;
    scratch.key.nic = mark.nic;
    scratch.key.peer = mark.peer;
    scratch.key.tenant = mark.tenant;
    scratch.key.route = mark.route;
    scratch.key.direction = mark.direction;
    scratch.key.is_foreign = u32::from(is_foreign());
    let latency = mark.queue_ns.wrapping_add(mark.wire_ns).wrapping_add(mark.disk_ns);
    match totals(&scratch.key) {
        // SAFETY: the value belongs to this CPU.
        Some(totals) => unsafe {
            (*totals).latency.add(latency);
            (*totals).operations += mark.operations;
            (*totals).bytes += mark.bytes;
            (*totals).queue_ns += mark.queue_ns;
            (*totals).wire_ns += mark.wire_ns;
        },
        None => loss::count(Loss::BatchMap),
    }
    // SAFETY: a static is valid for reads.
    if latency > unsafe { core::ptr::read_volatile(&raw const SLOW_BATCH_NS) } {
        report(mark, scratch.key.is_foreign);
    }
    0
}

/// Whether this process is in another network namespace than the agent.
#[inline(always)]
fn is_foreign() -> bool {
    // SAFETY: the helper has no requirements.
    let task: *const u8 = unsafe { bpf_get_current_task_btf() }.cast();
    let namespaces = kernel::member::<*const u8>(task, offset(&TASK_NAMESPACES));
    let network = namespaces.and_then(|all| kernel::member(all, offset(&NAMESPACES_NETWORK)));
    kernel::is_foreign(network)
}

#[inline(always)]
fn totals(key: &BatchKey) -> Option<*mut BatchTotals> {
    if let Some(totals) = BATCHES.get_ptr_mut(key) {
        return Some(totals);
    }
    let _ = BATCHES.insert(key, NO_BATCHES.get(0)?, NO_EXIST);
    BATCHES.get_ptr_mut(key)
}

#[inline(always)]
fn report(mark: &BatchMark, is_foreign: u32) {
    let Some(mut entry) = SLOW.reserve::<SlowBatch>(0) else {
        return loss::count(Loss::SlowRing);
    };
    // SAFETY: the helpers have no requirements.
    let (ended_ns, process) =
        unsafe { (bpf_ktime_get_boot_ns(), (bpf_get_current_pid_tgid() >> 32) as u32) };
    entry.write(SlowBatch { ended_ns, pid: process, is_foreign, mark: *mark });
    entry.submit(0);
}
