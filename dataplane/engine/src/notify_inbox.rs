//! Notifies from peers that have not been taken yet. Invariant: at most [`NOTIFIES_MAX`] are kept;
//! one more is refused, and its sender gets the refusal.

use crate::limits::NOTIFIES_MAX;
use crate::request::Notify;
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// A bounded queue.
#[derive(Debug, Default)]
pub(crate) struct NotifyInbox {
    waiting: Mutex<VecDeque<Notify>>,
}

impl NotifyInbox {
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
        let inbox = NotifyInbox::default();
        let notify = |number: usize| Notify { name: number.to_string(), message: String::new() };
        for number in 0..NOTIFIES_MAX {
            inbox.put(notify(number)).unwrap();
        }
        assert!(inbox.put(notify(0)).is_err());
        let taken = inbox.take();
        assert_eq!((taken.len(), taken[1].name.as_str()), (NOTIFIES_MAX, "1"));
        assert!(inbox.take().is_empty());
    }
}
