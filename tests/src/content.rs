//! Objects that describe themselves: key and version in front, every other word follows from them.
//! Invariant: a byte of another object, or of another version, is noticed wherever it lies.

/// Bytes of the smallest object: key number and version.
pub const CONTENT_BYTES_MIN: usize = 16;
const WORD_BYTES: usize = 8;

/// Writes version `version` of object `key` over all of `bytes`.
pub fn fill(key: u64, version: u64, bytes: &mut [u8]) {
    for (index, word) in bytes.chunks_mut(WORD_BYTES).enumerate() {
        word.copy_from_slice(&word_at(key, version, index).to_le_bytes()[..word.len()]);
    }
}

/// The version that all of `bytes` are of, if they are object `key` and nothing else.
pub fn version_of(key: u64, bytes: &[u8]) -> Option<u64> {
    let version = bytes.get(WORD_BYTES..CONTENT_BYTES_MIN)?;
    let version = u64::from_le_bytes(version.try_into().ok()?);
    let whole = bytes
        .chunks(WORD_BYTES)
        .enumerate()
        .all(|(index, word)| word == &word_at(key, version, index).to_le_bytes()[..word.len()]);
    whole.then_some(version)
}

fn word_at(key: u64, version: u64, index: usize) -> u64 {
    match index {
        0 => key,
        1 => version,
        _ => {
            let mixed = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ version.rotate_left(32);
            (mixed ^ index as u64).wrapping_mul(0xd6e8_feb8_6659_fd93)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_known_by_its_key_and_version() {
        let mut bytes = vec![0; 1001];
        fill(7, 3, &mut bytes);
        assert_eq!(version_of(7, &bytes), Some(3));
        assert_eq!(version_of(8, &bytes), None);
    }

    #[test]
    fn any_changed_byte_is_noticed() {
        let mut bytes = vec![0; 100];
        fill(7, 3, &mut bytes);
        for at in 0..bytes.len() {
            bytes[at] ^= 1;
            assert_eq!(version_of(7, &bytes), None, "byte {at}");
            bytes[at] ^= 1;
        }
    }

    #[test]
    fn halves_of_two_versions_are_no_object() {
        let (mut old, mut new) = (vec![0; 64], vec![0; 64]);
        fill(7, 1, &mut old);
        fill(7, 2, &mut new);
        old[32..].copy_from_slice(&new[32..]);
        assert_eq!(version_of(7, &old), None);
    }
}
