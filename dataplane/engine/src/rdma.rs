//! The RDMA route: rails over whatever fabric there is, and what the document says about them.
//!
//! Bounds are checked by the peer's devices: a key reaches exactly what was registered, and revoking it ends that. The
//! invariant: a buffer is taken back only after its keys were revoked.

mod courier;
mod fallback;
mod remote;

pub(crate) use fallback::RailFlight;
pub(crate) use remote::RemoteRails;

use crate::error::EngineError;
use crate::options::EngineOptions;
use crate::registry::Region;
use crate::report::RailReport;
use courier::Courier;
use perigee_device::DmaBuf;
use perigee_discovery::{
    ConnectionMessage, DeviceEntry, Directory, HandshakeClient, SegmentDocument,
};
use perigee_mover::Route;
use perigee_rails::{
    EndpointOffer, Exchange, Preference, RailDevice, RailEngine, RailError, RailOptions,
    Registration, host_devices,
};
use perigee_settings::{Protocols, REQUIRE_RDMA};
use perigee_verbs::libibverbs::HostDevices;
use perigee_verbs::{Access, Fabric};
use serde_json::Value;
use std::os::fd::AsFd;
use std::sync::Arc;

/// Name of the document's field with the keys of the registered buffers.
pub(crate) const REGIONS_FIELD: &str = "regions";

/// A fabric that stands in for the host's devices, for tests and simulation.
#[derive(Clone)]
pub struct GivenFabric(pub Arc<dyn Fabric>);

impl std::fmt::Debug for GivenFabric {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("GivenFabric")
    }
}

/// Rails of this engine.
#[derive(Debug)]
pub(crate) struct Rdma {
    engine: RailEngine,
    courier: Arc<Courier>,
}

impl Rdma {
    /// Starts the rails if they are wanted and there are any. That there are none is an error only if they are required:
    /// programs name rdma for clusters where some hosts have none.
    pub(crate) fn start(
        options: &EngineOptions,
        name: &str,
        directory: &Directory,
        client: &HandshakeClient,
    ) -> Result<Option<Arc<Self>>, EngineError> {
        let wanted = Protocols::parse(&options.protocol)?;
        if !wanted.rdma {
            return Ok(None);
        }
        match Self::open(options, name, directory, client) {
            Ok(rdma) => return Ok(Some(Arc::new(rdma))),
            Err(reason) if options.requires_rdma => {
                return Err(EngineError::Device(format!(
                    "RDMA cannot be used: {reason}; load the device's driver, or use protocol tcp"
                )));
            }
            Err(reason) if wanted.tcp => {
                tracing::info!(reason, "RDMA is off; transfers go over TCP");
            }
            Err(reason) => tracing::warn!(
                reason,
                "RDMA cannot be used, TCP is; load the device's driver, correct the device names, or choose protocol tcp \
                 ({}=1 makes this an error)",
                REQUIRE_RDMA.name
            ),
        }
        Ok(None)
    }

    fn open(
        options: &EngineOptions,
        name: &str,
        directory: &Directory,
        client: &HandshakeClient,
    ) -> Result<Self, String> {
        let fabric: Arc<dyn Fabric> = match &options.fabric {
            Some(GivenFabric(fabric)) => fabric.clone(),
            None => Arc::new(HostDevices::load().map_err(|error| error.to_string())?),
        };
        let settings = RailOptions {
            devices: devices(options)?,
            shards: options.shards,
            poll: options.poll,
            queue_pairs_per_rail: options.queue_pairs_per_rail,
            ..RailOptions::named(name)
        };
        let courier = Arc::new(Courier::new(directory.clone(), client.clone()));
        let exchange: Arc<dyn Exchange> = courier.clone();
        let engine = RailEngine::start(&*fabric, &settings, &exchange);
        let engine = engine.map_err(|error| error.to_string())?;
        Ok(Self { engine, courier })
    }

    pub(crate) fn rails(&self) -> &RailEngine {
        &self.engine
    }

    /// Registers a buffer with every rail that suits it.
    ///
    /// # Safety
    /// The memory must stay mapped until the registration was revoked.
    pub(crate) unsafe fn register(
        &self,
        address: u64,
        bytes: u64,
        preference: &Preference,
    ) -> Result<Arc<Registration>, RailError> {
        // SAFETY: the caller's promise is the same.
        unsafe {
            self.engine
                .register(address, bytes, Access::ALL, preference)
        }
    }

    /// Registers memory of a device with every rail that can reach it.
    ///
    /// # Safety
    /// The dma-buf must hold what the device has at `address`, and the memory must stay until the registration was revoked.
    pub(crate) unsafe fn register_device(
        &self,
        buffer: &DmaBuf,
        address: u64,
        bytes: u64,
        preference: &Preference,
    ) -> Result<Arc<Registration>, RailError> {
        let (file, offset) = (buffer.file.as_fd(), buffer.offset_bytes);
        // SAFETY: the caller's promise is the same.
        unsafe {
            self.engine
                .register_dmabuf(file, offset, (address, bytes), Access::ALL, preference)
        }
    }

    /// Writes rails and keys into a document.
    pub(crate) fn describe(&self, regions: &[Arc<Region>], document: &mut SegmentDocument) {
        let descriptor = self.engine.descriptor();
        let device = |rail: &perigee_rails::RailDescriptor| DeviceEntry {
            name: rail.device.clone(),
            lid: rail.lid,
            gid: rail
                .gids
                .first()
                .map(|gid| gid_text(&gid.address))
                .unwrap_or_default(),
        };
        document.devices = descriptor.rails.iter().map(device).collect();
        let Some(extra) = &mut document.perigee else {
            return;
        };
        // Without a lease: what keys reach is the caller's until it is unregistered, and the devices refuse them afterwards.
        let keys = |region: &Arc<Region>| {
            let registration = region.registration()?;
            serde_json::to_value(registration.descriptor(region.generation(), None)).ok()
        };
        let keys: Vec<Value> = regions.iter().filter_map(keys).collect();
        extra.rails = serde_json::to_value(&descriptor).into_iter().collect();
        extra
            .unknown
            .insert(REGIONS_FIELD.to_owned(), Value::Array(keys));
    }

    /// Answers a peer that wants to join queue pairs.
    pub(crate) fn accept(&self, message: &ConnectionMessage) -> Result<ConnectionMessage, String> {
        let offer: EndpointOffer = serde_json::from_str(&message.payload)
            .map_err(|error| format!("the offer is not one of Perigee's rails: {error}"))?;
        let answer = self
            .engine
            .accept(offer)
            .map_err(|error| error.to_string())?;
        let payload = serde_json::to_string(&answer).map_err(|error| error.to_string())?;
        Ok(ConnectionMessage {
            payload,
            ..ConnectionMessage::default()
        })
    }

    /// One report per rail.
    pub(crate) fn reports(&self) -> Vec<RailReport> {
        let report = |rail: perigee_rails::RailReport| RailReport {
            name: rail.rail,
            route: Route::Rdma,
            bytes_read: rail.read_bytes,
            bytes_written: rail.written_bytes,
            bytes_served: 0,
            operations: rail.reads + rail.writes,
            errors: rail.errors,
            refused: 0,
            in_flight: rail.in_flight_bytes,
            state: if rail.active { "up" } else { "down" }.to_owned(),
        };
        self.engine.reports().into_iter().map(report).collect()
    }

    /// Ends the rails; nothing of the callers' memory is touched afterwards.
    pub(crate) fn close(&self) {
        self.courier.close();
        self.engine.close();
    }
}

/// The devices that suit this host, or those that were named.
fn devices(options: &EngineOptions) -> Result<Vec<RailDevice>, String> {
    if options.fabric.is_some() {
        return Ok(Vec::new());
    }
    let environment = |name: &str| options.topology_variable(name);
    host_devices(&options.devices, &environment).map_err(|error| error.to_string())
}

fn gid_text(address: &[u8; 16]) -> String {
    let groups = address.iter().map(|byte| format!("{byte:02x}"));
    groups.collect::<Vec<_>>().join(":")
}
