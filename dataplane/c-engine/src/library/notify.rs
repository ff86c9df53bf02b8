//! Messages between engines.

use crate::entry::NotifyEntry;
use crate::failure::{answer, answer_or};
use crate::handle::with;
use crate::notify_array;
use perigee_c::{ArgumentError, Handle, slot, text};
use perigee_engine::Notify;
use std::ffi::c_int;
use std::ptr;

/// A message of a caller.
///
/// # Safety
/// Its texts are null or end with 0.
pub(crate) unsafe fn notify_of(entry: &NotifyEntry) -> Result<Notify, ArgumentError> {
    // SAFETY: the caller's texts end.
    let (name, message) = unsafe { (text("name", entry.name)?, text("msg", entry.msg)?) };
    Ok(Notify { name: name.to_owned(), message: message.to_owned() })
}

/// Takes the messages that have arrived; null if there are none.
///
/// # Safety
/// `size` is null or has room for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getNotifsFromEngine(engine: Handle, size: *mut c_int) -> *mut NotifyEntry {
    answer_or("getNotifsFromEngine", ptr::null_mut(), || {
        // SAFETY: the caller's promise.
        let size = unsafe { slot("size", size) }?;
        size.write(0);
        with(engine, |engine| {
            let notifies = engine.engine().take_notifies();
            let array = notify_array::give_out(&notifies)?;
            // The engine keeps a few thousand at most.
            size.write(c_int::try_from(notifies.len()).unwrap_or(c_int::MAX));
            Ok(array)
        })
    })
}

/// Frees what `getNotifsFromEngine` answered.
///
/// # Safety
/// Texts that the caller has freed itself are null in the array.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn freeNotifsMsgBuf(msg: *mut NotifyEntry, _size: c_int) -> c_int {
    answer("freeNotifsMsgBuf", || {
        if !msg.is_null() {
            notify_array::take_back(msg)?;
        }
        Ok(0)
    })
}

/// Sends a message to the owner of a segment and waits until it has it.
///
/// # Safety
/// The texts of the message are null or end with 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn genNotifyInEngine(
    engine: Handle,
    target_id: u64,
    notify_msg: NotifyEntry,
) -> c_int {
    answer("genNotifyInEngine", || {
        with(engine, |engine| {
            let number = i32::try_from(target_id).map_err(|_| ArgumentError::Value("target_id"))?;
            let segment = engine.segment_name(number)?;
            // SAFETY: the caller's texts end.
            engine.engine().notify(&segment, unsafe { notify_of(&notify_msg) }?)?;
            Ok(0)
        })
    })
}
