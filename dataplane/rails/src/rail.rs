//! One local rail: an open port of a device, with what all shards share of it.

use crate::addresses::RailAddresses;
use crate::descriptor::RailDescriptor;
use crate::error::RailError;
use perigee_verbs::{Device, DeviceEvent, Fabric, LinkLayer, LinkOptions, VerbsError};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Events taken from a device at a time.
const EVENTS_PER_LOOK: usize = 64;
/// What a port of unknown speed is taken for, in bits per second.
const UNKNOWN_BITS_PER_SECOND: u64 = 10_000_000_000;

/// Which device to use, and where it sits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RailDevice {
    /// Name as the kernel gives it, with a port if it is not the first active one: `mlx5_0`,
    /// `mlx5_1:2`.
    pub name: String,
    /// NUMA node, where it is known.
    pub node: Option<u32>,
}

/// An open rail.
#[derive(Debug)]
pub(crate) struct Rail {
    device: Arc<dyn Device>,
    name: String,
    addresses: Mutex<Arc<RailAddresses>>,
    active: AtomicBool,
    lost: AtomicBool,
}

impl Rail {
    fn open(
        fabric: &dyn Fabric,
        wanted: &RailDevice,
        link: &LinkOptions,
    ) -> Result<Self, VerbsError> {
        let device = fabric.open(&link.place(&wanted.name))?;
        link.check(device.info())?;
        let (addresses, trouble) = RailAddresses::read(&wanted.name, device.as_ref())?;
        match trouble {
            // Another port may work until then, and the address may come.
            Some(error @ VerbsError::NoGid { .. }) => {
                tracing::warn!(%error, "A rail is not used before it has an address");
            }
            Some(error) => return Err(error),
            None => {}
        }
        Ok(Self {
            addresses: Mutex::new(Arc::new(addresses)),
            name: wanted.name.clone(),
            active: AtomicBool::new(device.port_active()?),
            lost: AtomicBool::new(false),
            device,
        })
    }

    /// Device name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Its addresses as they are now. Another `Arc` is another table.
    pub(crate) fn addresses(&self) -> Arc<RailAddresses> {
        self.lock_addresses().clone()
    }

    fn lock_addresses(&self) -> MutexGuard<'_, Arc<RailAddresses>> {
        let addresses = self.addresses.lock();
        addresses.unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the port carries traffic.
    pub(crate) fn is_active(&self) -> bool {
        self.active.load(Ordering::Relaxed) && !self.lost.load(Ordering::Relaxed)
    }

    /// The device does not work any more.
    pub(crate) fn lose(&self) {
        self.lost.store(true, Ordering::Relaxed);
    }

    pub(crate) fn device(&self) -> &Arc<dyn Device> {
        &self.device
    }

    /// Speed of the port in bytes per second.
    pub(crate) fn nominal(&self) -> f64 {
        let bits = match self.device.info().link_bits_per_second {
            0 => UNKNOWN_BITS_PER_SECOND,
            bits => bits,
        };
        bits as f64 / 8.0
    }

    /// Bytes of the largest message of the port.
    pub(crate) fn message_bytes(&self) -> u64 {
        self.device.info().limits.message_bytes.max(1)
    }

    pub(crate) fn descriptor(&self) -> RailDescriptor {
        let info = self.device.info();
        RailDescriptor {
            device: self.name.clone(),
            infiniband: info.link_layer == LinkLayer::InfiniBand,
            lid: info.lid,
            gids: self.addresses().usable().to_vec(),
        }
    }

    /// Takes the device's asynchronous events. The shard that polls first sets the flags that all
    /// shards read.
    pub(crate) fn take_events(&self) {
        let mut is_readdressed = false;
        for _ in 0..EVENTS_PER_LOOK {
            match self.device.take_event() {
                Ok(Some(event)) => is_readdressed |= self.note(event),
                Ok(None) => break,
                Err(VerbsError::DeviceLost { .. }) => {
                    return self.lost.store(true, Ordering::Relaxed);
                }
                Err(error) => {
                    tracing::warn!(%error, "Events of a device cannot be read");
                    break;
                }
            }
        }
        if is_readdressed {
            self.read_addresses();
        }
    }

    /// Ranks the addresses again. Shards see another table with their next look.
    fn read_addresses(&self) {
        // Shards that look at the same time must not put an older table in the place of a newer
        // one.
        let mut current = self.lock_addresses();
        let (addresses, trouble) = match RailAddresses::read(&self.name, self.device.as_ref()) {
            Ok(read) => read,
            Err(error) => return tracing::warn!(%error, "The addresses of a rail cannot be read"),
        };
        if **current == addresses {
            return;
        }
        let ranking = addresses.explain().join("; ");
        match trouble {
            None => tracing::info!(rail = self.name, ranking, "The addresses of a rail changed"),
            Some(error) => {
                tracing::warn!(%error, "A rail has lost its addresses; it is used again when it has one");
            }
        }
        *current = Arc::new(addresses);
    }

    /// Notes an event; true if the addresses may be others now.
    fn note(&self, event: DeviceEvent) -> bool {
        match event {
            DeviceEvent::GidChange { port } => return port == self.device.info().port,
            DeviceEvent::PortDown { port } if port == self.device.info().port => {
                tracing::warn!(rail = self.name, "The port is down");
                self.active.store(false, Ordering::Relaxed);
            }
            DeviceEvent::PortUp { port } if port == self.device.info().port => {
                tracing::info!(rail = self.name, "The port is up");
                self.active.store(true, Ordering::Relaxed);
            }
            DeviceEvent::DeviceFatal => {
                tracing::error!(rail = self.name, "The device is lost; its rail stays down");
                self.lost.store(true, Ordering::Relaxed);
            }
            _ => {}
        }
        false
    }
}

/// Opens the wanted devices, or all with an active port. Devices that cannot be used are left out;
/// one without an address is kept beside others, for the address may come.
///
/// # Errors
/// None can be used; the message says why for each.
pub(crate) fn open_rails(
    fabric: &dyn Fabric,
    wanted: &[RailDevice],
    link: &LinkOptions,
) -> Result<Vec<Arc<Rail>>, RailError> {
    let all;
    let wanted = if wanted.is_empty() {
        let active = fabric.devices()?.into_iter().filter(|info| info.active);
        let device = |info: perigee_verbs::DeviceInfo| RailDevice { name: info.name, node: None };
        all = active.map(device).collect::<Vec<_>>();
        &all
    } else {
        wanted
    };
    let (mut rails, mut reasons) = (Vec::new(), Vec::new());
    for device in wanted.iter().take(crate::limits::RAILS_MAX) {
        match Rail::open(fabric, device, link) {
            Ok(rail) => {
                reasons.extend(rail.addresses().trouble().map(str::to_owned));
                rails.push(Arc::new(rail));
            }
            Err(error) => {
                tracing::warn!(%error, "A rail is left out");
                reasons.push(error.to_string());
            }
        }
    }
    if rails.iter().all(|rail| rail.addresses().usable().is_empty()) {
        let reason = if reasons.is_empty() {
            "this host has no RDMA device with an active port".to_owned()
        } else {
            reasons.join("; ")
        };
        return Err(RailError::NoRail { reason });
    }
    Ok(rails)
}
