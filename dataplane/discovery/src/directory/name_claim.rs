//! May this engine take a name? Invariant: a dead engine never keeps its name, and a living one
//! never loses it to another that was given the same by mistake. If liveness cannot be determined,
//! the current owner keeps the name.

use super::RecordKeys;
use super::backend::EntryClaim;
use super::renewal::EntryRenewer;
use crate::error::{DiscoveryError, HandshakeError, HandshakeFrameError};
use crate::handshake::HandshakeClient;
use crate::limits::{CLAIMS_MAX, FRAME_BYTES_MAX};
use crate::message::RpcMeta;
use std::io::ErrorKind;
use std::time::Duration;

/// Writes the record of `name` unless an engine that may live has it, not the one at `meta`.
pub(super) fn take(
    renewer: &EntryRenewer,
    keys: &RecordKeys,
    name: &str,
    meta: &RpcMeta,
    handshake: &HandshakeClient,
) -> Result<(), DiscoveryError> {
    let server = renewer.server();
    let (key, mine) = (&keys.rpc_meta, meta.encode());
    let mut holder = String::new();
    for _ in 0..CLAIMS_MAX {
        let stored = server.get(key, server.until(Duration::MAX))?;
        // An unreadable record does not block the name.
        let held = stored.as_ref().and_then(|json| RpcMeta::decode(json).ok());
        if let Some(held) = &held {
            check(name, held, meta, handshake)?;
            holder = held.to_string();
        }
        let until = server.until(Duration::MAX);
        let claim = EntryClaim { key, value: &mine, seen: stored.as_deref() };
        if renewer.claim(&claim, until)? {
            return Ok(());
        }
        // Another process wrote between the look and the claim; look at its record now.
    }
    Err(DiscoveryError::NameTaken { name: name.to_owned(), holder })
}

/// Refuses if the engine that registered may live.
fn check(
    name: &str,
    holder: &RpcMeta,
    meta: &RpcMeta,
    handshake: &HandshakeClient,
) -> Result<(), DiscoveryError> {
    // Only an earlier run of this engine can have written a record of this very place.
    let place = |meta: &RpcMeta| (meta.ip_or_host_name.clone(), meta.rpc_port);
    if place(holder) == place(meta) {
        return Ok(());
    }
    let name = name.to_owned();
    match look(holder, handshake) {
        Liveness::Dead => Ok(()),
        Liveness::Alive => Err(DiscoveryError::NameTaken { name, holder: holder.to_string() }),
        Liveness::Unclear(reason) => {
            Err(DiscoveryError::NameUnclear { name, holder: holder.to_string(), reason })
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Liveness {
    Alive,
    Dead,
    Unclear(String),
}

/// Whether the engine that registered still answers. Another engine may listen on its port by now;
/// engines of ours are recognized by their epoch.
fn look(holder: &RpcMeta, handshake: &HandshakeClient) -> Liveness {
    let answered = match &holder.perigee_epoch {
        Some(epoch) => handshake.identify(holder).map(|document| {
            let answered = document.perigee.map(|own| own.epoch);
            answered.as_ref() == Some(epoch)
        }),
        None => handshake.probe(holder).map(|()| true),
    };
    match answered {
        Ok(true) => Liveness::Alive,
        Ok(false) => Liveness::Dead,
        Err(error) if is_final(&error) => Liveness::Dead,
        Err(error) => Liveness::Unclear(error.to_string()),
    }
}

/// Whether an error proves that the registered engine is gone: nothing listens, nothing answers, or
/// another engine does. An address that does not resolve from here, or a broken connection, proves
/// nothing.
fn is_final(error: &HandshakeError) -> bool {
    match error {
        HandshakeError::Unreachable { kind, .. } => matches!(
            kind,
            ErrorKind::ConnectionRefused | ErrorKind::HostUnreachable | ErrorKind::TimedOut
        ),
        HandshakeError::Deadline { .. }
        | HandshakeError::Refused { .. }
        | HandshakeError::Answer { .. } => true,
        // It may be a document that is longer than what this engine takes, unless no engine takes
        // that much.
        HandshakeError::Frame(HandshakeFrameError::TooLong { bytes, .. }) => {
            *bytes > FRAME_BYTES_MAX as u64
        }
        HandshakeError::Frame(_) => true,
        HandshakeError::Unresolved { .. } | HandshakeError::Broken { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::DiscoverySettings;
    use std::net::TcpListener;

    fn found(host: &str, port: u16) -> Liveness {
        look(
            &RpcMeta::new(host, port).of_life("1"),
            &HandshakeClient::new(&DiscoverySettings::default()),
        )
    }

    #[test]
    fn who_refuses_or_is_silent_is_dead_and_who_cannot_be_found_is_not() {
        assert_eq!(found("127.0.0.1", 1), Liveness::Dead);
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        assert_eq!(found("127.0.0.1", silent.local_addr().unwrap().port()), Liveness::Dead);
        let unknown = found("no-such-host.invalid", 1);
        assert!(matches!(unknown, Liveness::Unclear(reason) if reason.contains("no-such-host")));
    }

    #[test]
    fn only_an_answer_too_long_for_every_engine_proves_death() {
        let of_length = |bytes| {
            is_final(&HandshakeError::Frame(HandshakeFrameError::TooLong { bytes, limit: 1 << 20 }))
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
        assert!(matches!(found("127.0.0.1", port), Liveness::Unclear(_)));
        closes.join().unwrap();
    }
}
