//! Segments of peers, by number.

use crate::failure::{Failure, INVALID, answer, answer_or};
use crate::handle::{NativeEngine, with};
use crate::segment_numbers::LOCAL_SEGMENT;
use perigee_c::{ArgumentError, Handle, text};
use std::ffi::{c_char, c_int};

/// A segment's name as callers write it, which may begin with slashes.
///
/// # Safety
/// `pointer` is null or ends with 0.
unsafe fn segment_name<'a>(pointer: *const c_char) -> Result<&'a str, Failure> {
    // SAFETY: the caller's text ends.
    let name = unsafe { text("segment_name", pointer) }?.trim_start_matches('/');
    if name.is_empty() { Err(ArgumentError::Value("segment_name").into()) } else { Ok(name) }
}

/// The number of a name whose owner can be found.
fn open(engine: &NativeEngine, name: &str) -> Result<i32, Failure> {
    let running = engine.engine_in_use();
    if name == running.local_name() {
        return Ok(LOCAL_SEGMENT);
    }
    if let Some(known) = engine.segments.known(name) {
        return Ok(known);
    }
    running.open_segment(name)?;
    Ok(engine.segments.number(name)?)
}

/// The number of a segment; -1 if its owner cannot be found.
///
/// # Safety
/// `segment_name` is null or ends with 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openSegment(engine: Handle, segment_name: *const c_char) -> i32 {
    answer_or("openSegment", INVALID, || {
        // SAFETY: the caller's text ends.
        with(engine, |engine| open(engine, unsafe { self::segment_name(segment_name) }?))
    })
}

/// As `openSegment`, after asking again where the owner is.
///
/// # Safety
/// As `openSegment`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openSegmentNoCache(engine: Handle, segment_name: *const c_char) -> i32 {
    answer_or("openSegmentNoCache", INVALID, || {
        with(engine, |engine| {
            // SAFETY: the caller's text ends.
            let name = unsafe { self::segment_name(segment_name) }?;
            let running = engine.engine_in_use();
            if name == running.local_name() {
                return Ok(LOCAL_SEGMENT);
            }
            running.forget_segment(name);
            running.open_segment(name)?;
            Ok(engine.segments.number(name)?)
        })
    })
}

/// Answers 0 for a number that is open. It stays open: other parts of a program that opened the
/// same segment have the same number.
#[unsafe(no_mangle)]
pub extern "C" fn closeSegment(engine: Handle, segment_id: i32) -> c_int {
    answer("closeSegment", || with(engine, |engine| engine.segment_name(segment_id).map(|_| 0)))
}

/// Takes the number of a peer's name back and forgets where the peer was.
///
/// # Safety
/// As `openSegment`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn removeLocalSegment(engine: Handle, segment_name: *const c_char) -> c_int {
    answer("removeLocalSegment", || {
        with(engine, |engine| {
            // SAFETY: the caller's text ends.
            let name = unsafe { self::segment_name(segment_name) }?;
            let running = engine.engine();
            if name == running.local_name() {
                return Err(ArgumentError::Value("segment_name").into());
            }
            engine.segments.remove(name);
            running.forget_segment(name);
            Ok(0)
        })
    })
}

/// Forgets where the owners of open segments were; transfers ask again.
#[unsafe(no_mangle)]
pub extern "C" fn syncSegmentCache(engine: Handle) -> c_int {
    answer("syncSegmentCache", || {
        with(engine, |engine| {
            let running = engine.engine();
            engine.segments.names().iter().for_each(|name| running.forget_segment(name));
            Ok(0)
        })
    })
}

/// Answers 0: connections need no warming up.
///
/// # Safety
/// `segment_name` is not used.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn warmupEfaSegment(engine: Handle, _segment_name: *const c_char) -> c_int {
    answer("warmupEfaSegment", || with(engine, |_| Ok(0)))
}
