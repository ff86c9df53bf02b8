//! Record names out of query strings. Invariant: a name written raw and the same name written
//! percent-encoded are one name.

use crate::limits::KEY_BYTES_MAX;

/// Why a request names no record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyError {
    /// No `key` parameter, or an empty one.
    Missing,
    /// Longer than the service accepts.
    TooLong,
}

/// The decoded `key` parameter of a raw query string.
///
/// Percent escapes are decoded; a `+` stays a `+`, because engines that do not encode names send it
/// as it is. A percent sign without two hex digits stays as it is for the same reason.
pub(crate) fn key_of_query(query: Option<&str>) -> Result<Vec<u8>, KeyError> {
    let parameters = query.unwrap_or_default().split('&');
    let written = parameters.filter_map(|parameter| parameter.strip_prefix("key=")).next();
    let key = decode(written.unwrap_or_default().as_bytes());
    match key.len() {
        0 => Err(KeyError::Missing),
        bytes if bytes > KEY_BYTES_MAX => Err(KeyError::TooLong),
        _ => Ok(key),
    }
}

fn decode(written: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(written.len());
    let mut rest = written;
    while let Some((&first, tail)) = rest.split_first() {
        match (first, tail) {
            (b'%', [high, low, after @ ..]) if both_hex(*high, *low) => {
                key.push(hex(*high) << 4 | hex(*low));
                rest = after;
            }
            _ => {
                key.push(first);
                rest = tail;
            }
        }
    }
    key
}

fn both_hex(high: u8, low: u8) -> bool {
    high.is_ascii_hexdigit() && low.is_ascii_hexdigit()
}

/// Value of a byte known to be a hex digit.
fn hex(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => digit.to_ascii_lowercase() - b'a' + 10,
    }
}

/// Percent-encodes everything that is not unreserved.
pub(crate) fn encode(key: &str) -> String {
    let escape = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
            char::from(byte).to_string()
        }
        _ => format!("%{byte:02X}"),
    };
    key.bytes().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn raw_and_encoded_names_are_one_name() {
        let raw = key_of_query(Some("key=mooncake/ram/127.0.0.1:17001"));
        let encoded = key_of_query(Some("key=mooncake%2Fram%2f127.0.0.1%3A17001"));
        assert_eq!(raw, encoded);
        assert_eq!(raw, Ok(b"mooncake/ram/127.0.0.1:17001".to_vec()));
    }

    #[test]
    fn stray_percent_and_plus_signs_stay() {
        assert_eq!(key_of_query(Some("key=a+b%zz%4")), Ok(b"a+b%zz%4".to_vec()));
    }

    #[test]
    fn other_parameters_are_ignored() {
        assert_eq!(key_of_query(Some("x=1&key=a&key=b")), Ok(b"a".to_vec()));
    }

    #[test]
    fn missing_empty_and_huge_names_are_refused() {
        for query in [None, Some(""), Some("key="), Some("monkey=a"), Some("key")] {
            assert_eq!(key_of_query(query), Err(KeyError::Missing), "{query:?}");
        }
        let huge = format!("key={}", "a".repeat(KEY_BYTES_MAX + 1));
        assert_eq!(key_of_query(Some(&huge)), Err(KeyError::TooLong));
    }

    proptest! {
        #[test]
        fn encoding_and_decoding_gives_the_name_back(name in "\\PC{1,60}") {
            let query = format!("key={}", encode(&name));
            prop_assert_eq!(key_of_query(Some(&query)), Ok(name.into_bytes()));
        }

        #[test]
        fn any_query_is_decoded_without_growing(query in ".{0,200}") {
            if let Ok(key) = key_of_query(Some(&query)) {
                prop_assert!(key.len() <= query.len());
            }
        }
    }
}
