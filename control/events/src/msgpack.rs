//! The values of msgpack that events have.

/// Nil.
pub(crate) const NIL: u8 = 0xC0;
/// Before a number of eight bytes.
const LONG: u8 = 0xCF;
/// Before an array whose length has two bytes.
const ARRAY: u8 = 0xDC;

/// Appends a number, as short as it can be.
#[inline]
pub(crate) fn put_uint(out: &mut Vec<u8>, number: u64) {
    if let Ok(byte) = u8::try_from(number) {
        if byte >= 0x80 {
            out.push(0xCC);
        }
        out.push(byte);
    } else if let Ok(short) = u16::try_from(number) {
        let [high, low] = short.to_be_bytes();
        out.extend_from_slice(&[0xCD, high, low]);
    } else if let Ok(word) = u32::try_from(number) {
        let [a, b, c, d] = word.to_be_bytes();
        out.extend_from_slice(&[0xCE, a, b, c, d]);
    } else {
        out.extend_from_slice(&long(number));
    }
}

/// A number in the form that is as long for each.
pub(crate) fn long(number: u64) -> [u8; 9] {
    let [a, b, c, d, e, f, g, h] = number.to_be_bytes();
    [LONG, a, b, c, d, e, f, g, h]
}

/// Appends text.
#[inline]
pub(crate) fn put_text(out: &mut Vec<u8>, text: &str) {
    let length = text.len();
    match (u8::try_from(length), u16::try_from(length)) {
        (Ok(short), _) if short < 32 => out.push(0xA0 | short),
        (Ok(short), _) => out.extend_from_slice(&[0xD9, short]),
        (_, Ok(length)) => {
            let [high, low] = length.to_be_bytes();
            out.extend_from_slice(&[0xDA, high, low]);
        }
        _ => {
            out.push(0xDB);
            out.extend_from_slice(&(length as u32).to_be_bytes());
        }
    }
    out.extend_from_slice(text.as_bytes());
}

/// The beginning of an array of at most 15 values.
pub(crate) fn short_array(values: u8) -> u8 {
    debug_assert!(values < 16, "longer arrays have another form");
    0x90 | values
}

/// The beginning of an array of any length.
pub(crate) fn array(values: u16) -> [u8; 3] {
    let [high, low] = values.to_be_bytes();
    [ARRAY, high, low]
}

/// Appends the beginning of a map.
pub(crate) fn put_map(out: &mut Vec<u8>, fields: u16) {
    if fields < 16 {
        out.push(0x80 | fields as u8);
    } else {
        let [high, low] = fields.to_be_bytes();
        out.extend_from_slice(&[0xDE, high, low]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn numbers_of_every_length_are_read_back(number: u64, shift in 0_u32..64) {
            let number = number >> shift;
            let mut out = Vec::new();
            put_uint(&mut out, number);
            prop_assert_eq!(rmp_serde::from_slice::<u64>(&out).unwrap(), number);
            prop_assert_eq!(rmp_serde::from_slice::<u64>(&long(number)).unwrap(), number);
        }

        #[test]
        fn arrays_of_every_length_are_read_back(values in 0_u8..200) {
            let mut out = array(u16::from(values)).to_vec();
            out.extend(0..values.min(100));
            out.extend(std::iter::repeat_n(1, usize::from(values.saturating_sub(100))));
            let read = rmp_serde::from_slice::<Vec<u8>>(&out).unwrap();
            prop_assert_eq!(read.len(), usize::from(values));
        }
    }

    #[test]
    fn text_of_every_length_is_read_back() {
        for length in [0, 31, 32, 255, 256, 65_535, 65_536] {
            let text = "x".repeat(length);
            let mut out = Vec::new();
            put_text(&mut out, &text);
            assert_eq!(rmp_serde::from_slice::<String>(&out).unwrap(), text);
        }
    }

    #[test]
    fn maps_of_both_forms_are_read_back() {
        for fields in [1, 15, 16, 40] {
            let mut out = Vec::new();
            put_map(&mut out, fields);
            for field in 0..fields {
                put_text(&mut out, &field.to_string());
                out.push(short_array(0));
            }
            let map: BTreeMap<String, Vec<u8>> = rmp_serde::from_slice(&out).unwrap();
            assert_eq!(map.len(), usize::from(fields));
        }
    }
}
