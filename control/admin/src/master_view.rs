//! What the routes ask of the master. Invariant: nothing here grants leases, so looking never
//! changes what can be evicted.

use crate::key_report::KeyReport;
use perigee_metrics::{MasterCells, MasterNumbers, TenantNumbers};
use perigee_schemas::{Status, TenantId};
use std::sync::Arc;

/// The master as the HTTP routes see it. Calls block and must end within seconds; they are made on
/// a few helper threads, never on a shard.
pub trait ControlPlane: Send + Sync + 'static {
    /// `Err` with the reason while calls of clients are not served. Must not block: it is the one
    /// call made on the HTTP thread itself.
    fn readiness(&self) -> Result<(), String>;

    /// Complete replicas of each key with its tenant in front, without a lease. For at most as many
    /// keys as `limits::LOOKED_UP_AT_A_TIME`.
    ///
    /// # Errors
    /// The whole question could not be asked; each key has an outcome of its own otherwise.
    fn locate(&self, keys: &[String]) -> Result<Vec<KeyPlaces>, Status>;

    /// What is known of a key with its tenant in front, and why replicas of it went; no lease.
    ///
    /// # Errors
    /// The master did not answer.
    fn inspect(&self, key: &str) -> Result<KeyReport, Status>;

    /// The page of a listing that begins at a cursor, with at most `limit` objects, in no order; of
    /// one tenant or of all, and only those in whose keys a regular expression is found if there is
    /// one.
    ///
    /// # Errors
    /// The master did not answer, others list too many keys at this moment, or there is no such
    /// expression.
    fn list_objects(
        &self,
        tenant: Option<&TenantId>,
        regex: Option<&str>,
        from: Option<KeyCursor>,
        limit: usize,
    ) -> Result<ObjectPage, Status>;

    /// Counts of published key events; `None` if none are published.
    fn key_events(&self) -> Option<KeyEventCounts>;

    /// All mounted segments, or those of a name.
    ///
    /// # Errors
    /// The master did not answer.
    fn segments(&self, name: Option<&str>) -> Result<Vec<SegmentInfo>, Status>;

    /// Removes all objects of one tenant or of all, leased ones only with `force`; returns how many
    /// there were.
    ///
    /// # Errors
    /// The master did not answer.
    fn remove_all(&self, tenant: Option<&TenantId>, force: bool) -> Result<u64, Status>;

    /// Begins to empty segments; returns the job's random identity.
    ///
    /// # Errors
    /// The request cannot be carried out, with Mooncake's codes.
    fn create_drain(&self, request: DrainRequest) -> Result<u128, AdminRefusal>;

    /// How a drain job stands.
    ///
    /// # Errors
    /// `JobNotFound`, or the master did not answer.
    fn drain_job(&self, id: u128) -> Result<DrainInfo, Status>;

    /// Ends a drain job once the moves under way have ended.
    ///
    /// # Errors
    /// `JobNotFound`; `UnavailableInCurrentStatus` if it has ended, or moves do not end in time.
    fn cancel_drain(&self, id: u128) -> Result<(), Status>;

    /// The tenants that have a quota, bytes or objects, in the order of their names, or the one of
    /// a name; `None` where tenants have no quotas.
    fn tenants(&self, tenant: Option<&TenantId>) -> Option<Vec<TenantNumbers>>;

    /// Gives a tenant a quota of some bytes, or another one; returns how it stands then.
    ///
    /// # Errors
    /// Tenants have no quotas, or the quota could not be written down.
    fn set_quota(&self, tenant: &TenantId, bytes: u64) -> Result<TenantNumbers, AdminRefusal>;

    /// Takes a tenant's quota away.
    ///
    /// # Errors
    /// Tenants have no quotas; the tenant has none, or has objects; or could not be written down.
    fn remove_quota(&self, tenant: &TenantId) -> Result<(), AdminRefusal>;

    /// Numbers of the state.
    ///
    /// # Errors
    /// The master did not answer.
    fn numbers(&self) -> Result<MasterNumbers, Status>;

    /// Cells of all shards.
    fn cells(&self) -> Vec<Arc<MasterCells>>;
}

/// Where a listing goes on.
pub type KeyCursor = [u64; 3];

/// One object of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectInfo {
    /// Its tenant.
    pub tenant: String,
    /// Its key.
    pub key: String,
    /// Length of its value in bytes.
    pub payload_bytes: u64,
    /// Its group, if it has one.
    pub group: Option<String>,
    /// What it lies on, in the words of key events.
    pub media: Vec<&'static str>,
}

/// What was published since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KeyEventCounts {
    /// Messages.
    pub published_batches: u64,
    /// Events in them.
    pub published_events: u64,
    /// Events that had no room while the publisher was busy.
    pub dropped_events: u64,
    /// Events whose key is no block hash.
    pub skipped_unparsed_keys: u64,
    /// Sequence number of the next message.
    pub next_sequence: u64,
    /// Subscribers that are connected now.
    pub subscribers: u64,
}

/// Some objects of a listing, which goes on at `next`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ObjectPage {
    /// The objects; there may be none on a page that is not the last.
    pub objects: Vec<ObjectInfo>,
    /// Where it goes on; `None` on the last page.
    pub next: Option<KeyCursor>,
}

/// Replicas of one key, or why there are none.
pub type KeyPlaces = Result<Vec<ReplicaPlace>, Status>;

/// Where one replica lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplicaPlace {
    /// In memory.
    Memory {
        /// Payload length in bytes.
        payload_bytes: u64,
        /// Address in the owner's memory: segment base plus offset.
        buffer_address: u64,
        /// Protocol of the segment.
        protocol: String,
        /// Endpoint of the segment's owner.
        endpoint: String,
    },
    /// On a disk.
    Disk {
        /// Payload length in bytes.
        payload_bytes: u64,
        /// Client that owns the disk.
        client: u128,
        /// Where its owner serves reads.
        endpoint: String,
    },
}

/// The texts of a segment, which listings share with the master: what a slow reader is still to be
/// sent costs no copies of them.
pub trait SegmentText: Send + Sync {
    /// Its name; several segments may share one.
    fn name(&self) -> &str;

    /// Endpoint of its owner.
    fn endpoint(&self) -> &str;

    /// Protocol it is served by.
    fn protocol(&self) -> &str;
}

/// One mounted segment.
#[derive(Clone)]
pub struct SegmentInfo {
    /// Its texts.
    pub text: Arc<dyn SegmentText>,
    /// Segment id.
    pub id: u128,
    /// Id of the client that owns it.
    pub client: u128,
    /// Address of its first byte in the owner's memory.
    pub base_address: u64,
    /// Bytes of the segment.
    pub capacity_bytes: u64,
    /// Bytes allocated.
    pub used_bytes: u64,
    /// Bytes that can be allocated, with those that are.
    pub usable_bytes: u64,
    /// The largest object that fits without eviction, in bytes.
    pub largest_free_bytes: u64,
    /// 0 undefined, 1 OK, 2 draining, 3 drained, 4 gracefully unmounting, 5 unmounting.
    pub state: u8,
}

/// Order for a drain job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DrainRequest {
    /// Names of the segments to be emptied.
    pub segments: Vec<String>,
    /// Names of the segments that may take their objects; all others if empty.
    pub target_segments: Vec<String>,
    /// Moves under way at the same time.
    pub max_concurrency: u32,
}

/// How a drain job stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DrainInfo {
    /// Mooncake's number of the state: 0 CREATED to 5 CANCELED.
    pub state: u8,
    /// Mooncake's word for it.
    pub state_name: &'static str,
    /// Milliseconds since 1970 when it was created.
    pub created_ms: u64,
    /// Milliseconds since 1970 of the last change.
    pub updated_ms: u64,
    /// Names of the segments to be emptied.
    pub segments: Vec<String>,
    /// Replicas that were moved.
    pub succeeded_units: u64,
    /// Replicas that could not be moved.
    pub failed_units: u64,
    /// Replicas that wait, and old places whose readers' leases run.
    pub blocked_units: u64,
    /// Moves under way.
    pub active_units: u64,
    /// Payload bytes that were moved.
    pub migrated_bytes: u64,
    /// Why it failed; empty otherwise.
    pub message: String,
}

/// Mooncake's word for a segment state.
pub(crate) fn state_name(state: u8) -> &'static str {
    match state {
        1 => "OK",
        2 => "DRAINING",
        3 => "DRAINED",
        4 => "GRACEFULLY_UNMOUNTING",
        5 => "UNMOUNTING",
        _ => "UNDEFINED",
    }
}

/// Why something is not done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdminRefusal {
    /// The code for the caller.
    pub status: Status,
    /// What to change, for people.
    pub reason: String,
}

impl From<Status> for AdminRefusal {
    fn from(status: Status) -> Self {
        let reason = status.name().to_owned();
        Self { status, reason }
    }
}

/// Mooncake's text form of a 128-bit id: two decimal halves.
pub fn id_text(id: u128) -> String {
    #[expect(clippy::cast_possible_truncation, reason = "the halves of the id are wanted")]
    let (high, low) = ((id >> 64) as u64, id as u64);
    format!("{high}-{low}")
}
