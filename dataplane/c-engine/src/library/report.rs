//! What an engine says about its NICs.

use crate::entry::NicLoad;
use crate::failure::{INVALID, answer_or};
use crate::handle::with;
use crate::links;
use perigee_c::{Handle, array, array_mut, slot, write_text};
use std::ffi::{c_char, c_int};

/// Writes the load of each RDMA NIC; `count` is the room before and how many there are after.
///
/// # Safety
/// `stats` has `count` entries.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getNicLoadStats(
    engine: Handle,
    stats: *mut NicLoad,
    count: *mut usize,
) -> c_int {
    answer_or("getNicLoadStats", INVALID, || {
        with(engine, |engine| {
            // SAFETY: the caller's promise.
            let (room, count) = unsafe {
                let [room] = array("count", count, 1)? else { return Ok(INVALID) };
                (array_mut("stats", stats, *room)?, slot("count", count)?)
            };
            let loads = links::loads(&engine.engine());
            room.iter_mut().zip(&loads).for_each(|(place, load)| {
                place.write(*load);
            });
            count.write(loads.len());
            Ok(0)
        })
    })
}

/// Writes what an engine can reach its peers over, as lines or as JSON.
///
/// # Safety
/// `buf_out` is null or has `buf_len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn showLinks(
    engine: Handle,
    buf_out: *mut c_char,
    buf_len: usize,
    json: c_int,
) -> c_int {
    answer_or("showLinks", INVALID, || {
        with(engine, |engine| {
            let running = engine.engine();
            let text = if json == 0 { links::lines(&running) } else { links::json(&running) };
            // SAFETY: the caller's promise.
            unsafe { write_text("buf_out", buf_out, buf_len, &text) }?;
            Ok(0)
        })
    })
}
