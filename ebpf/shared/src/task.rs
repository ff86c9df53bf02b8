//! Threads and io_uring requests of our processes.

use crate::histogram::DurationHistogram;

/// What the kernel's scheduler has noted of a thread that leaves its core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct TaskBooks {
    /// When it got the core, on the scheduler's clock.
    pub arrived_ns: u64,
    /// How long it has waited for cores in all its life. Waits that a control group's quota imposes
    /// are not in it.
    pub waited_ns: u64,
    /// How long it has run in all its life.
    pub ran_ns: u64,
}

/// How a thread waited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct TaskTotals {
    /// When it left its core last; 0 if that is not known yet.
    left_ns: u64,
    /// Whether it wanted to go on then.
    was_runnable: u64,
    /// What the scheduler had noted then.
    books: TaskBooks,
    /// Ready to run but without a core: what a starved shard shows.
    pub run_queue: DurationHistogram,
    /// Asleep until something woke it.
    pub off_cpu: DurationHistogram,
}

impl TaskTotals {
    /// Counts how the thread waited before it got the core that it leaves now.
    #[inline(always)]
    pub fn leave(&mut self, books: &TaskBooks, is_runnable: bool) {
        let waited = books.waited_ns.wrapping_sub(self.books.waited_ns);
        let away = books.arrived_ns.wrapping_sub(self.left_ns);
        let ran = books.ran_ns.wrapping_sub(self.books.ran_ns);
        // The scheduler's clocks of two cores may differ by a little: no task was off its core for
        // a negative time.
        let is_sane = books.arrived_ns >= self.left_ns;
        if self.left_ns != 0 && is_sane && self.was_runnable != 0 {
            self.run_queue.add(away);
        } else if self.left_ns != 0 && is_sane {
            self.run_queue.add(waited);
            self.off_cpu.add(away.saturating_sub(waited));
        }
        // Of the first stay that is seen the beginning is known and not the length.
        self.left_ns = match self.books.arrived_ns {
            0 => 0,
            _ => books.arrived_ns.wrapping_add(ran),
        };
        self.was_runnable = u64::from(is_runnable);
        self.books = *books;
    }
}

/// io_uring requests of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct UringTotals {
    /// From submission to completion; a sample of one in `1 << UringTotals::SAMPLE_SHIFT`.
    pub latency: DurationHistogram,
}

impl UringTotals {
    /// Measuring every request would cost more than small requests do themselves.
    pub const SAMPLE_SHIFT: u32 = 5;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn books(arrived_ns: u64, waited_ns: u64, ran_ns: u64) -> TaskBooks {
        TaskBooks { arrived_ns, waited_ns, ran_ns }
    }

    /// A thread that was seen to leave its core at 2,100 after it had run for 100.
    fn seen(is_runnable: bool) -> TaskTotals {
        let mut totals = TaskTotals::default();
        totals.leave(&books(1_000, 50, 10), false);
        totals.leave(&books(2_000, 60, 110), is_runnable);
        assert_eq!((totals.run_queue.count, totals.off_cpu.count), (0, 0));
        totals
    }

    #[test]
    fn a_sleep_is_distinguished_from_the_wait_after_it() {
        let mut totals = seen(false);
        totals.leave(&books(3_000, 90, 150), false);
        assert_eq!((totals.run_queue.count, totals.run_queue.sum), (1, 30));
        assert_eq!((totals.off_cpu.count, totals.off_cpu.sum), (1, 900 - 30));
    }

    #[test]
    fn a_task_that_lost_its_core_waited_all_the_time_also_for_its_quota() {
        let mut totals = seen(true);
        // The scheduler's own sum knows nothing of a throttled group.
        totals.leave(&books(90_000, 60, 120), true);
        assert_eq!(totals.run_queue.sum, 90_000 - 2_100);
        assert_eq!(totals.off_cpu.count, 0);
    }

    #[test]
    fn clocks_that_go_back_count_nothing() {
        let mut totals = seen(true);
        totals.leave(&books(1_500, 60, 110), true);
        assert_eq!((totals.run_queue.count, totals.off_cpu.count), (0, 0));
    }
}
