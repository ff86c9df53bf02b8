//! May this engine take a name? Invariant: a dead engine never keeps its name, and a living one
//! never loses it to another that was given the same by mistake.

use super::Keys;
use super::backend::Server;
use crate::document::SegmentDocument;
use crate::error::DiscoveryError;
use crate::handshake::HandshakeClient;
use crate::message::RpcMeta;
use std::time::Duration;

/// Refuses if a living engine, not the one at `meta`, is registered under `name`.
pub(super) fn check(
    server: &Server,
    keys: &Keys,
    name: &str,
    meta: &RpcMeta,
    handshake: &HandshakeClient,
) -> Result<(), DiscoveryError> {
    let Some(stored) = server.get(&keys.rpc_meta, Duration::MAX)? else {
        return Ok(());
    };
    // A record that cannot be read keeps nobody out; nor does one of this very place, which only
    // an earlier life of this engine can have written.
    let Some(holder) = RpcMeta::decode(&stored)
        .ok()
        .filter(|holder| holder != meta)
    else {
        return Ok(());
    };
    let document = server.get(&keys.segment, Duration::MAX)?;
    let document = document.and_then(|json| SegmentDocument::decode(&json).ok());
    if !lives(&holder, document.as_ref(), handshake) {
        return Ok(());
    }
    Err(DiscoveryError::NameTaken {
        name: name.to_owned(),
        holder: holder.to_string(),
    })
}

/// Whether the engine that registered still answers. Behind its port there may be another engine
/// by now; one of ours can be told by its epoch.
fn lives(
    holder: &RpcMeta,
    document: Option<&SegmentDocument>,
    handshake: &HandshakeClient,
) -> bool {
    let epoch = |document: &SegmentDocument| document.perigee.as_ref().map(|own| own.epoch.clone());
    match document.and_then(epoch) {
        Some(registered) => {
            let answered = handshake.identify(holder).ok();
            answered.is_some_and(|answered| epoch(&answered) == Some(registered))
        }
        None => handshake.probe(holder).is_ok(),
    }
}
