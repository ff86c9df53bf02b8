//! May this engine take a name? Invariant: a dead engine never keeps its name, and a living one never loses it to another
//! that was given the same by mistake. Dead is who certainly does not answer any more: doubts speak for the holder.

use super::Keys;
use super::keeper::Keeper;
use crate::error::{DiscoveryError, FrameError, HandshakeError};
use crate::handshake::HandshakeClient;
use crate::limits::{CLAIMS_MAX, FRAME_BYTES_MAX};
use crate::message::RpcMeta;
use std::io::ErrorKind;
use std::time::Duration;

/// Writes the record of `name` unless an engine that may live has it, not the one at `meta`.
pub(super) fn take(
    keeper: &Keeper,
    keys: &Keys,
    name: &str,
    meta: &RpcMeta,
    handshake: &HandshakeClient,
) -> Result<(), DiscoveryError> {
    let server = keeper.server();
    let (key, mine) = (&keys.rpc_meta, meta.encode());
    let mut holder = String::new();
    for _ in 0..CLAIMS_MAX {
        let stored = server.get(key, server.until(Duration::MAX))?;
        // A record that cannot be read keeps nobody out.
        let held = stored.as_ref().and_then(|json| RpcMeta::decode(json).ok());
        if let Some(held) = &held {
            check(name, held, meta, handshake)?;
            holder = held.to_string();
        }
        let until = server.until(Duration::MAX);
        if keeper.claim(key, &mine, stored.as_deref(), until)? {
            return Ok(());
        }
        // Somebody wrote between the look and the claim, and is looked at now.
    }
    Err(DiscoveryError::NameTaken {
        name: name.to_owned(),
        holder,
    })
}

/// Refuses if the engine that registered may live.
fn check(
    name: &str,
    holder: &RpcMeta,
    meta: &RpcMeta,
    handshake: &HandshakeClient,
) -> Result<(), DiscoveryError> {
    // Only an earlier life of this engine can have written a record of this very place.
    let place = |meta: &RpcMeta| (meta.ip_or_host_name.clone(), meta.rpc_port);
    if place(holder) == place(meta) {
        return Ok(());
    }
    let name = name.to_owned();
    match look(holder, handshake) {
        Found::Dead => Ok(()),
        Found::Alive => Err(DiscoveryError::NameTaken {
            name,
            holder: holder.to_string(),
        }),
        Found::Unclear(reason) => Err(DiscoveryError::NameUnclear {
            name,
            holder: holder.to_string(),
            reason,
        }),
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Found {
    Alive,
    Dead,
    Unclear(String),
}

/// Whether the engine that registered still answers. Behind its port there may be another engine by now; one of ours can
/// be told by its epoch.
fn look(holder: &RpcMeta, handshake: &HandshakeClient) -> Found {
    let answered = match &holder.perigee_epoch {
        Some(epoch) => handshake.identify(holder).map(|document| {
            let answered = document.perigee.map(|own| own.epoch);
            answered.as_ref() == Some(epoch)
        }),
        None => handshake.probe(holder).map(|()| true),
    };
    match answered {
        Ok(true) => Found::Alive,
        Ok(false) => Found::Dead,
        Err(error) if is_final(&error) => Found::Dead,
        Err(error) => Found::Unclear(error.to_string()),
    }
}

/// Whether an error says that the engine that registered is gone: nobody listens, nobody answers, or somebody else does.
/// That its address cannot be found from here, or that a connection broke, says nothing of it.
fn is_final(error: &HandshakeError) -> bool {
    match error {
        HandshakeError::Unreachable { kind, .. } => matches!(
            kind,
            ErrorKind::ConnectionRefused | ErrorKind::HostUnreachable | ErrorKind::TimedOut
        ),
        HandshakeError::Deadline { .. }
        | HandshakeError::Refused { .. }
        | HandshakeError::Answer { .. } => true,
        // It may be a document that is longer than what this engine takes, unless no engine takes that much.
        HandshakeError::Frame(FrameError::TooLong { bytes, .. }) => *bytes > FRAME_BYTES_MAX as u64,
        HandshakeError::Frame(_) => true,
        HandshakeError::Unresolved { .. } | HandshakeError::Broken { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Settings;
    use std::net::TcpListener;

    fn found(host: &str, port: u16) -> Found {
        look(
            &RpcMeta::new(host, port).of_life("1"),
            &HandshakeClient::new(&Settings::default()),
        )
    }

    #[test]
    fn who_refuses_or_is_silent_is_dead_and_who_cannot_be_found_is_not() {
        assert_eq!(found("127.0.0.1", 1), Found::Dead);
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        assert_eq!(
            found("127.0.0.1", silent.local_addr().unwrap().port()),
            Found::Dead
        );
        let unknown = found("no-such-host.invalid", 1);
        assert!(matches!(unknown, Found::Unclear(reason) if reason.contains("no-such-host")));
    }

    #[test]
    fn an_answer_that_is_too_long_for_us_is_no_proof_of_death_and_one_too_long_for_all_is() {
        let of_length = |bytes| {
            is_final(&HandshakeError::Frame(FrameError::TooLong {
                bytes,
                limit: 1 << 20,
            }))
        };
        assert!(!of_length(2 << 20) && !of_length(FRAME_BYTES_MAX as u64));
        // "HTTP/1.1" as a length.
        assert!(of_length(u64::from_le_bytes(*b"HTTP/1.1")));
    }

    #[test]
    fn a_broken_connection_is_no_proof_of_death() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let closes = std::thread::spawn(move || drop(listener.accept()));
        assert!(matches!(found("127.0.0.1", port), Found::Unclear(_)));
        closes.join().unwrap();
    }
}
