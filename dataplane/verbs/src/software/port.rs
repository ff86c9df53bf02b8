//! One software device: its facts, faults and events.
//! Invariant: an opening belongs to the epoch in which it was made; a newer epoch makes it useless.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crate::device::DeviceEvent;
use crate::device_info::{DeviceInfo, DeviceLimits, LinkLayer};
use crate::error::VerbsError;
use crate::gid::PortGid;
use crate::limits::{EVENTS_WAITING_MAX, PIECES_MAX};

use super::default_gid;
use super::signal::EventPipe;

/// What a software device is to look like.
#[derive(Clone, Debug)]
pub struct DevicePlan {
    pub(super) name: String,
    pub(super) bits_per_second: u64,
    pub(super) delay: Duration,
    pub(super) gids: Vec<PortGid>,
    pub(super) limits: DeviceLimits,
    pub(super) mtu_bytes: u32,
    pub(super) takes_dmabuf: bool,
}

impl DevicePlan {
    /// A device that is infinitely fast, with one IPv4 GID and the limits of common hardware.
    pub fn new(name: &str) -> DevicePlan {
        DevicePlan {
            name: name.to_owned(),
            bits_per_second: 0,
            delay: Duration::ZERO,
            gids: Vec::new(),
            mtu_bytes: 4096,
            takes_dmabuf: true,
            limits: DeviceLimits {
                queue_pairs: 1 << 17,
                send_entries: 1 << 15,
                pieces: PIECES_MAX as u32,
                completion_entries: 1 << 22,
                regions: 1 << 24,
                region_bytes: 1 << 40,
                message_bytes: 1 << 30,
                inline_bytes: 256,
                reads_outstanding: 16,
                partitions: 4,
            },
        }
    }

    /// Speed of the link, in both directions together; 0 is infinite.
    #[must_use]
    pub fn bits_per_second(mut self, bits_per_second: u64) -> DevicePlan {
        self.bits_per_second = bits_per_second;
        self
    }

    /// What each work request takes longer, one way.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> DevicePlan {
        self.delay = delay;
        self
    }

    /// The GID table.
    #[must_use]
    pub fn gids(mut self, gids: &[PortGid]) -> DevicePlan {
        self.gids = gids.to_vec();
        self
    }

    /// The bounds.
    #[must_use]
    pub fn limits(mut self, limits: DeviceLimits) -> DevicePlan {
        self.limits = limits;
        self
    }

    /// A device whose driver knows no dma-bufs.
    #[must_use]
    pub fn without_dmabuf(mut self) -> DevicePlan {
        self.takes_dmabuf = false;
        self
    }

    /// The bounds as they are, to change some and give them back.
    pub fn current_limits(&self) -> DeviceLimits {
        self.limits
    }
}

/// Counters of faults that are still to come.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Planned {
    pub(super) drop_requests: u64,
    pub(super) drop_all: bool,
    pub(super) drop_attempts: u64,
    pub(super) duplicate: u64,
    pub(super) flush: u64,
    pub(super) corrupt_keys: u64,
    pub(super) refuse_registrations: u64,
    pub(super) refuse_queue_pairs: u64,
    pub(super) refuse_posts: u64,
    pub(super) report_full: u64,
    pub(super) strand: Option<Duration>,
}

#[derive(Debug)]
pub(super) struct SoftwarePort {
    pub(super) host: String,
    pub(super) info: DeviceInfo,
    pub(super) gids: Vec<PortGid>,
    pub(super) up: bool,
    pub(super) lost: bool,
    pub(super) epoch: u64,
    pub(super) bits_per_second: u64,
    pub(super) delay: Duration,
    pub(super) takes_dmabuf: bool,
    /// The link is taken until then.
    pub(super) busy_until: Duration,
    pub(super) planned: Planned,
    pub(super) queue_pairs: u32,
    pub(super) openings: Vec<Opening>,
}

/// One `open` of a device, with its own events.
#[derive(Debug)]
pub(super) struct Opening {
    pub(super) number: u64,
    pub(super) events: VecDeque<DeviceEvent>,
    pub(super) signal: Arc<EventPipe>,
}

impl SoftwarePort {
    pub(super) fn new(
        host: &str,
        plan: &DevicePlan,
        number: usize,
    ) -> Result<SoftwarePort, VerbsError> {
        let gids = if plan.gids.is_empty() { vec![default_gid(number)] } else { plan.gids.clone() };
        let info = DeviceInfo {
            name: plan.name.clone(),
            port: 1,
            ports: 1,
            active: true,
            link_layer: LinkLayer::Ethernet,
            link_bits_per_second: plan.bits_per_second,
            mtu_bytes: plan.mtu_bytes,
            lid: 0,
            gid_entries: u32::try_from(gids.len()).unwrap_or(u32::MAX),
            guid: number as u64 + 1,
            limits: plan.limits,
        };
        Ok(SoftwarePort {
            host: host.to_owned(),
            info,
            gids,
            up: true,
            lost: false,
            epoch: 0,
            bits_per_second: plan.bits_per_second,
            delay: plan.delay,
            takes_dmabuf: plan.takes_dmabuf,
            busy_until: Duration::ZERO,
            planned: Planned::default(),
            queue_pairs: 0,
            openings: Vec::new(),
        })
    }

    /// Tells every opening.
    pub(super) fn announce(&mut self, event: DeviceEvent) {
        for opening in &mut self.openings {
            opening.push(event);
        }
    }

    /// How long `bytes` take the link.
    pub(super) fn time_of(&self, bytes: u64) -> Duration {
        const NANOSECONDS: u128 = 1_000_000_000;
        if self.bits_per_second == 0 {
            return Duration::ZERO;
        }
        let ns = u128::from(bytes) * 8 * NANOSECONDS / u128::from(self.bits_per_second);
        Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
    }
}

impl Opening {
    pub(super) fn push(&mut self, event: DeviceEvent) {
        if self.events.len() >= EVENTS_WAITING_MAX {
            self.events.pop_front();
        }
        self.events.push_back(event);
        self.signal.raise();
    }
}
