//! Segment addresses by identity, so that replies about the same segment share one.

use crate::limits::ADDRESSES_MAX;
use perigee_rpc::ReplySegment;
use perigee_schemas::Identity;
use perigee_transfer::SegmentAddress;
use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

/// What is known of the cluster's segments.
#[derive(Debug, Default)]
pub(crate) struct SegmentAddresses {
    known: RwLock<HashMap<Identity, Arc<SegmentAddress>>>,
}

impl SegmentAddresses {
    /// The address of each segment of a reply, in order.
    pub(crate) fn of(&self, views: &[ReplySegment]) -> Vec<Arc<SegmentAddress>> {
        let found: Vec<Arc<SegmentAddress>> = views.iter().map(|view| self.one(view)).collect();
        let is_of = |(found, view): (&Arc<SegmentAddress>, &ReplySegment)| {
            found.id == view.id && found.bytes == view.bytes
        };
        debug_assert!(found.iter().zip(views).all(is_of), "locations index what the reply named");
        found
    }

    fn one(&self, view: &ReplySegment) -> Arc<SegmentAddress> {
        let known =
            self.known.read().unwrap_or_else(PoisonError::into_inner).get(&view.id).cloned();
        match known {
            Some(known) if known.endpoint == view.endpoint && known.bytes == view.bytes => known,
            _ => self.learn(view),
        }
    }

    fn learn(&self, view: &ReplySegment) -> Arc<SegmentAddress> {
        let address = Arc::new(SegmentAddress {
            id: view.id,
            bytes: view.bytes,
            endpoint: view.endpoint.clone(),
            host_id: view.host_id.clone(),
            rendezvous: view.rendezvous.clone(),
            kind: view.kind,
        });
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= ADDRESSES_MAX {
            known.clear();
        }
        known.insert(view.id, address.clone());
        debug_assert!(known.len() <= ADDRESSES_MAX);
        address
    }
}
