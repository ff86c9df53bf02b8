//! Objects that are larger than any segment: cut into parts, each with its own replicas.
//! Invariant: an object of which a part has no replica any more goes as a whole, unless its owners
//! are still announcing it.

use perigee_schemas::PartLayout;
use perigee_schemas::extent::extent_bytes;
use perigee_schemas::limits::PARTS_MAX;

use crate::limits::OBJECT_BYTES_MAX;
use crate::slab::NONE;

use super::KeyShard;
use super::place::{PlaceRequest, Placed};
use super::put_start::Effort;

impl KeyShard {
    /// How a payload is cut that is too large for any segment; `None` if one is large enough, or
    /// if parts that small would be too many.
    pub fn cut(&self, payload_bytes: u64, replica_num: u32) -> Option<PartLayout> {
        if payload_bytes > OBJECT_BYTES_MAX {
            return None;
        }
        let bytes = extent_bytes(payload_bytes);
        let live = || self.space.live().iter().filter_map(|segment| self.space.get(*segment));
        if live().any(|share| share.longest_extent() >= bytes) {
            return None;
        }
        let keeping = live().filter(|share| share.spec.keeps_parts);
        let extent_max = keeping.map(|share| share.longest_extent()).max()?;
        // A key has 255 places at most.
        let parts = u32::from(u8::MAX) / replica_num.max(1);
        PartLayout::cut(payload_bytes, extent_max, parts.min(PARTS_MAX.into()) as u8)
    }

    /// Bytes beyond which no object is placed, however much room there is: it would have too many
    /// parts.
    pub fn largest_object_bytes(&self) -> u64 {
        let segments = self.space.live().iter().filter(|segment| self.space.takes_parts(**segment));
        let longest = segments.filter_map(|segment| self.space.get(*segment));
        let longest = longest.map(|share| share.longest_extent()).max().unwrap_or_default();
        longest.saturating_mul(PARTS_MAX.into()).min(OBJECT_BYTES_MAX)
    }

    /// Places each part with its replicas; all of them or none.
    pub(super) fn place_parts(
        &mut self,
        request: &PlaceRequest<'_>,
        layout: PartLayout,
    ) -> Option<Placed> {
        if request.effort != Effort::Free && !self.may_find_room(request, layout) {
            return None;
        }
        let parts = layout.parts();
        let part_of = |part: u8| PlaceRequest {
            payload_bytes: layout.bytes_of(part),
            part: Some(part),
            ..*request
        };
        let mut places = Vec::with_capacity(usize::from(parts));
        for part in 0..parts {
            let extents = self.find_extents(&part_of(part));
            if extents.is_empty() {
                for (segment, extent) in places.into_iter().flatten() {
                    self.space.free(segment, extent);
                }
                return None;
            }
            places.push(extents);
        }
        let count = places.iter().map(Vec::len).min().unwrap_or_default() as u32;
        let bytes = places.iter().flatten().map(|(_, extent)| extent.bytes).sum();
        let mut first = NONE;
        for (part, extents) in (0..parts).zip(&places).rev() {
            let payload = (request.payer, layout.bytes_of(part));
            first = self.stored.replicas.chain_up(extents, payload, Some(part), first);
        }
        Some(Placed { first, count, bytes })
    }

    /// Whether what is free and what may be evicted holds all parts. If not, nothing is evicted.
    fn may_find_room(&mut self, request: &PlaceRequest<'_>, layout: PartLayout) -> bool {
        let bytes = layout.extents_bytes();
        let mut room_bytes = 0_u64;
        for segment in self.space.live().to_vec() {
            if !self.space.takes_parts(segment) {
                continue;
            }
            let missing_bytes = bytes - room_bytes;
            let room = self.victims().room_bytes(segment, missing_bytes, request.payer);
            room_bytes += room.min(missing_bytes);
            if room_bytes == bytes {
                return true;
            }
        }
        false
    }

    /// Owners announce no more: what lacks a part never gets it.
    pub(super) fn drop_partial(&mut self) {
        for object in self.stored.striped.objects() {
            if !self.view().is_whole(object) {
                self.drop_all_complete(object);
            }
        }
    }
}
