//! How a connection begins: a greeting of 64 bytes, then a READY command with the socket's type.

pub(crate) const GREETING_BYTES: usize = 64;
/// Where the version is, and the name of the security mechanism.
const VERSION_AT: usize = 10;
const MECHANISM_AT: usize = 12;
const MECHANISM_BYTES: usize = 20;
const MECHANISM: &[u8] = b"NULL";

/// What sockets do here, and who may talk to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SocketKind {
    /// Sends to subscribers.
    Publisher,
    /// Answers questions.
    Router,
}

impl SocketKind {
    fn name(self) -> &'static [u8] {
        match self {
            Self::Publisher => b"PUB",
            Self::Router => b"ROUTER",
        }
    }

    /// Whether a peer of this type may be talked to.
    fn accepts(self, peer: &[u8]) -> bool {
        let accepted: &[&[u8]] = match self {
            Self::Publisher => &[b"SUB", b"XSUB"],
            Self::Router => &[b"REQ", b"DEALER", b"ROUTER"],
        };
        accepted.contains(&peer)
    }
}

/// Why a peer is refused, for its log.
pub(crate) type Refusal = &'static str;

/// Our greeting.
pub(crate) fn greeting() -> [u8; GREETING_BYTES] {
    let mut bytes = [0; GREETING_BYTES];
    bytes[0] = 0xff;
    bytes[8] = 1;
    bytes[9] = 0x7f;
    bytes[VERSION_AT] = 3;
    bytes[MECHANISM_AT..MECHANISM_AT + MECHANISM.len()].copy_from_slice(MECHANISM);
    bytes
}

/// Checks a peer's greeting.
pub(crate) fn check_greeting(bytes: &[u8; GREETING_BYTES]) -> Result<(), Refusal> {
    if bytes[0] != 0xff || bytes[9] & 1 == 0 {
        return Err("it does not speak ZMTP");
    }
    if bytes[VERSION_AT] < 3 {
        return Err("it speaks ZMTP older than 3.0");
    }
    let mechanism = &bytes[MECHANISM_AT..MECHANISM_AT + MECHANISM_BYTES];
    let name = mechanism.split(|byte| *byte == 0).next().unwrap_or_default();
    if name == MECHANISM { Ok(()) } else { Err("it wants a security mechanism other than NULL") }
}

/// The body of our READY command.
pub(crate) fn ready(kind: SocketKind) -> Vec<u8> {
    let mut body = b"\x05READY".to_vec();
    add_property(&mut body, b"Socket-Type", kind.name());
    add_property(&mut body, b"Identity", b"");
    body
}

fn add_property(body: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    body.push(name.len() as u8);
    body.extend_from_slice(name);
    body.extend_from_slice(&(value.len() as u32).to_be_bytes());
    body.extend_from_slice(value);
}

/// Checks a peer's READY command.
pub(crate) fn check_ready(kind: SocketKind, body: &[u8]) -> Result<(), Refusal> {
    let mut rest = body.strip_prefix(b"\x05READY").ok_or("it did not send READY")?;
    while !rest.is_empty() {
        let (name, value, after) = property(rest).ok_or("its READY is cut off")?;
        if name.eq_ignore_ascii_case(b"Socket-Type") {
            return if kind.accepts(value) { Ok(()) } else { Err("its socket is of another type") };
        }
        rest = after;
    }
    Err("its READY names no socket type")
}

/// The first property: its name, its value, and what follows.
fn property(bytes: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let (length, rest) = bytes.split_first()?;
    let (name, rest) = rest.split_at_checked(usize::from(*length))?;
    let (length, rest) = rest.split_first_chunk()?;
    let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
    let (value, rest) = rest.split_at_checked(length)?;
    Some((name, value, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn our_own_greeting_is_accepted_and_others_are_not() {
        assert_eq!(check_greeting(&greeting()), Ok(()));
        let with = |at: usize, byte| {
            let mut bytes = greeting();
            bytes[at] = byte;
            check_greeting(&bytes)
        };
        assert!(with(0, b'G').is_err());
        assert!(with(VERSION_AT, 2).is_err());
        assert!(with(MECHANISM_AT, b'P').is_err());
        assert_eq!(with(VERSION_AT + 1, 1), Ok(()), "a later minor version");
    }

    #[test]
    fn a_socket_of_the_wrong_type_is_refused() {
        let ready_of = |kind: &[u8]| {
            let mut body = b"\x05READY".to_vec();
            add_property(&mut body, b"Identity", b"me");
            add_property(&mut body, b"socket-type", kind);
            body
        };
        assert_eq!(check_ready(SocketKind::Publisher, &ready_of(b"SUB")), Ok(()));
        assert_eq!(check_ready(SocketKind::Router, &ready_of(b"DEALER")), Ok(()));
        assert!(check_ready(SocketKind::Publisher, &ready_of(b"REQ")).is_err());
        assert!(check_ready(SocketKind::Router, &ready_of(b"PUB")).is_err());
        assert!(check_ready(SocketKind::Router, b"\x05READY").is_err());
        assert!(check_ready(SocketKind::Router, &ready(SocketKind::Router)).is_ok());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(body: Vec<u8>) {
            let cut = [b"\x05READY".as_slice(), &body].concat();
            let _ = check_ready(SocketKind::Router, &cut);
            let _ = check_ready(SocketKind::Publisher, &body);
        }
    }
}
