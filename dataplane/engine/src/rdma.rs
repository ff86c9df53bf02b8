//! RDMA of an engine: how it is started, what the document says about it, what it reports.
//!
//! Bounds are checked by the peer's devices: a key reaches exactly what was registered, and
//! revoking it ends that. The invariant: a buffer is taken back only after its keys were revoked.

mod loose_pieces;
mod rail_batch;

pub(crate) use rail_batch::RailBatch;

use crate::error::EngineError;
use crate::options::EngineOptions;
use crate::peer_addresses;
use crate::report::RouteReport;
use perigee_discovery::{DeviceEntry, SegmentDocument};
use perigee_rails::{RailDescriptor, RailEngine};
use perigee_rdma::{FirstLoad, Rdma, RdmaOptions, StartOptions, Unavailable};
use perigee_schemas::{Identity, Route};
use perigee_settings::Protocols;
use std::sync::Arc;

/// Starts the rails if they are wanted and there are any. That there are none is an error only if
/// they are required: programs name rdma for clusters where some hosts have none.
pub(crate) fn start(
    options: &EngineOptions,
    name: &str,
    identity: Identity,
) -> Result<Option<Arc<Rdma>>, EngineError> {
    let protocols = Protocols::parse(&options.protocol)?;
    if !protocols.rdma {
        // The names are those of interfaces then.
        peer_addresses::warn_of_unknown(&options.devices);
        return Ok(None);
    }
    let asked = StartOptions {
        protocols,
        is_required: options.requires_rdma,
        device_names: &options.devices,
        auto_discovery: options.auto_discovery,
        variable: &|name| options.topology_variable(name),
        fabric: options.fabric.as_ref(),
        options: RdmaOptions {
            identity,
            name: name.to_owned(),
            shards: options.shards,
            poll: options.poll,
            queue_pairs_per_rail: options.queue_pairs_per_rail,
            tuning: options.rails.clone(),
            first_load: FirstLoad::AtOnce,
        },
    };
    let started = perigee_rdma::start(&asked);
    started.map_err(|error: Unavailable| EngineError::Device(error.to_string()))
}

/// Writes the rails into a document: Mooncake's field, and ours, by which peers know that it is
/// worth to ask on the data port for keys and a lease.
pub(crate) fn describe(rails: &RailEngine, document: &mut SegmentDocument) {
    let descriptor = rails.descriptor();
    let device = |rail: &RailDescriptor| DeviceEntry {
        name: rail.device.clone(),
        lid: rail.lid,
        gid: rail.gids.first().map(|gid| gid_text(&gid.address)).unwrap_or_default(),
    };
    document.devices = descriptor.rails.iter().map(device).collect();
    if let Some(extra) = &mut document.perigee {
        extra.rails = serde_json::to_value(&descriptor).into_iter().collect();
    }
}

/// One report per rail.
pub(crate) fn reports(rails: &RailEngine) -> Vec<RouteReport> {
    let report = |rail: perigee_rails::RailReport| RouteReport {
        name: rail.rail,
        route: Route::Rdma,
        bytes_read: rail.read_bytes,
        bytes_written: rail.written_bytes,
        bytes_served: 0,
        operations: rail.reads + rail.writes,
        errors: rail.errors,
        refused: 0,
        in_flight: rail.in_flight_bytes,
        bytes_per_second: rail.bytes_per_second,
        state: if rail.active { "up" } else { "down" }.to_owned(),
    };
    rails.reports().into_iter().map(report).collect()
}

fn gid_text(address: &[u8; 16]) -> String {
    let groups = address.iter().map(|byte| format!("{byte:02x}"));
    groups.collect::<Vec<_>>().join(":")
}
