//! Notifies that peers sent and nobody has taken yet.
//! Invariant: at most [`NOTIFIES_MAX`] are kept; when one more comes, it is refused and its sender is told.

use crate::limits::NOTIFIES_MAX;
use crate::request::Notify;
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// A bounded queue.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    waiting: Mutex<VecDeque<Notify>>,
}

impl Inbox {
    /// Keeps a notify; the error is for its sender.
    pub(crate) fn put(&self, notify: Notify) -> Result<(), String> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() >= NOTIFIES_MAX {
            return Err(format!("{NOTIFIES_MAX} notifies wait to be taken"));
        }
        waiting.push_back(notify);
        Ok(())
    }

    /// Takes all, oldest first.
    pub(crate) fn take(&self) -> Vec<Notify> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.drain(..).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notifies_come_out_in_order_and_too_many_are_refused() {
        let inbox = Inbox::default();
        let notify = |number: usize| Notify {
            name: number.to_string(),
            message: String::new(),
        };
        for number in 0..NOTIFIES_MAX {
            inbox.put(notify(number)).unwrap();
        }
        assert!(inbox.put(notify(0)).is_err());
        let taken = inbox.take();
        assert_eq!((taken.len(), taken[1].name.as_str()), (NOTIFIES_MAX, "1"));
        assert!(inbox.take().is_empty());
    }
}
