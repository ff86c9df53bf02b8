//! One batch over several shards: contiguous parts of about the same number of bytes.

/// Batches of fewer bytes stay on one shard.
const SPLIT_BYTES_MIN: u64 = 1 << 20;

/// Parts of `items` for at most `shards` shards; none is empty.
pub(super) fn split<T>(items: &[T], shards: usize, bytes: impl Fn(&T) -> u64) -> Vec<&[T]> {
    let total: u64 = items.iter().map(&bytes).fold(0, u64::saturating_add);
    if items.is_empty() {
        return Vec::new();
    }
    if shards <= 1 || total < SPLIT_BYTES_MIN {
        return vec![items];
    }
    let share = total.div_ceil(shards as u64);
    let (mut parts, mut begin, mut filled) = (Vec::new(), 0, 0);
    for (index, item) in items.iter().enumerate() {
        filled += bytes(item);
        if filled >= share && parts.len() + 1 < shards {
            parts.push(&items[begin..=index]);
            begin = index + 1;
            filled = 0;
        }
    }
    if begin < items.len() {
        parts.push(&items[begin..]);
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn parts_cover_the_batch_in_order_and_none_is_empty(
            sizes in proptest::collection::vec(0u64..3_000_000, 0..60), shards in 1usize..9,
        ) {
            let parts = split(&sizes, shards, |size| *size);
            prop_assert_eq!(parts.concat(), sizes.clone());
            prop_assert!(parts.len() <= shards && parts.iter().all(|part| !part.is_empty()));
            let largest = sizes.iter().max().copied().unwrap_or(0);
            let share = sizes.iter().sum::<u64>().div_ceil(shards as u64).max(SPLIT_BYTES_MIN);
            prop_assert!(parts.iter().all(|part| part.iter().sum::<u64>() <= share + largest));
        }
    }
}
