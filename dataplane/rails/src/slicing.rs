//! How long the next slice of a request is: enough slices for all queue pairs, none beyond what a
//! port or a region takes.
//!
//! Nothing is planned ahead: a request is cut while it runs, so a request of any size costs no
//! memory.

use crate::limits::{PAGE_BYTES, SLICE_BYTES_MAX, SLICE_BYTES_MIN, SLICES_PER_LANE};

/// The slice size that suits a request of `request_bytes` over `lanes` queue pairs whose ports take
/// messages of up to `message_bytes_max`; `set` if the operator has chosen one.
pub(crate) fn slice_bytes(
    request_bytes: u64,
    lanes: usize,
    message_bytes_max: u64,
    set: Option<u64>,
) -> u64 {
    if let Some(set) = set {
        return set.min(message_bytes_max).max(1);
    }
    let limit = SLICE_BYTES_MAX.min(message_bytes_max).max(1);
    if lanes <= 1 {
        return limit;
    }
    let share = request_bytes.div_ceil(lanes as u64 * SLICES_PER_LANE);
    debug_assert!(request_bytes > 0 || share == 0);
    let whole_pages = share.next_multiple_of(PAGE_BYTES);
    whole_pages.clamp(SLICE_BYTES_MIN.min(limit), limit)
}

/// Length of the slice that begins at `remote`, of `remaining` bytes of which `room` lie before the
/// next border of a region. Inner borders fall on pages of the remote memory where the slice is
/// longer than a page.
pub(crate) fn cut(slice_bytes: u64, remote: u64, remaining: u64, room: u64) -> u64 {
    let most = remaining.min(room);
    if most <= slice_bytes {
        return most;
    }
    debug_assert!(slice_bytes > 0, "a slice has bytes");
    let end = remote.saturating_add(slice_bytes);
    let on_page = end - end % PAGE_BYTES;
    if on_page > remote { on_page - remote } else { slice_bytes }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_lane_gets_the_largest_slices_and_more_lanes_smaller_ones() {
        let huge = 1 << 30;
        assert_eq!(slice_bytes(1 << 20, 1, huge, None), 1 << 20);
        assert_eq!(slice_bytes(1 << 20, 2, huge, None), 256 << 10);
        assert_eq!(slice_bytes(1 << 20, 8, huge, None), 64 << 10);
        assert_eq!(slice_bytes(64 << 20, 8, huge, None), SLICE_BYTES_MAX);
        assert_eq!(slice_bytes(4 << 10, 2, huge, None), SLICE_BYTES_MIN);
    }

    #[test]
    fn a_slice_is_never_longer_than_a_message_of_the_port() {
        assert_eq!(slice_bytes(1 << 30, 2, 8 << 10, None), 8 << 10);
        assert_eq!(slice_bytes(1 << 30, 1, 1000, None), 1000);
    }

    #[test]
    fn a_set_slice_size_holds_up_to_the_limit_of_the_port() {
        assert_eq!(slice_bytes(64 << 20, 8, 1 << 30, Some(16 << 10)), 16 << 10);
        assert_eq!(slice_bytes(64 << 20, 1, 1 << 30, Some(4 << 20)), 4 << 20);
        assert_eq!(slice_bytes(64 << 20, 1, 1 << 20, Some(4 << 20)), 1 << 20);
    }

    proptest! {
        #[test]
        fn slices_cover_a_request_without_crossing_a_border(
            start in 0u64..100_000, bytes in 1u64..8_000_000, lanes in 1usize..9,
            message in 1024u64..(4 << 20), chunk in 1u64..5_000_000,
        ) {
            let target = slice_bytes(bytes, lanes, message, None);
            let (mut offset, mut slices) = (0, 0u64);
            while offset < bytes {
                let room = chunk - (start + offset) % chunk;
                let length = cut(target, start + offset, bytes - offset, room);
                prop_assert!(length >= 1 && length <= message && length <= room);
                let inner = offset + length < bytes && length < room && target > PAGE_BYTES;
                prop_assert!(!inner || (start + offset + length).is_multiple_of(PAGE_BYTES));
                offset += length;
                slices += 1;
            }
            prop_assert_eq!(offset, bytes);
            let fair = (bytes / target + bytes / chunk + 2) * (1 + PAGE_BYTES / target);
            prop_assert!(slices <= 4 * fair);
        }
    }
}
