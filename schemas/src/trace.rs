//! Which request of a program a frame belongs to, and what its server says of it: 32 bytes behind
//! the message of the frame.
//! Invariant: a peer of an older build takes a frame with such a trailer for one without, and what
//! is no trailer is none, never an error.

/// Bytes of a trailer.
pub const TRAILER_BYTES: usize = 32;
/// Last bytes of a trailer of a request, and of one of an answer.
const REQUEST_TAG: [u8; 4] = *b"TRC1";
const ANSWER_TAG: [u8; 4] = *b"TMS1";
const SAMPLED: u8 = 1;

/// What stands behind the message of a frame.
pub type FrameTrailer = [u8; TRAILER_BYTES];

/// Names one request across processes, as W3C's `traceparent` does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TraceContext {
    /// The same in all spans of the request; never 0.
    pub id: u128,
    /// The span that asks; 0 for none.
    pub span: u64,
    /// The program wants to see this one, however quick it is.
    pub is_sampled: bool,
}

impl TraceContext {
    /// Reads a `traceparent`, such as `00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01`;
    /// `None` for what is none.
    pub fn parse(traceparent: &str) -> Option<Self> {
        let mut parts = traceparent.trim().split('-');
        let version = hex(parts.next()?, 2)?;
        let id = hex(parts.next()?, 32)?;
        let span = hex(parts.next()?, 16)? as u64;
        let flags = hex(parts.next()?, 2)? as u8;
        // A later version may say more; this one may not, and 255 is no version.
        let ends_well = version != 0 || parts.next().is_none();
        let is_well = ends_well && version != 255 && id != 0 && span != 0;
        is_well.then_some(Self { id, span, is_sampled: flags & SAMPLED != 0 })
    }

    /// The `traceparent` of spans below this one.
    pub fn traceparent(&self) -> String {
        format!("00-{:032x}-{:016x}-{:02x}", self.id, self.span, u8::from(self.is_sampled))
    }

    /// As it travels.
    pub fn encode(&self) -> FrameTrailer {
        let mut bytes = [0; TRAILER_BYTES];
        bytes[..16].copy_from_slice(&self.id.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.span.to_be_bytes());
        bytes[24] = u8::from(self.is_sampled);
        bytes[28..].copy_from_slice(&REQUEST_TAG);
        bytes
    }

    /// Reads a trailer; `None` for one that says something else.
    pub fn decode(trailer: &FrameTrailer) -> Option<Self> {
        let (id, rest) = trailer.split_first_chunk::<16>()?;
        let (span, rest) = rest.split_first_chunk::<8>()?;
        let context = Self {
            id: u128::from_be_bytes(*id),
            span: u64::from_be_bytes(*span),
            is_sampled: rest[0] & SAMPLED != 0,
        };
        (rest[4..] == REQUEST_TAG && context.id != 0).then_some(context)
    }
}

/// What a call cost its server, by the server's own clock, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServiceTimes {
    /// Ready to run, but without a core.
    pub waited_ns: u64,
    /// From the whole request to the answer.
    pub served_ns: u64,
}

impl ServiceTimes {
    /// As they travel.
    pub fn encode(&self) -> FrameTrailer {
        let mut bytes = [0; TRAILER_BYTES];
        bytes[..8].copy_from_slice(&self.waited_ns.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.served_ns.to_le_bytes());
        bytes[28..].copy_from_slice(&ANSWER_TAG);
        bytes
    }

    /// Reads a trailer; `None` for one that says something else.
    pub fn decode(trailer: &FrameTrailer) -> Option<Self> {
        let (waited, rest) = trailer.split_first_chunk::<8>()?;
        let (served, _) = rest.split_first_chunk::<8>()?;
        let times =
            Self { waited_ns: u64::from_le_bytes(*waited), served_ns: u64::from_le_bytes(*served) };
        (trailer[28..] == ANSWER_TAG).then_some(times)
    }
}

/// A number of exactly so many digits, in lower case as the standard wants it.
fn hex(digits: &str, length: usize) -> Option<u128> {
    let is_digit = |byte: &u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte);
    let is_well = digits.len() == length && digits.as_bytes().iter().all(is_digit);
    is_well.then(|| u128::from_str_radix(digits, 16).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const EXAMPLE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_traceparent_is_read_and_written() {
        let context = TraceContext::parse(EXAMPLE).unwrap();
        assert_eq!(context.id, 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736);
        assert_eq!((context.span, context.is_sampled), (0x00f0_67aa_0ba9_02b7, true));
        assert_eq!(context.traceparent(), EXAMPLE);
        let quiet = EXAMPLE.replace("-01", "-02");
        assert!(!TraceContext::parse(&quiet).unwrap().is_sampled);
        let later = EXAMPLE.replacen("00", "cc", 1) + "-more";
        assert_eq!(TraceContext::parse(&later), Some(context));
    }

    #[test]
    fn what_is_no_traceparent_is_none() {
        for wrong in [
            "",
            "-",
            "00",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7-01",
            "00-+bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-é",
        ] {
            assert_eq!(TraceContext::parse(wrong), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn trailers_round_trip_and_are_not_taken_for_each_other(
            id in 1u128.., span: u64, is_sampled: bool, waited_ns: u64, served_ns: u64,
        ) {
            let context = TraceContext { id, span, is_sampled };
            prop_assert_eq!(TraceContext::decode(&context.encode()), Some(context));
            prop_assert_eq!(ServiceTimes::decode(&context.encode()), None);
            let times = ServiceTimes { waited_ns, served_ns };
            prop_assert_eq!(ServiceTimes::decode(&times.encode()), Some(times));
            prop_assert_eq!(TraceContext::decode(&times.encode()), None);
        }

        #[test]
        fn random_text_never_panics(text: String) {
            let _ = TraceContext::parse(&text);
        }
    }
}
