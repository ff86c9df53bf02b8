//! Whether the limit of open files leaves room for what is to be started: libraries panic where
//! they find none.

use crate::executor::error::ExecutorError;
use nix::sys::resource::{Resource, getrlimit};

/// Checks before anything is started that `needed` more descriptors may be opened.
///
/// # Errors
/// The limit is too small; the message says how to raise it.
pub fn check_descriptors(needed: u64) -> Result<(), ExecutorError> {
    let (limit, _) =
        getrlimit(Resource::RLIMIT_NOFILE).map_err(|errno| ExecutorError::Thread(errno.into()))?;
    // Without /proc, or with no descriptor left to read it, all that is known is the limit.
    let open = std::fs::read_dir("/proc/self/fd").ok().map(|entries| entries.count() as u64);
    if limit < open.unwrap_or(0).saturating_add(needed) {
        let open = open.map_or_else(|| "an unknown number".to_owned(), |open| open.to_string());
        return Err(ExecutorError::Descriptors { limit, open, needed });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_is_too_small_is_refused_with_its_numbers() {
        assert!(check_descriptors(1).is_ok());
        let refused = check_descriptors(u64::MAX).expect_err("no limit is that high");
        let ExecutorError::Descriptors { limit, open, needed } = refused else {
            unreachable!("{refused}");
        };
        let open: u64 = open.parse().expect("a number");
        assert!(limit > open && open > 0 && needed == u64::MAX);
    }
}
