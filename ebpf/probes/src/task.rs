//! Threads of our processes: waiting for a core, and asleep.
//!
//! The scheduler keeps books of its own: when a thread got its core, how long it ran, how long it
//! has waited in all. They are read when a thread leaves its core, so one hook and no clock are
//! enough.

use crate::kernel::{
    self, ENTITY_RAN, SCHEDULING_ARRIVAL, SCHEDULING_DELAY, TASK_ENTITY, TASK_PID, TASK_SCHEDULING,
    offset,
};
use aya_ebpf::macros::{btf_tracepoint, map};
use aya_ebpf::maps::HashMap;
use aya_ebpf::programs::BtfTracePointContext;
use perigee_probe_types::{TaskBooks, TaskTotals};

const THREADS: u32 = 4096;

/// Our threads, put here by user space. A thread leaves one CPU at a time, so its value has one
/// writer. The hook sees every thread of the host: one lookup is all that foreign ones cost.
#[map]
static TASKS: HashMap<u32, TaskTotals> = HashMap::with_max_entries(THREADS, 0);

/// `sched_switch(preempt, previous, next, previous_state)`
#[btf_tracepoint(function = "sched_switch")]
pub fn task_switch(context: BtfTracePointContext) -> i32 {
    let task: *const u8 = context.arg(1);
    let Some(thread) = kernel::member::<u32>(task, offset(&TASK_PID)) else {
        return 0;
    };
    let Some(totals) = TASKS.get_ptr_mut(&thread) else {
        return 0;
    };
    let state: u32 = context.arg(3);
    if let Some(books) = books(task) {
        // SAFETY: the value has one writer, as said at the map; user space only reads it.
        unsafe { (*totals).leave(&books, state == 0) };
    }
    0
}

#[inline(always)]
fn books(task: *const u8) -> Option<TaskBooks> {
    let scheduling = offset(&TASK_SCHEDULING);
    Some(TaskBooks {
        arrived_ns: kernel::member(task, scheduling + offset(&SCHEDULING_ARRIVAL))?,
        waited_ns: kernel::member(task, scheduling + offset(&SCHEDULING_DELAY))?,
        ran_ns: kernel::member(task, offset(&TASK_ENTITY) + offset(&ENTITY_RAN))?,
    })
}
