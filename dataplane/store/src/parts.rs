//! Objects that are larger than any segment, as their writers and readers see them: parts, each
//! with places of its own.
//! Invariant: the places of a part follow each other, and are as long as the part.

use perigee_rpc::Location;
use perigee_schemas::{PartLayout, Status};
use std::ops::Range;

/// Which places of an object are of which part.
#[derive(Debug)]
pub(crate) struct PartPlaces {
    pub(crate) layout: PartLayout,
    /// First place of each part, and one past the last place.
    first: Vec<usize>,
}

impl PartPlaces {
    /// What the master says of an object of so many bytes; nothing if it lies in one piece.
    ///
    /// # Errors
    /// The places are not all parts of an object of that length in their order.
    pub(crate) fn of(
        locations: &[Location],
        payload_bytes: u64,
    ) -> Result<Option<Box<Self>>, Status> {
        let Some(begin) = locations.first().filter(|location| location.part.is_some()) else {
            return Ok(None);
        };
        let layout = PartLayout { payload_bytes, part_bytes: begin.payload_bytes };
        if !layout.is_valid() {
            return Err(Status::InvalidReplica);
        }
        let mut first = Vec::with_capacity(usize::from(layout.parts()) + 1);
        for (index, location) in locations.iter().enumerate() {
            let part =
                location.part.filter(|part| layout.bytes_of(*part) == location.payload_bytes);
            match part.map(usize::from) {
                Some(part) if part + 1 == first.len() => {}
                Some(part) if part == first.len() => first.push(index),
                _ => return Err(Status::InvalidReplica),
            }
        }
        if first.len() != usize::from(layout.parts()) {
            return Err(Status::InvalidReplica);
        }
        first.push(locations.len());
        debug_assert!(first.windows(2).all(|it| it[0] < it[1]), "each part has a place");
        Ok(Some(Box::new(Self { layout, first })))
    }

    /// The parts: number, and the places of each.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u8, Range<usize>)> + '_ {
        let ends = usize::from(self.layout.parts()) + 1;
        debug_assert_eq!(self.first.len(), ends, "the places of all parts are known");
        (0..self.layout.parts()).zip(self.first.windows(2)).map(|(part, it)| (part, it[0]..it[1]))
    }

    /// Where a part lies in pieces of these lengths, which together are the object, as
    /// [`spread`] has it.
    pub(crate) fn pieces_of(
        &self,
        part: u8,
        lengths: impl Iterator<Item = usize>,
    ) -> Vec<(usize, Range<usize>)> {
        let offset = self.layout.offset_of(part);
        spread(lengths, offset..offset + self.layout.bytes_of(part))
    }
}

/// Where a range of bytes lies in pieces of these lengths, one behind the other: number of the
/// piece, and the range there.
fn spread(lengths: impl Iterator<Item = usize>, range: Range<u64>) -> Vec<(usize, Range<usize>)> {
    let mut start = 0_u64;
    let mut found = Vec::new();
    for (number, length) in lengths.enumerate() {
        let end = start + length as u64;
        let (from, to) = (range.start.max(start), range.end.min(end));
        if from < to {
            found.push((number, (from - start) as usize..(to - start) as usize));
        }
        start = end;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn location(part: Option<u8>, payload_bytes: u64) -> Location {
        Location { segment: 0, status: 3, offset: 0, payload_bytes, generation: 1, part }
    }

    fn parts(locations: &[(u8, u64)], payload_bytes: u64) -> Result<Vec<Range<usize>>, Status> {
        let locations: Vec<Location> =
            locations.iter().map(|(part, bytes)| location(Some(*part), *bytes)).collect();
        let places = PartPlaces::of(&locations, payload_bytes)?.expect("it lies in parts");
        Ok(places.iter().map(|(_, places)| places).collect())
    }

    #[test]
    fn places_belong_to_the_part_that_they_hold() {
        assert!(PartPlaces::of(&[location(None, 10)], 10).unwrap().is_none());
        assert!(PartPlaces::of(&[], 0).unwrap().is_none());
        assert_eq!(parts(&[(0, 4), (1, 4), (2, 2)], 10), Ok(vec![0..1, 1..2, 2..3]));
        assert_eq!(parts(&[(0, 4), (0, 4), (1, 4), (2, 2)], 10), Ok(vec![0..2, 2..3, 3..4]));
    }

    #[test]
    fn what_is_no_whole_object_is_refused() {
        for (places, payload_bytes) in [
            (&[(0, 4), (1, 4)][..], 10),
            (&[(0, 4), (1, 4), (2, 3)], 10),
            (&[(0, 4), (2, 2), (1, 4)], 10),
            (&[(1, 4), (2, 2)], 10),
            (&[(0, 4), (1, 4), (2, 2), (3, 1)], 10),
            (&[(0, 10)], 10),
            (&[(0, 0)], 10),
        ] {
            let found = parts(places, payload_bytes);
            assert_eq!(found, Err(Status::InvalidReplica), "{places:?}");
        }
        let mixed = [location(Some(0), 4), location(None, 4), location(Some(2), 2)];
        assert!(PartPlaces::of(&mixed, 10).is_err());
    }

    #[test]
    fn a_range_is_found_in_the_pieces_that_it_touches() {
        let at = |range| spread([3, 0, 4, 5].into_iter(), range);
        assert_eq!(at(0..12), [(0, 0..3), (2, 0..4), (3, 0..5)]);
        assert_eq!(at(2..8), [(0, 2..3), (2, 0..4), (3, 0..1)]);
        assert_eq!(at(3..7), [(2, 0..4)]);
        assert_eq!(at(4..4), []);
    }
}
