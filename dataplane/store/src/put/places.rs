//! Moving the bytes of a batch to the places that the master gave, step by step where host memory
//! stands in for a device's.
#![expect(unsafe_code, reason = "it lends memory of callers to the engine")]

use super::Writing;
use crate::api::PutRequest;
use crate::caller_memory::HostPieces;
use crate::client::Store;
use crate::parts::PartPlaces;
use perigee_memory::{ByteRange as Source, ByteRangeMut};
use perigee_transfer::{TransferError, WriteJob};
use std::collections::VecDeque;
use std::ops::Range;

impl Store {
    /// Writes all places; the outcomes of each key's.
    pub(super) fn write_places(
        &self,
        requests: &[PutRequest<'_>],
        writings: &[Writing],
    ) -> Vec<Vec<Result<u32, TransferError>>> {
        let pieces = |writing: &Writing| pieces(&requests[writing.request]);
        let all: Vec<Vec<ByteRangeMut>> = writings.iter().map(pieces).collect();
        let mut left = writings.iter().zip(all).collect::<VecDeque<_>>();
        let mut outcomes = Vec::with_capacity(writings.len());
        while !left.is_empty() {
            let objects = left.iter().map(|(_, pieces)| pieces.as_slice());
            let count = self.memory.staged_together(objects);
            debug_assert!((1..=left.len()).contains(&count), "each step moves some");
            let step: Vec<_> = left.drain(..count).collect();
            outcomes.extend(self.write_step(step));
        }
        outcomes
    }

    fn write_step(
        &self,
        step: Vec<(&Writing, Vec<ByteRangeMut>)>,
    ) -> Vec<Vec<Result<u32, TransferError>>> {
        let mut stage = self.memory.stage(step.iter().map(|(_, pieces)| pieces.as_slice()));
        let load = |(writing, pieces)| (writing, self.memory.sources(&mut stage, pieces));
        let loaded: Vec<(&Writing, Result<HostPieces, TransferError>)> =
            step.into_iter().map(load).collect();
        let sources = |(writing, host): &(&Writing, Result<HostPieces, _>)| {
            let whole = host.as_ref().ok().map(HostPieces::as_sources).unwrap_or_default();
            ObjectSources::of(whole, writing.parts.as_deref())
        };
        let sources: Vec<ObjectSources> = loaded.iter().map(sources).collect();
        let there = loaded.iter().zip(&sources);
        let there = there.filter(|((_, host), _)| host.is_ok());
        let jobs: Vec<WriteJob<'_>> = there
            .flat_map(|((writing, _), sources)| {
                let places = writing.places.iter().enumerate();
                places.map(move |(at, place)| WriteJob { place, pieces: sources.of_place(at) })
            })
            .collect();
        // SAFETY: callers of the store keep their pieces valid and unchanged for the length of the
        // call.
        let written = unsafe { self.engine.write(&jobs) };
        // Outcomes are matched by their order alone.
        assert_eq!(written.len(), jobs.len(), "one outcome per replica");
        let mut written = written.into_iter();
        let outcome = |(writing, host): &(&Writing, Result<HostPieces, TransferError>)| match host {
            Ok(_) => written.by_ref().take(writing.places.len()).collect(),
            Err(error) => vec![Err(error.clone()); writing.places.len()],
        };
        loaded.iter().map(outcome).collect()
    }
}

/// Where the bytes of an object come from.
struct ObjectSources {
    whole: Vec<Source>,
    /// Those of each part, and the places of each; empty for an object in one piece.
    parts: Vec<(Range<usize>, Vec<Source>)>,
}

impl ObjectSources {
    fn of(whole: Vec<Source>, parts: Option<&PartPlaces>) -> Self {
        let Some(parts) = parts else {
            return Self { whole, parts: Vec::new() };
        };
        let sources = |(part, places): (u8, Range<usize>)| {
            let ranges = parts.pieces_of(part, whole.iter().map(|piece| piece.len));
            let piece = |(number, range): (usize, Range<usize>)| Source {
                ptr: whole[number].ptr.wrapping_add(range.start),
                len: range.len(),
            };
            let sources: Vec<Source> = ranges.into_iter().map(piece).collect();
            let bytes: usize = sources.iter().map(|source| source.len).sum();
            // Where bytes of a device could not be loaded there are no sources, and no job.
            let is_all = bytes as u64 == parts.layout.bytes_of(part) || whole.is_empty();
            debug_assert!(is_all, "all bytes of a part go to its places");
            (places, sources)
        };
        let parts = parts.iter().map(sources).collect();
        Self { whole, parts }
    }

    /// What goes to a place.
    fn of_place(&self, at: usize) -> &[Source] {
        let part = self.parts.iter().find(|(places, _)| places.contains(&at));
        part.map_or(&self.whole, |(_, sources)| sources)
    }
}

fn pieces(request: &PutRequest<'_>) -> Vec<ByteRangeMut> {
    let piece = |piece: &crate::api::CallerRange| ByteRangeMut {
        ptr: piece.address as *mut u8,
        len: piece.bytes,
    };
    request.pieces.iter().map(piece).collect()
}
