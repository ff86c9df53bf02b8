//! The first words on a connection: `Hello` and `Welcome`, and the choice of a protocol version.

use crate::frame::{FrameHeader, HEADER_BYTES, MessageKind};
use crate::generated::perigee::session as wire;
use crate::limits::{PROTOCOL_MAX, PROTOCOL_MIN};
use crate::message::{MessageError, decode};
use crate::{Identity, Status};
use flatbuffers::FlatBufferBuilder;

pub use wire::Role;

/// This build's name in greetings.
pub const BUILD: &str = concat!("perigee ", env!("CARGO_PKG_VERSION"));

/// What a connecting side says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Oldest protocol version it speaks.
    pub protocol_min: u16,
    /// Newest protocol version it speaks.
    pub protocol_max: u16,
    /// Program and version, for messages.
    pub build: String,
    /// What it is.
    pub role: Role,
    /// Its random identity.
    pub peer: Identity,
    /// Epoch of the life of the answering process that it has met before; 0 for none.
    pub met: u64,
}

/// What the answering side says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// `Ok`, or why the connection is refused.
    pub status: Status,
    /// The chosen protocol version.
    pub protocol: u16,
    /// Program and version, for messages.
    pub build: String,
    /// Random number of the process's life.
    pub epoch: u64,
    /// Readable reason of a refusal.
    pub message: String,
}

impl Hello {
    /// This build's greeting.
    pub fn new(role: Role, peer: Identity) -> Self {
        Self {
            protocol_min: PROTOCOL_MIN,
            protocol_max: PROTOCOL_MAX,
            build: BUILD.to_owned(),
            role,
            peer,
            met: 0,
        }
    }

    /// The whole frame.
    pub fn encode(&self) -> Vec<u8> {
        let mut builder = FlatBufferBuilder::new();
        let build = builder.create_string(&self.build);
        let root = wire::Hello::create(
            &mut builder,
            &wire::HelloArgs {
                protocol_min: self.protocol_min,
                protocol_max: self.protocol_max,
                build: Some(build),
                role: self.role,
                peer_high: self.peer.high(),
                peer_low: self.peer.low(),
                met: self.met,
            },
        );
        builder.finish_minimal(root);
        framed(MessageKind::Hello, builder.finished_data())
    }

    /// Reads a body of kind [`MessageKind::Hello`].
    ///
    /// # Errors
    /// The body is malformed.
    pub fn decode(body: &[u8]) -> Result<Self, MessageError> {
        let hello = decode::<wire::Hello<'_>>(body)?;
        Ok(Self {
            protocol_min: hello.protocol_min(),
            protocol_max: hello.protocol_max(),
            build: hello.build().unwrap_or_default().to_owned(),
            role: hello.role(),
            peer: Identity::from_halves(hello.peer_high(), hello.peer_low()),
            met: hello.met(),
        })
    }

    /// The newest version that both sides speak, if they speak one.
    pub fn protocol(&self) -> u16 {
        self.protocol_max.min(PROTOCOL_MAX)
    }

    /// Answers a greeting: the newest version both sides speak, or a refusal that names the side to
    /// upgrade.
    pub fn answer(&self, epoch: u64) -> Welcome {
        let protocol = self.protocol();
        let refused = protocol < self.protocol_min.max(PROTOCOL_MIN);
        let message = if !refused {
            String::new()
        } else if self.protocol_max < PROTOCOL_MIN {
            format!(
                "{} speaks protocol {}..{}, this side ({BUILD}) needs at least {PROTOCOL_MIN}: upgrade {}",
                self.build, self.protocol_min, self.protocol_max, self.build
            )
        } else {
            format!(
                "{} needs at least protocol {}, this side ({BUILD}) speaks at most {PROTOCOL_MAX}: upgrade {BUILD}",
                self.build, self.protocol_min
            )
        };
        let status = if refused { Status::InvalidVersion } else { Status::Ok };
        Welcome { status, protocol, build: BUILD.to_owned(), epoch, message }
    }
}

impl Welcome {
    /// The whole frame.
    pub fn encode(&self) -> Vec<u8> {
        let mut builder = FlatBufferBuilder::new();
        let build = builder.create_string(&self.build);
        let message = builder.create_string(&self.message);
        let root = wire::Welcome::create(
            &mut builder,
            &wire::WelcomeArgs {
                status: self.status.code(),
                protocol: self.protocol,
                protocol_min: PROTOCOL_MIN,
                protocol_max: PROTOCOL_MAX,
                build: Some(build),
                epoch: self.epoch,
                message: Some(message),
            },
        );
        builder.finish_minimal(root);
        framed(MessageKind::Welcome, builder.finished_data())
    }

    /// Reads a body of kind [`MessageKind::Welcome`].
    ///
    /// # Errors
    /// The body is malformed.
    pub fn decode(body: &[u8]) -> Result<Self, MessageError> {
        let welcome = decode::<wire::Welcome<'_>>(body)?;
        Ok(Self {
            status: Status::from_peer(welcome.status()),
            protocol: welcome.protocol(),
            build: welcome.build().unwrap_or_default().to_owned(),
            epoch: welcome.epoch(),
            message: welcome.message().unwrap_or_default().to_owned(),
        })
    }
}

/// The whole frame of a refusal outside any particular call.
pub fn encode_failure(request: u64, status: Status, text: &str) -> Vec<u8> {
    let mut builder = FlatBufferBuilder::new();
    let message = builder.create_string(text);
    let root = wire::Failure::create(
        &mut builder,
        &wire::FailureArgs { status: status.code(), message: Some(message) },
    );
    builder.finish_minimal(root);
    let body = builder.finished_data();
    let mut frame = FrameHeader::encode(MessageKind::Failure, request, body).to_vec();
    frame.extend_from_slice(body);
    frame
}

/// Reads a body of kind [`MessageKind::Failure`]: the status and its reason.
///
/// # Errors
/// The body is malformed.
pub fn decode_failure(body: &[u8]) -> Result<(Status, String), MessageError> {
    let failure = decode::<wire::Failure<'_>>(body)?;
    Ok((Status::from_peer(failure.status()), failure.message().unwrap_or_default().to_owned()))
}

fn framed(kind: MessageKind, body: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(HEADER_BYTES + body.len());
    frame.extend_from_slice(&FrameHeader::encode(kind, 0, body));
    frame.extend_from_slice(body);
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello(min: u16, max: u16) -> Hello {
        Hello { protocol_min: min, protocol_max: max, ..Hello::new(Role::Client, Identity(9)) }
    }

    #[test]
    fn greetings_round_trip() {
        let hello = hello(1, 3);
        assert_eq!(Hello::decode(&hello.encode()[HEADER_BYTES..]).unwrap(), hello);
        let welcome = hello.answer(77);
        assert_eq!(Welcome::decode(&welcome.encode()[HEADER_BYTES..]).unwrap(), welcome);
    }

    #[test]
    fn the_newest_common_version_is_chosen() {
        let welcome = hello(PROTOCOL_MIN, PROTOCOL_MAX + 5).answer(1);
        assert_eq!((welcome.status, welcome.protocol), (Status::Ok, PROTOCOL_MAX));
    }

    #[test]
    fn an_older_peer_is_spoken_to_in_its_own_version() {
        let older = hello(PROTOCOL_MIN, PROTOCOL_MIN);
        assert!(older.protocol() < PROTOCOL_MAX);
        let welcome = older.answer(1);
        assert_eq!((welcome.status, welcome.protocol), (Status::Ok, PROTOCOL_MIN));
    }

    #[test]
    fn a_peer_outside_the_window_learns_which_side_must_upgrade() {
        let newer = hello(PROTOCOL_MAX + 1, PROTOCOL_MAX + 2).answer(1);
        assert_eq!(newer.status, Status::InvalidVersion);
        assert!(newer.message.ends_with(&format!("upgrade {BUILD}")), "{}", newer.message);
        let mut older = hello(0, 0);
        older.build = "perigee 0.0.1".to_owned();
        let refusal = older.answer(1);
        assert_eq!(refusal.status, Status::InvalidVersion);
        assert!(refusal.message.ends_with("upgrade perigee 0.0.1"), "{}", refusal.message);
    }
}
