//! Messages as C gets them: an array and its texts, each from `malloc()`, because callers free
//! texts of their own.
//! Invariant: an array is freed once, whole, with the length it was given out with.

use crate::entry::NotifyEntry;
use perigee_c::ArgumentError;
use perigee_engine::{EngineError, Notify};
use std::collections::HashMap;
use std::ffi::{c_char, c_void};
use std::ptr;
use std::sync::{LazyLock, Mutex, PoisonError};

/// Lengths of the arrays that callers have, by address.
static GIVEN_OUT: LazyLock<Mutex<HashMap<usize, usize>>> = LazyLock::new(Mutex::default);

/// Hands messages to C; null for none.
pub(crate) fn give_out(notifies: &[Notify]) -> Result<*mut NotifyEntry, EngineError> {
    if notifies.is_empty() {
        return Ok(ptr::null_mut());
    }
    let bytes = notifies.len().saturating_mul(size_of::<NotifyEntry>());
    let array = allocate(bytes)?.cast::<NotifyEntry>();
    for (index, notify) in notifies.iter().enumerate() {
        let texts = copy(&notify.name).and_then(|name| Ok((name, copy(&notify.message)?)));
        let (name, msg) = texts?;
        // SAFETY: the array has room for one entry per message.
        unsafe { array.add(index).write(NotifyEntry { name, msg }) };
    }
    let mut given = GIVEN_OUT.lock().unwrap_or_else(PoisonError::into_inner);
    given.insert(array.addr(), notifies.len());
    Ok(array)
}

/// Takes an array of [`give_out`] back.
pub(crate) fn take_back(array: *mut NotifyEntry) -> Result<(), ArgumentError> {
    let mut given = GIVEN_OUT.lock().unwrap_or_else(PoisonError::into_inner);
    let length = given.remove(&array.addr()).ok_or(ArgumentError::Handle("msg"))?;
    drop(given);
    for index in 0..length {
        // SAFETY: the array was given out with this length, and each entry was written.
        let NotifyEntry { name, msg } = unsafe { array.add(index).read() };
        // SAFETY: both texts came from `malloc`, and the array is given out no more.
        unsafe {
            libc::free(name.cast::<c_void>());
            libc::free(msg.cast::<c_void>());
        }
    }
    // SAFETY: as for its texts.
    unsafe { libc::free(array.cast::<c_void>()) };
    Ok(())
}

/// A copy of a text up to its first 0, with an end.
fn copy(text: &str) -> Result<*mut c_char, EngineError> {
    let shown = text.split('\0').next().unwrap_or_default();
    let copied = allocate(shown.len() + 1)?.cast::<c_char>();
    // SAFETY: the copy has room for the text and its end.
    unsafe {
        copied.copy_from_nonoverlapping(shown.as_ptr().cast::<c_char>(), shown.len());
        copied.add(shown.len()).write(0);
    }
    Ok(copied)
}

fn allocate(bytes: usize) -> Result<*mut c_void, EngineError> {
    // SAFETY: any size may be asked for.
    let memory = unsafe { libc::malloc(bytes) };
    let missing = || EngineError::Memory(format!("{bytes} bytes for messages"));
    if memory.is_null() { Err(missing()) } else { Ok(memory) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

    #[test]
    fn messages_are_given_out_and_taken_back_once() {
        let notify = |name: &str| Notify { name: name.to_owned(), message: "text".to_owned() };
        assert!(give_out(&[]).unwrap().is_null());
        let array = give_out(&[notify("one"), notify("tw\0o")]).unwrap();
        // SAFETY: two entries were given out.
        let second = unsafe { CStr::from_ptr((*array.add(1)).name) };
        assert_eq!(second, c"tw");
        assert_eq!(take_back(array), Ok(()));
        assert_eq!(take_back(array), Err(ArgumentError::Handle("msg")));
        assert_eq!(take_back(ptr::null_mut()), Err(ArgumentError::Handle("msg")));
    }
}
