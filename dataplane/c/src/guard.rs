//! The border between C and Rust. Invariant: a panic ends as an answer and a line in the log.

use crate::log::print_messages;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs the work of the function `name`; its answer, or `failed` if it panics. Messages are printed
/// from the first one on.
///
/// State that the work leaves behind is sound: locks of both libraries protect single updates.
pub fn guarded<R>(name: &str, failed: R, work: impl FnOnce() -> R) -> R {
    print_messages();
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|cause| {
        tracing::error!(cause = reason(&*cause), "{name}() failed by a defect of this library");
        failed
    })
}

fn reason(cause: &(dyn Any + Send)) -> &str {
    let text = cause.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| cause.downcast_ref::<&str>().copied()).unwrap_or("unknown")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_answer() {
        assert_eq!(guarded("works", -1, || 7), 7);
        assert_eq!(guarded("fails", -1, || panic!("here")), -1);
    }
}
