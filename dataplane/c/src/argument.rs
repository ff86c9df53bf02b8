//! Arguments as C passes them: texts, arrays, places for results. Invariant: a null pointer, a text
//! without an end and an array that cannot exist are errors that name the argument.
//!
//! Other wrong pointers look like right ones here; callers promise that theirs are right.

use std::ffi::{CStr, c_char};
use std::mem::MaybeUninit;
use std::slice;

/// Longest text that is read, in bytes without its end: a NIC matrix of a large host fits.
pub const TEXT_BYTES_MAX: usize = 1 << 20;

/// What is wrong with an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArgumentError {
    /// A null pointer where something is needed.
    #[error("{0} is NULL")]
    Null(&'static str),
    /// A text without an end.
    #[error("{0} has no end within {TEXT_BYTES_MAX} bytes")]
    Endless(&'static str),
    /// A text that is not UTF-8.
    #[error("{0} is not UTF-8")]
    Encoding(&'static str),
    /// An array that is longer than memory, or not aligned.
    #[error("{0} cannot be an array of that length")]
    Array(&'static str),
    /// A number that means nothing here.
    #[error("{0} has no such value")]
    Value(&'static str),
    /// A buffer for a text that is longer.
    #[error("{0} is too small for the answer")]
    Small(&'static str),
    /// A handle that was freed, was never given out, or belongs to another library or process.
    #[error("{0} is not open: freed, foreign, or made before fork()")]
    Handle(&'static str),
}

/// Reads a text of the caller.
///
/// # Safety
/// `pointer` is null, or points to bytes with a 0 among them that do not change during `'a`.
///
/// # Errors
/// It is null, has no end, or is not UTF-8.
pub unsafe fn text<'a>(
    name: &'static str,
    pointer: *const c_char,
) -> Result<&'a str, ArgumentError> {
    if pointer.is_null() {
        return Err(ArgumentError::Null(name));
    }
    // SAFETY: the caller's text ends, and no byte behind its end or the bound is read.
    let bytes = unsafe { libc::strnlen(pointer, TEXT_BYTES_MAX + 1) };
    if bytes > TEXT_BYTES_MAX {
        return Err(ArgumentError::Endless(name));
    }
    // SAFETY: its end was just found.
    let text = unsafe { CStr::from_ptr(pointer) };
    text.to_str().map_err(|_| ArgumentError::Encoding(name))
}

/// Reads an array of the caller; null is an empty one if there are none.
///
/// # Safety
/// `pointer` is null, or points to as many elements that do not change during `'a`.
///
/// # Errors
/// It is null and not empty, or cannot be an array.
pub unsafe fn array<'a, T>(
    name: &'static str,
    pointer: *const T,
    count: usize,
) -> Result<&'a [T], ArgumentError> {
    if count == 0 {
        return Ok(&[]);
    }
    check::<T>(name, pointer, count)?;
    // SAFETY: the caller's promise; length and alignment were checked.
    Ok(unsafe { slice::from_raw_parts(pointer, count) })
}

/// A place for as many results.
///
/// # Safety
/// `pointer` is null, or points to room for as many elements that no other code uses during `'a`.
///
/// # Errors
/// As [`array`].
pub unsafe fn array_mut<'a, T>(
    name: &'static str,
    pointer: *mut T,
    count: usize,
) -> Result<&'a mut [MaybeUninit<T>], ArgumentError> {
    if count == 0 {
        return Ok(&mut []);
    }
    check::<T>(name, pointer, count)?;
    // SAFETY: as for `array`, and the caller lends them to this call alone.
    Ok(unsafe { slice::from_raw_parts_mut(pointer.cast::<MaybeUninit<T>>(), count) })
}

/// A place for one result.
///
/// # Safety
/// As [`array_mut`], of one element.
///
/// # Errors
/// It is null or not aligned.
pub unsafe fn slot<'a, T>(
    name: &'static str,
    pointer: *mut T,
) -> Result<&'a mut MaybeUninit<T>, ArgumentError> {
    check::<T>(name, pointer, 1)?;
    // SAFETY: the caller's promise; it is not null and is aligned.
    Ok(unsafe { &mut *pointer.cast::<MaybeUninit<T>>() })
}

fn check<T>(name: &'static str, pointer: *const T, count: usize) -> Result<(), ArgumentError> {
    if pointer.is_null() {
        return Err(ArgumentError::Null(name));
    }
    let fits = count.checked_mul(size_of::<T>()).is_some_and(|bytes| {
        bytes <= isize::MAX as usize && pointer.addr().checked_add(bytes).is_some()
    });
    if fits && pointer.is_aligned() { Ok(()) } else { Err(ArgumentError::Array(name)) }
}

/// Writes a text with its end into the caller's buffer, or nothing.
///
/// # Safety
/// `pointer` is null, or points to `bytes` bytes that no other code uses during the call.
///
/// # Errors
/// The buffer is null or too small.
pub unsafe fn write_text(
    name: &'static str,
    pointer: *mut c_char,
    bytes: usize,
    text: &str,
) -> Result<(), ArgumentError> {
    if pointer.is_null() {
        return Err(ArgumentError::Null(name));
    }
    let shown = text.split('\0').next().unwrap_or_default();
    if shown.len() >= bytes {
        return Err(ArgumentError::Small(name));
    }
    // SAFETY: the caller's buffer has room for the text and its end.
    unsafe {
        pointer.copy_from_nonoverlapping(shown.as_ptr().cast::<c_char>(), shown.len());
        pointer.add(shown.len()).write(0);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr;

    #[test]
    fn texts_have_an_end_and_are_utf8() {
        // SAFETY: every text below is null or ends.
        let read = |pointer| unsafe { text("key", pointer) };
        assert_eq!(read(c"a key".as_ptr()), Ok("a key"));
        assert_eq!(read(ptr::null()), Err(ArgumentError::Null("key")));
        assert_eq!(read(c"\xff".as_ptr()), Err(ArgumentError::Encoding("key")));
        let mut endless = vec![b'x'; TEXT_BYTES_MAX + 2];
        endless[TEXT_BYTES_MAX + 1] = 0;
        assert_eq!(read(endless.as_ptr().cast()), Err(ArgumentError::Endless("key")));
        endless[TEXT_BYTES_MAX] = 0;
        assert_eq!(read(endless.as_ptr().cast()).map(str::len), Ok(TEXT_BYTES_MAX));
    }

    #[test]
    fn arrays_that_cannot_exist_are_refused() {
        let numbers = [1u64, 2, 3];
        // SAFETY: only arrays that exist are read.
        let read = |pointer, count| unsafe { array::<u64>("sizes", pointer, count) };
        assert_eq!(read(numbers.as_ptr(), 3), Ok(&numbers[..]));
        assert_eq!(read(ptr::null(), 0), Ok(&[][..]));
        assert_eq!(read(ptr::null(), 1), Err(ArgumentError::Null("sizes")));
        assert_eq!(read(numbers.as_ptr(), usize::MAX), Err(ArgumentError::Array("sizes")));
        let crooked = numbers.as_ptr().wrapping_byte_add(1);
        assert_eq!(read(crooked, 1), Err(ArgumentError::Array("sizes")));
    }

    #[test]
    fn answers_fit_with_their_end_or_are_not_written() {
        let mut buffer = [b'x'.cast_signed(); 5];
        // SAFETY: the buffer has as many bytes as is said.
        let mut write = |bytes, text| unsafe {
            let wrote = write_text("buf_out", buffer.as_mut_ptr().cast(), bytes, text);
            wrote.map(|()| buffer.map(i8::cast_unsigned))
        };
        assert_eq!(write(5, "12345"), Err(ArgumentError::Small("buf_out")));
        assert_eq!(write(0, ""), Err(ArgumentError::Small("buf_out")));
        assert_eq!(write(5, "1234"), Ok(*b"1234\0"));
        assert_eq!(write(5, "ab\0cd"), Ok(*b"ab\x004\0"));
    }
}
