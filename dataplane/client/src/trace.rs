//! What calls belong to: one request of the program, which can then be followed through the
//! cluster.
//! Invariant: after [`in_trace`] the thread's calls belong to what they belonged to before.

use perigee_activity::{belonging, belongs_to};
use perigee_schemas::trace::TraceContext;

/// Runs `work`, whose calls belong to the request that a `traceparent` of W3C names; what is none
/// counts as none. `perigee trace ID` shows where the time of those calls went.
///
/// The thread's calls are meant, and those that [`crate::ObjectStore::start`] begins within.
pub fn in_trace<T>(traceparent: &str, work: impl FnOnce() -> T) -> T {
    within(TraceContext::parse(traceparent), work)
}

/// Runs `work` elsewhere as it would run here.
pub(crate) fn taken_along<T>(work: impl FnOnce() -> T) -> impl FnOnce() -> T {
    let context = belonging();
    move || within(context, work)
}

fn within<T>(context: Option<TraceContext>, work: impl FnOnce() -> T) -> T {
    let _before = Before(belongs_to(context));
    work()
}

/// What the thread's calls belonged to before; they do again when it is dropped, by a panic too.
struct Before(Option<TraceContext>);

impl Drop for Before {
    fn drop(&mut self) {
        belongs_to(self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACEPARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn calls_belong_to_a_request_while_the_work_runs_and_where_it_is_taken_to() {
        let named = TraceContext::parse(TRACEPARENT);
        let taken = in_trace(TRACEPARENT, || {
            assert_eq!(belonging(), named);
            in_trace("no traceparent", || assert_eq!(belonging(), None));
            assert_eq!(belonging(), named);
            taken_along(belonging)
        });
        assert_eq!(belonging(), None);
        assert_eq!(std::thread::spawn(taken).join().unwrap(), named);
        let panicked = std::panic::catch_unwind(|| in_trace(TRACEPARENT, || panic!("work")));
        assert!(panicked.is_err() && belonging().is_none());
    }
}
