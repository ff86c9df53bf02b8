//! A master with fixed contents, behind the routes.

mod keys;
mod quotas;

use crate::key_report::KeyReport;
use crate::limits::LOOKED_UP_AT_A_TIME;
use crate::master_view::ControlPlane;
use crate::master_view::{
    AdminRefusal, DrainInfo, DrainRequest, KeyCursor, KeyEventCounts, KeyPlaces, ObjectInfo,
    ObjectPage, ReplicaPlace, SegmentInfo, SegmentText,
};
use perigee_metrics::{MasterCells, MasterNumbers, TenantNumbers};
use perigee_schemas::{Status, TenantId};
use std::sync::Arc;

/// Identity of its drain job.
pub(super) const JOB: u128 = (5 << 64) | 9;

/// A master with fixed contents; `down` answers nothing.
pub(super) struct Fake {
    pub(super) segments: Vec<SegmentInfo>,
    pub(super) down: bool,
    pub(super) has_quotas: bool,
}

impl ControlPlane for Fake {
    fn readiness(&self) -> Result<(), String> {
        if self.down { Err("shards are starting".to_owned()) } else { Ok(()) }
    }

    fn locate(&self, keys: &[String]) -> Result<Vec<KeyPlaces>, Status> {
        let place = ReplicaPlace::Memory {
            payload_bytes: 1024,
            buffer_address: 140_252_811_362_304,
            protocol: "tcp".to_owned(),
            endpoint: "127.0.0.1:17001".to_owned(),
        };
        let locate = |key: &String| match key.as_str() {
            "k1" | "\u{1}red\u{1}r1" => Ok(vec![place.clone()]),
            "on-disk" => Ok(vec![ReplicaPlace::Disk {
                payload_bytes: 7,
                client: 1 << 64 | 2,
                endpoint: "127.0.0.1:17002".to_owned(),
            }]),
            _ => Err(Status::ObjectNotFound),
        };
        if self.down {
            return Err(Status::UnavailableInCurrentMode);
        }
        assert!(keys.len() <= LOOKED_UP_AT_A_TIME, "{} keys at a time", keys.len());
        Ok(keys.iter().map(locate).collect())
    }

    fn inspect(&self, key: &str) -> Result<KeyReport, Status> {
        match self.down {
            true => Err(Status::RpcTimeout),
            false => Ok(keys::report(key)),
        }
    }

    /// Each page has one key.
    fn list_objects(
        &self,
        tenant: Option<&TenantId>,
        regex: Option<&str>,
        from: Option<KeyCursor>,
        limit: usize,
    ) -> Result<ObjectPage, Status> {
        match regex {
            None => {}
            Some("(") => return Err(Status::InvalidParams),
            Some(end) => {
                let mut page = self.list_objects(tenant, None, from, limit)?;
                page.objects.retain(|object| object.key.ends_with(end));
                return Ok(page);
            }
        }
        if tenant.is_some_and(|tenant| !tenant.is_default()) {
            return Ok(ObjectPage { objects: vec![red_object()], next: None });
        }
        let at = from.map_or(0, |from| from[0]);
        let keys = ["k2", "k1"].into_iter().skip(at as usize).take(limit.min(1));
        let object = |key: &str| ObjectInfo {
            tenant: "default".to_owned(),
            key: key.to_owned(),
            payload_bytes: 1024,
            group: (key == "k1").then(|| "g".to_owned()),
            media: if key == "k1" { vec!["cpu", "disk"] } else { vec!["disk"] },
        };
        Ok(ObjectPage {
            objects: keys.map(object).collect(),
            next: (at < 1).then_some([at + 1, 0, 0]),
        })
    }

    fn key_events(&self) -> Option<KeyEventCounts> {
        let counts = KeyEventCounts {
            published_batches: 2,
            published_events: 3,
            dropped_events: 4,
            skipped_unparsed_keys: 5,
            next_sequence: 6,
            subscribers: 1,
        };
        (!self.down).then_some(counts)
    }

    fn segments(&self, name: Option<&str>) -> Result<Vec<SegmentInfo>, Status> {
        let wanted = |segment: &&SegmentInfo| name.is_none_or(|name| segment.text.name() == name);
        Ok(self.segments.iter().filter(wanted).cloned().collect())
    }

    fn remove_all(&self, tenant: Option<&TenantId>, force: bool) -> Result<u64, Status> {
        Ok(match tenant {
            Some(tenant) => 100 + tenant.name().len() as u64,
            None if force => 3,
            None => 1,
        })
    }

    fn create_drain(&self, request: DrainRequest) -> Result<u128, AdminRefusal> {
        match request.segments[0].as_str() {
            "127.0.0.1:17001" if request.max_concurrency == 4 => Ok(JOB),
            "busy" => Err(Status::UnavailableInCurrentStatus.into()),
            _ => Err(Status::SegmentNotFound.into()),
        }
    }

    fn drain_job(&self, id: u128) -> Result<DrainInfo, Status> {
        if id != JOB {
            return Err(Status::JobNotFound);
        }
        Ok(DrainInfo {
            state: 2,
            state_name: "RUNNING",
            created_ms: 1000,
            updated_ms: 2000,
            segments: vec!["127.0.0.1:17001".to_owned()],
            succeeded_units: 3,
            failed_units: 1,
            blocked_units: 2,
            active_units: 4,
            migrated_bytes: 4096,
            message: String::new(),
        })
    }

    fn cancel_drain(&self, id: u128) -> Result<(), Status> {
        match id {
            JOB => Ok(()),
            7 => Err(Status::UnavailableInCurrentStatus),
            _ => Err(Status::JobNotFound),
        }
    }

    fn tenants(&self, tenant: Option<&TenantId>) -> Option<Vec<TenantNumbers>> {
        self.has_quotas.then(|| quotas::tenants(tenant))
    }

    fn set_quota(&self, tenant: &TenantId, bytes: u64) -> Result<TenantNumbers, AdminRefusal> {
        quotas::set(tenant, bytes)
    }

    fn remove_quota(&self, tenant: &TenantId) -> Result<(), AdminRefusal> {
        quotas::remove(tenant)
    }

    fn numbers(&self) -> Result<MasterNumbers, Status> {
        let allocated_bytes = self.segments.iter().map(|segment| segment.used_bytes).sum();
        let capacity_bytes = self.segments.iter().map(|segment| segment.usable_bytes).sum();
        Ok(MasterNumbers { allocated_bytes, capacity_bytes, keys: 2, ..Default::default() })
    }

    fn cells(&self) -> Vec<Arc<MasterCells>> {
        vec![Arc::new(MasterCells::default())]
    }
}

struct Text(String);

impl SegmentText for Text {
    fn name(&self) -> &str {
        &self.0
    }

    fn endpoint(&self) -> &str {
        &self.0
    }

    fn protocol(&self) -> &'static str {
        "tcp"
    }
}

pub(super) fn segment() -> SegmentInfo {
    segment_called("127.0.0.1:17001")
}

pub(super) fn segment_called(name: &str) -> SegmentInfo {
    SegmentInfo {
        text: Arc::new(Text(name.to_owned())),
        id: (7 << 64) | 8,
        client: (9 << 64) | 10,
        base_address: 0x7f8f_2700_0000,
        capacity_bytes: 64 << 20,
        used_bytes: 9216,
        usable_bytes: 32 << 20,
        largest_free_bytes: 1,
        state: 1,
    }
}

pub(super) fn red_object() -> ObjectInfo {
    ObjectInfo {
        tenant: "red".to_owned(),
        key: "r1".to_owned(),
        payload_bytes: 1024,
        group: None,
        media: vec!["cpu"],
    }
}
