//! What bytes must be: a function of a number, cheap to make and to check.
//! Invariant: two numbers differ in every block of eight bytes, so a byte from another place is
//! noticed.

const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// The eight bytes at `index` of the content of `seed`.
fn word(seed: u64, index: usize) -> [u8; 8] {
    let mixed = (seed ^ (index as u64).wrapping_mul(STEP)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    // Multiplication carries upwards only; the rotation lets every input bit reach the low bytes.
    (mixed ^ mixed.rotate_left(29)).to_le_bytes()
}

/// Writes the content of `seed`.
pub(crate) fn fill(bytes: &mut [u8], seed: u64) {
    let mut words = bytes.chunks_exact_mut(8);
    let mut index = 0;
    for target in &mut words {
        target.copy_from_slice(&word(seed, index));
        index += 1;
    }
    let rest = words.into_remainder();
    let length = rest.len();
    rest.copy_from_slice(&word(seed, index)[..length]);
}

/// Whether every byte is the content of `seed`.
#[must_use]
pub(crate) fn matches(bytes: &[u8], seed: u64) -> bool {
    let words = bytes.chunks_exact(8);
    let rest = words.remainder();
    let last = word(seed, bytes.len() / 8);
    rest == &last[..rest.len()]
        && words.enumerate().all(|(index, found)| found == word(seed, index))
}

/// The number of a name.
#[must_use]
pub(crate) fn seed_of(name: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
    name.bytes().fold(0xCBF2_9CE4_8422_2325, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wrong_byte_is_noticed() {
        for length in [1, 7, 8, 9, 64, 1001] {
            let mut bytes = vec![0; length];
            fill(&mut bytes, 5);
            assert!(matches(&bytes, 5));
            for at in 0..length {
                bytes[at] ^= 1;
                assert!(!matches(&bytes, 5), "byte {at} of {length}");
                bytes[at] ^= 1;
            }
        }
    }

    #[test]
    fn contents_of_two_numbers_differ_in_every_word() {
        let (mut one, mut other) = (vec![0; 4096], vec![0; 4096]);
        fill(&mut one, 1);
        fill(&mut other, 2);
        let pairs = one.chunks(8).zip(other.chunks(8));
        assert!(pairs.into_iter().all(|(one, other)| one != other));
        assert!(!matches(&one, seed_of("another")));
    }

    #[test]
    fn a_shifted_content_is_noticed() {
        let mut bytes = vec![0; 4104];
        fill(&mut bytes, 9);
        assert!(!matches(&bytes[8..], 9));
    }
}
