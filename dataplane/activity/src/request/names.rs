//! What requests and spans are called, drawn by one thread: a random beginning and a count, mixed
//! so that all bits of a name look random, as readers of traces expect.

use std::hash::{BuildHasher, RandomState};

/// The names that a thread draws.
#[derive(Debug, Default)]
pub(super) struct RequestNames {
    /// Random; 0 before the first name.
    beginning: u64,
    count: u64,
}

impl RequestNames {
    /// A name for a request; never 0.
    pub(super) fn trace(&mut self) -> u128 {
        let low = self.span();
        u128::from(mixed(self.beginning)) << 64 | u128::from(low)
    }

    /// A name for a span; never 0.
    pub(super) fn span(&mut self) -> u64 {
        if self.beginning == 0 {
            // The keys of a new state are random, and differ between threads.
            self.beginning = RandomState::new().hash_one(std::process::id()) | 1;
        }
        self.count += 1;
        mixed(self.beginning.wrapping_add(self.count)).max(1)
    }
}

/// Each number becomes another one, far from those of its neighbours.
fn mixed(number: u64) -> u64 {
    let number = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ number >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    number ^ number >> 32
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_differ_within_a_thread_and_between_two() {
        let (mut one, mut other) = (RequestNames::default(), RequestNames::default());
        let names: HashSet<u128> =
            (0..1000).flat_map(|_| [one.trace(), other.trace(), one.span().into()]).collect();
        assert_eq!(names.len(), 3000);
        assert!(!names.contains(&0));
    }
}
