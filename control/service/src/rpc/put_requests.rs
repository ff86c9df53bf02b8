//! The request of a put, off the wire and handed to the shards that own its keys.
//! Invariant: nothing borrows the request, and every column has one entry per key.

use super::call::CallRefusal;
use super::codec::column;
use crate::cluster::{KeySubset, Placements, Startable};
use perigee_master::{Effort, KeyShard, PutConfig, PutStart, SoftPin};
use perigee_schemas::limits::{REPLICAS_MAX, SEGMENTS_MAX};
use perigee_schemas::{Identity, Status, master, object};

/// Requests of a put, owned so that they can be sent to other shards.
pub(super) struct PutRequests {
    client: Identity,
    payload_bytes: Vec<u64>,
    groups: Vec<String>,
    replica_num: u32,
    hard_pin: bool,
    soft_pin: SoftPin,
    preferred_segments: Vec<String>,
    excluded: Vec<u128>,
    prefer_alloc_in_same_node: bool,
    host_id: String,
    host_name: String,
    upsert: bool,
    parts: bool,
}

impl PutRequests {
    pub(super) fn decode(
        request: &master::PutStartRequest<'_>,
        keys: usize,
    ) -> Result<Self, CallRefusal> {
        let strings = |list: Option<
            flatbuffers::Vector<'_, flatbuffers::ForwardsUOffset<&str>>,
        >| {
            list.iter().flat_map(flatbuffers::Vector::iter).map(str::to_owned).collect::<Vec<_>>()
        };
        let groups = strings(request.group_ids());
        if !groups.is_empty() && groups.len() != keys {
            let message =
                format!("{} group ids for {keys} keys: give none or one per key", groups.len());
            return Err(CallRefusal::new(Status::InvalidParams, message));
        }
        let placement = request.placement();
        let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
        let soft_pin = placement.as_ref().map_or(
            Ok(SoftPin::default()),
            |placement: &object::Placement<'_>| {
                let (action, ttl_ms) = (placement.soft_pin_action(), placement.soft_pin_ttl_ms());
                SoftPin::from_wire(action, ttl_ms, placement.with_soft_pin())
            },
        );
        let soft_pin = soft_pin.map_err(|status| {
            CallRefusal::new(status, "The soft pin is not one of the known actions")
        })?;
        Ok(Self {
            client: Identity::from_halves(request.client_high(), request.client_low()),
            payload_bytes: column(request.payload_bytes(), keys, "payload_bytes")?,
            groups,
            // More than an object can have is best effort, as is more than there are segments.
            replica_num: placement
                .as_ref()
                .map_or(1, object::Placement::replica_num)
                .min(REPLICAS_MAX as u32),
            hard_pin: placement.as_ref().is_some_and(object::Placement::with_hard_pin),
            soft_pin,
            preferred_segments: strings(
                placement.as_ref().and_then(object::Placement::preferred_segments),
            ),
            excluded: excluded(placement.as_ref())?,
            prefer_alloc_in_same_node: placement
                .as_ref()
                .is_some_and(object::Placement::prefer_alloc_in_same_node),
            host_id: text(placement.as_ref().and_then(object::Placement::host_id)),
            host_name: text(placement.as_ref().and_then(object::Placement::host_name)),
            upsert: request.upsert(),
            parts: request.parts(),
        })
    }
}

impl Startable for PutRequests {
    fn payload_bytes(&self) -> &[u64] {
        &self.payload_bytes
    }

    fn replicas(&self) -> usize {
        self.replica_num as usize
    }

    fn takes_parts(&self) -> bool {
        self.parts
    }

    fn start(
        &self,
        owner: &mut KeyShard,
        now: u64,
        share: &KeySubset<'_>,
        started: &mut Placements,
        effort: Effort,
    ) {
        let payload_bytes = share.pick(&self.payload_bytes);
        let all_groups: Vec<&str> = self.groups.iter().map(String::as_str).collect();
        let groups = if all_groups.is_empty() { Vec::new() } else { share.pick(&all_groups) };
        let preferred: Vec<&str> = self.preferred_segments.iter().map(String::as_str).collect();
        let config = PutConfig {
            replica_num: self.replica_num,
            hard_pin: self.hard_pin,
            soft_pin: self.soft_pin,
            preferred_segments: &preferred,
            excluded: &self.excluded,
            prefer_alloc_in_same_node: self.prefer_alloc_in_same_node,
            host_id: &self.host_id,
            host_name: &self.host_name,
            parts: self.parts,
        };
        let put = PutStart {
            client: self.client.0,
            keys: share.keys,
            payload_bytes: &payload_bytes,
            positions: share.positions,
            batch_keys: self.payload_bytes.len(),
            groups: &groups,
            config: &config,
            upsert: self.upsert,
            effort,
        };
        owner.put_start(now, &put, &mut started.columns);
    }
}

fn excluded(placement: Option<&object::Placement<'_>>) -> Result<Vec<u128>, CallRefusal> {
    let Some(placement) = placement else {
        return Ok(Vec::new());
    };
    let high = placement.excluded_high();
    let count = high.as_ref().map_or(0, flatbuffers::Vector::len);
    if count > SEGMENTS_MAX {
        let message =
            format!("{count} segments are to be avoided, over the limit of {SEGMENTS_MAX}");
        return Err(CallRefusal::new(Status::InvalidParams, message));
    }
    let low: Vec<u64> = column(placement.excluded_low(), count, "excluded_low")?;
    let pairs = high.iter().flat_map(flatbuffers::Vector::iter).zip(low);
    Ok(pairs.map(|(high, low)| Identity::from_halves(high, low).0).collect())
}
