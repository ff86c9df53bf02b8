//! Mounted segments as others see them.
//! Invariant: a segment that is listed is readable.

use super::Registry;
use super::segment_state::SegmentView;

impl Registry {
    /// All mounted segments in order of their numbers.
    pub fn segments(&self) -> impl Iterator<Item = SegmentView<'_>> {
        self.segments.iter().map(|(index, mounted)| mounted.view(*index))
    }

    /// Mounted segments in order of their numbers, from a number on.
    pub fn segments_from(&self, index: u32) -> impl Iterator<Item = SegmentView<'_>> {
        self.segments.range(index..).map(|(index, mounted)| mounted.view(*index))
    }

    /// The segment of a number.
    pub fn segment(&self, index: u32) -> Option<SegmentView<'_>> {
        self.segments.get(&index).map(|mounted| mounted.view(index))
    }

    /// The segment of an identity.
    pub fn segment_by_id(&self, id: u128) -> Option<SegmentView<'_>> {
        self.segment(*self.index_by_id.get(&id)?)
    }

    /// The segments of a name; there may be several.
    pub fn segments_by_name<'a>(&'a self, name: &'a str) -> impl Iterator<Item = SegmentView<'a>> {
        self.segments().filter(move |view| view.spec.name == name)
    }
}
