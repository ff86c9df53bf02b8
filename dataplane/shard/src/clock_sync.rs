//! What the kernel knows of how right its wall clock is. Invariant: read only; the clock is never
//! changed.
#![expect(unsafe_code, reason = "the kernel's clock is asked by a call that no library has")]

/// State of the wall clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockDiscipline {
    /// False if nothing keeps it right.
    pub is_synchronised: bool,
    /// How far it may be off, in microseconds.
    pub error_us: i64,
}

/// Asks the kernel; `None` if it does not say, as in some sandboxes.
#[must_use]
pub fn clock_discipline() -> Option<ClockDiscipline> {
    // SAFETY: all-zero bytes are a valid `timex`: it consists of integers only.
    let mut state: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a live `timex`; with `modes` zero the call only fills it.
    let result = unsafe { libc::adjtimex(&raw mut state) };
    (result >= 0).then_some(ClockDiscipline {
        is_synchronised: result != libc::TIME_ERROR && state.status & libc::STA_UNSYNC == 0,
        error_us: state.maxerror,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_answers_without_privilege() {
        let found = clock_discipline();
        assert!(found.is_none_or(|clock| clock.error_us >= 0), "{found:?}");
    }
}
