//! The block hash that a key stands for, where a key is one.

/// The hash of a key that is a number in decimal, or in hexadecimal after `0x`.
pub(crate) fn sequence_hash(key: &str) -> Option<u64> {
    let hexadecimal = key.strip_prefix("0x").or_else(|| key.strip_prefix("0X"));
    let (digits, radix) = hexadecimal.map_or((key, 10), |digits| (digits, 16));
    // The parser of numbers would take a sign too.
    let is_unsigned = digits.as_bytes().first() != Some(&b'+');
    is_unsigned.then(|| u64::from_str_radix(digits, radix).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_hashes_and_other_keys_are_not() {
        assert_eq!(sequence_hash("12345"), Some(12345));
        assert_eq!(sequence_hash("0x2a"), Some(42));
        assert_eq!(sequence_hash("0XFF"), Some(255));
        assert_eq!(sequence_hash("18446744073709551615"), Some(u64::MAX));
        for other in ["", "0x", "+1", "-1", "0x+1", "123abc", "not-a-hash", "18446744073709551616"]
        {
            assert_eq!(sequence_hash(other), None, "{other}");
        }
    }
}
