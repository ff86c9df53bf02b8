//! What tenants get if they ask for more than there is.
//! Invariant: together they get no more than the capacity, and none more than it asks for.

use std::cmp::Reverse;

/// The quota of each tenant that is in force: what it asks for, or its part of the capacity if
/// that is too small for all. Bytes that division leaves over go to the largest remainders, of
/// equal ones to the first.
pub(super) fn effective(requested: &[u64], capacity_bytes: u64) -> Vec<u64> {
    let sum: u128 = requested.iter().map(|bytes| u128::from(*bytes)).sum();
    if sum <= u128::from(capacity_bytes) {
        return requested.to_vec();
    }
    let part = |bytes: &u64| u128::from(*bytes) * u128::from(capacity_bytes);
    let floor = |bytes: &u64| u64::try_from(part(bytes) / sum).unwrap_or(u64::MAX);
    let mut granted: Vec<u64> = requested.iter().map(floor).collect();
    let left = capacity_bytes - granted.iter().sum::<u64>();
    let mut by_remainder: Vec<usize> = (0..requested.len()).collect();
    by_remainder.sort_by_key(|at| Reverse(part(&requested[*at]) % sum));
    for at in by_remainder.into_iter().take(usize::try_from(left).unwrap_or(usize::MAX)) {
        granted[at] += 1;
    }
    granted
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn all_get_what_they_ask_for_while_there_is_enough() {
        assert_eq!(effective(&[30, 70], 100), [30, 70]);
        assert_eq!(effective(&[30, 70], 50), [15, 35]);
        assert_eq!(effective(&[1, 1, 1], 2), [1, 1, 0], "the first of equal ones");
        assert_eq!(effective(&[5], 0), [0]);
        assert_eq!(effective(&[], 7), [0; 0]);
        assert_eq!(effective(&[u64::MAX >> 1; 3], 3), [1, 1, 1]);
    }

    proptest! {
        #[test]
        fn a_capacity_that_is_too_small_is_given_out_whole_and_in_proportion(
            requested in prop::collection::vec(1..1_000_u64, 1..20),
            capacity_bytes in 0..20_000_u64,
        ) {
            let granted = effective(&requested, capacity_bytes);
            let sum: u64 = requested.iter().sum();
            prop_assert_eq!(granted.iter().sum::<u64>(), sum.min(capacity_bytes));
            for (granted, requested) in granted.iter().zip(&requested) {
                prop_assert!(granted <= requested);
                let exact = *requested as f64 * (capacity_bytes as f64 / sum as f64).min(1.0);
                prop_assert!((*granted as f64 - exact).abs() <= 1.0 + 1e-6);
            }
        }
    }
}
