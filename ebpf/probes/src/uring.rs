//! io_uring requests of our processes, from submission to completion.

use crate::loss;
use aya_ebpf::helpers::{bpf_get_current_pid_tgid, bpf_get_prandom_u32, bpf_ktime_get_ns};
use aya_ebpf::macros::{btf_tracepoint, map};
use aya_ebpf::maps::{HashMap, PerCpuHashMap};
use aya_ebpf::programs::BtfTracePointContext;
use perigee_probe_types::{Loss, UringTotals};

const PROCESSES: u32 = 1024;
const UNDER_WAY: u32 = 16_384;

/// Our processes, put here by user space.
#[map]
static URINGS: PerCpuHashMap<u32, UringTotals> = PerCpuHashMap::with_max_entries(PROCESSES, 0);
/// Process and start of each sampled request.
#[map]
static URING_STARTS: HashMap<u64, UringStart> = HashMap::with_max_entries(UNDER_WAY, 0);

#[repr(C)]
#[derive(Clone, Copy)]
struct UringStart {
    started_ns: u64,
    process: u64,
}

/// `io_uring_submit_req(request)`
#[btf_tracepoint(function = "io_uring_submit_req")]
pub fn uring_submit(context: BtfTracePointContext) -> i32 {
    // SAFETY: the helpers have no requirements.
    let (random, process) =
        unsafe { (bpf_get_prandom_u32(), (bpf_get_current_pid_tgid() >> 32) as u32) };
    if random & ((1 << UringTotals::SAMPLE_SHIFT) - 1) != 0 || URINGS.get_ptr(&process).is_none() {
        return 0;
    }
    let request: *const u8 = context.arg(0);
    let start = UringStart {
        // SAFETY: the helper has no requirements.
        started_ns: unsafe { bpf_ktime_get_ns() },
        process: u64::from(process),
    };
    if URING_STARTS.insert(&(request as u64), &start, 0).is_err() {
        loss::count(Loss::UringStart);
    }
    0
}

/// `io_uring_complete(ring, request, ...)`
#[btf_tracepoint(function = "io_uring_complete")]
pub fn uring_complete(context: BtfTracePointContext) -> i32 {
    let request: *const u8 = context.arg(1);
    let key = request as u64;
    // SAFETY: the value is copied at once.
    let Some(start) = (unsafe { URING_STARTS.get(&key) }).copied() else {
        return 0;
    };
    let _ = URING_STARTS.remove(&key);
    if let Some(totals) = URINGS.get_ptr_mut(&(start.process as u32)) {
        // SAFETY: the helper has no requirements; the value belongs to this CPU.
        unsafe { (*totals).latency.add(bpf_ktime_get_ns().wrapping_sub(start.started_ns)) };
    }
    0
}
