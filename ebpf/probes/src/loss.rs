//! What could not be counted is counted here.

use aya_ebpf::macros::map;
use aya_ebpf::maps::PerCpuArray;
use perigee_probe_types::Loss;

#[map]
static LOST: PerCpuArray<u64> = PerCpuArray::with_max_entries(Loss::ALL.len() as u32, 0);

#[inline(always)]
pub fn count(loss: Loss) {
    if let Some(cell) = LOST.get_ptr_mut(loss as u32) {
        // SAFETY: the cell belongs to this CPU, and a program is not interrupted by itself.
        unsafe { *cell += 1 };
    }
}
