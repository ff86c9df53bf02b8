//! Threads of our processes: waiting for a core, and asleep.

use crate::kernel::{self, TASK_PID, offset};
use aya_ebpf::helpers::bpf_ktime_get_ns;
use aya_ebpf::macros::{btf_tracepoint, map};
use aya_ebpf::maps::HashMap;
use aya_ebpf::programs::BtfTracePointContext;
use perigee_probe_types::TaskTotals;

const THREADS: u32 = 4096;

/// Our threads, put here by user space. A thread runs on one CPU at a time, so its value has one writer.
#[map]
static TASKS: HashMap<u32, TaskTotals> = HashMap::with_max_entries(THREADS, 0);
/// Since when a thread is ready to run.
#[map]
static READY_SINCE: HashMap<u32, u64> = HashMap::with_max_entries(THREADS, 0);
/// Since when a thread sleeps.
#[map]
static ASLEEP_SINCE: HashMap<u32, u64> = HashMap::with_max_entries(THREADS, 0);

/// `sched_wakeup(task)`
#[btf_tracepoint(function = "sched_wakeup")]
pub fn task_wakeup(context: BtfTracePointContext) -> i32 {
    let task: *const u8 = context.arg(0);
    let Some(thread) = kernel::read::<u32>(task, offset(&TASK_PID)) else {
        return 0;
    };
    let Some(totals) = TASKS.get_ptr_mut(&thread) else {
        return 0;
    };
    // SAFETY: the helper has no requirements.
    let now = unsafe { bpf_ktime_get_ns() };
    // SAFETY: the value is copied at once.
    if let Some(since) = (unsafe { ASLEEP_SINCE.get(&thread) }).copied() {
        let _ = ASLEEP_SINCE.remove(&thread);
        // SAFETY: the thread is not running, so nobody else counts for it.
        unsafe { (*totals).off_cpu.add(now.wrapping_sub(since)) };
    }
    let _ = READY_SINCE.insert(&thread, &now, 0);
    0
}

/// `sched_switch(preempt, previous, next, previous_state)`
#[btf_tracepoint(function = "sched_switch")]
pub fn task_switch(context: BtfTracePointContext) -> i32 {
    let previous: *const u8 = context.arg(1);
    let next: *const u8 = context.arg(2);
    let state: u32 = context.arg(3);
    if let Some(thread) = kernel::read::<u32>(previous, offset(&TASK_PID))
        && TASKS.get_ptr(&thread).is_some()
    {
        // SAFETY: the helper has no requirements.
        let now = unsafe { bpf_ktime_get_ns() };
        // State 0 was running: it lost the core and waits for one again.
        let since = if state == 0 { &READY_SINCE } else { &ASLEEP_SINCE };
        let _ = since.insert(&thread, &now, 0);
    }
    if let Some(thread) = kernel::read::<u32>(next, offset(&TASK_PID))
        && let Some(totals) = TASKS.get_ptr_mut(&thread)
        // SAFETY: the value is copied at once.
        && let Some(since) = (unsafe { READY_SINCE.get(&thread) }).copied()
    {
        let _ = READY_SINCE.remove(&thread);
        // SAFETY: the helper has no requirements; the thread starts here and nowhere else.
        unsafe { (*totals).run_queue.add(bpf_ktime_get_ns().wrapping_sub(since)) };
    }
    0
}
