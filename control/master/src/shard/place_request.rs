//! What is to be placed, and what came of it.

use perigee_schemas::PartLayout;
use perigee_schemas::extent::extent_bytes;

use crate::placement::PutConfig;
use crate::tenant::TenantNumber;

use super::put_start::Effort;

#[derive(Clone, Copy)]
pub(super) struct PlaceRequest<'a> {
    pub(super) hash: u64,
    pub(super) payload_bytes: u64,
    pub(super) config: &'a PutConfig<'a>,
    /// Segment to try first.
    pub(super) same_node: Option<u32>,
    pub(super) effort: Effort,
    /// Whose quota it is charged to.
    pub(super) payer: TenantNumber,
    /// How it is cut, if no segment is large enough.
    pub(super) layout: Option<PartLayout>,
    /// It is this part of an object.
    pub(super) part: Option<u8>,
}

impl PlaceRequest<'_> {
    /// Bytes to allocate for one replica.
    pub(super) fn bytes(&self) -> u64 {
        match &self.layout {
            None => extent_bytes(self.payload_bytes),
            Some(layout) => layout.extents_bytes(),
        }
    }
}

/// Replicas made for a request: a chain in order of preference.
#[derive(Debug, Clone, Copy)]
pub(super) struct Placed {
    pub(super) first: u32,
    pub(super) count: u32,
    /// Bytes of their extents.
    pub(super) bytes: u64,
}
