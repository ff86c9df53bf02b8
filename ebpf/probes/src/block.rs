//! Block devices: how long requests queue, and how long the device takes.

use crate::kernel::{
    self, DISK_MAJOR, DISK_MINOR, QUEUE_DISK, REQUEST_FLAGS, REQUEST_QUEUE, REQUEST_START_NS,
    offset,
};
use crate::loss;
use aya_ebpf::helpers::bpf_ktime_get_ns;
use aya_ebpf::macros::{btf_tracepoint, map};
use aya_ebpf::maps::{Array, HashMap, PerCpuHashMap};
use aya_ebpf::programs::BtfTracePointContext;
use perigee_probe_types::{BlockKey, BlockTotals, Loss};

const DEVICES: u32 = 1024;
const UNDER_WAY: u32 = 65_536;
/// Do not replace what another CPU has put there.
const NO_EXIST: u64 = 1;

#[map]
static BLOCKS: PerCpuHashMap<BlockKey, BlockTotals> = PerCpuHashMap::with_max_entries(DEVICES, 0);
/// When each request went to its device.
#[map]
static BLOCK_STARTS: HashMap<u64, u64> = HashMap::with_max_entries(UNDER_WAY, 0);
/// A value too large for the stack.
#[map]
static NO_BLOCKS: Array<BlockTotals> = Array::with_max_entries(1, 0);

#[btf_tracepoint(function = "block_rq_issue")]
pub fn block_issue(context: BtfTracePointContext) -> i32 {
    let request: *const u8 = context.arg(0);
    // SAFETY: the helper has no requirements.
    let now = unsafe { bpf_ktime_get_ns() };
    if BLOCK_STARTS.insert(&(request as u64), &now, 0).is_err() {
        loss::count(Loss::BlockStart);
        return 0;
    }
    if let Some(totals) = totals(request) {
        // SAFETY: the value belongs to this CPU.
        unsafe { (*totals).issued += 1 };
    }
    0
}

/// `block_rq_complete(request, error, bytes)`
#[btf_tracepoint(function = "block_rq_complete")]
pub fn block_complete(context: BtfTracePointContext) -> i32 {
    let request: *const u8 = context.arg(0);
    let bytes: u32 = context.arg(2);
    let key = request as u64;
    // SAFETY: the value is copied at once; another CPU does not complete the same request.
    let Some(issued) = (unsafe { BLOCK_STARTS.get(&key) }).copied() else {
        return 0;
    };
    let _ = BLOCK_STARTS.remove(&key);
    let Some(totals) = totals(request) else {
        return 0;
    };
    let allocated = kernel::member::<u64>(request, offset(&REQUEST_START_NS)).unwrap_or(0);
    // SAFETY: the helper has no requirements; the value belongs to this CPU.
    unsafe {
        (*totals).device.add(bpf_ktime_get_ns().wrapping_sub(issued));
        // Zero when the queue keeps no statistics.
        if allocated != 0 && issued >= allocated {
            (*totals).queue.add(issued - allocated);
        }
        (*totals).bytes += u64::from(bytes);
    }
    0
}

#[inline(always)]
fn totals(request: *const u8) -> Option<*mut BlockTotals> {
    let flags = kernel::member::<u32>(request, offset(&REQUEST_FLAGS))?;
    let queue = kernel::member::<*const u8>(request, offset(&REQUEST_QUEUE))?;
    let disk = kernel::member::<*const u8>(queue, offset(&QUEUE_DISK))?;
    let key = BlockKey {
        major: kernel::member::<u32>(disk, offset(&DISK_MAJOR))?,
        minor: kernel::member::<u32>(disk, offset(&DISK_MINOR))?,
        operation: (flags & 0xff).min(2),
    };
    if let Some(totals) = BLOCKS.get_ptr_mut(&key) {
        return Some(totals);
    }
    let empty = NO_BLOCKS.get(0)?;
    let _ = BLOCKS.insert(&key, empty, NO_EXIST);
    BLOCKS.get_ptr_mut(&key)
}
