//! The call about addresses of clients.

use super::call::{CallCounts, CallRefusal, ReplyBuilder};
use super::segment_calls::identities;
use crate::cluster::ControlShard;
use perigee_metrics::RpcKind;
use perigee_schemas::message::decode;
use perigee_schemas::{Status, master};
use perigee_shard::Environment;

pub(super) async fn query(
    shard: &ControlShard<impl Environment>,
    body: &[u8],
    builder: &mut ReplyBuilder,
) -> Result<CallCounts, CallRefusal> {
    let request = decode::<master::QueryAddressesRequest<'_>>(body)?;
    let clients = identities(request.client_high(), request.client_low(), "clients")?;
    let found = shard.addresses(clients).await.ok_or_else(|| {
        CallRefusal::new(Status::UnavailableInCurrentStatus, "The master is ending")
    })?;
    let verdict = |found: &Option<Vec<String>>| match found {
        Some(_) => Status::Ok.code(),
        None => Status::ClientNotFound.code(),
    };
    let status: Vec<i32> = found.iter().map(verdict).collect();
    let count = found.iter().map(|addresses| addresses.as_ref().map_or(0, Vec::len) as u32);
    let count: Vec<u32> = count.collect();
    let addresses = found.iter().flatten().flatten();
    let addresses: Vec<_> = addresses.map(|address| builder.create_string(address)).collect();
    let args = master::QueryAddressesReplyArgs {
        status: Some(builder.create_vector(&status)),
        count: Some(builder.create_vector(&count)),
        addresses: Some(builder.create_vector(&addresses)),
    };
    let root = master::QueryAddressesReply::create(builder, &args);
    builder.finish_minimal(root);
    Ok(CallCounts::keys(RpcKind::BatchQueryIp, false, &status))
}
