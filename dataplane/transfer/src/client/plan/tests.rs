//! Every byte of every job is planned exactly once, within the limits of a slice.

use super::*;
use crate::place::SegmentAddress;
use perigee_schemas::extent::extent_bytes;
use perigee_schemas::{Identity, SegmentKind};
use proptest::collection;
use proptest::prelude::*;

fn place(segment: u128, offset: u64, payload_bytes: u64) -> ReplicaAddress {
    let segment = SegmentAddress {
        id: Identity(segment),
        bytes: 1 << 40,
        endpoint: "127.0.0.1:1".to_owned(),
        host_id: String::new(),
        rendezvous: String::new(),
        kind: Some(SegmentKind::Memory),
    };
    ReplicaAddress { segment: Arc::new(segment), offset, payload_bytes, generation: 7 }
}

fn job(content: Content, segment: u128, lengths: &[usize]) -> FarJob {
    let mut address = 0x1000;
    let memory = lengths.iter().map(|bytes| {
        let memory = ByteRangeMut::at(address, *bytes as u64);
        address += *bytes as u64;
        memory
    });
    let memory: Vec<ByteRangeMut> = memory.collect();
    let payload = lengths.iter().sum::<usize>() as u64;
    FarJob { place: place(segment, 1 << 20, payload), content, memory }
}

proptest! {
    #[test]
    fn parts_cover_each_job_in_order(
        sizes in collection::vec(collection::vec(1usize..3_000_000, 1..4), 1..40),
        write: bool,
    ) {
        let content = if write { Content::Write } else { Content::Read(0) };
        let jobs: Vec<FarJob> =
            (0u128..).zip(&sizes).map(|(i, lengths)| job(content, i % 2, lengths)).collect();
        let plan = SlicePlan::new(&jobs, &Arc::default());
        let mut parts: Vec<(usize, usize, u64, u64)> = Vec::new();
        for slice in &plan.slices {
            prop_assert!(slice.pieces.len() <= PIECES_MAX);
            prop_assert!(slice.memory.len() <= PIECES_MAX);
            for part in &slice.parts {
                let memory = &slice.memory[part.memory.clone()];
                let bytes: u64 = memory.iter().map(|range| range.bytes()).sum();
                prop_assert_eq!(bytes, part.bytes);
                parts.push((part.job, part.number, memory[0].address(), part.bytes));
                let pieces = &slice.pieces[part.pieces.clone()];
                let ends = pieces.iter().map(|p| p.remote.offset() + p.remote.bytes());
                let end = ends.max().unwrap();
                let place = &jobs[part.job].place;
                prop_assert!(end <= place.offset + extent_bytes(place.payload_bytes));
            }
        }
        parts.sort_unstable();
        for (index, job) in jobs.iter().enumerate() {
            let mut next = 0x1000;
            let mut total = 0;
            for (_, _, address, bytes) in parts.iter().filter(|part| part.0 == index) {
                prop_assert_eq!(*address, next);
                next += *bytes;
                total += bytes;
            }
            prop_assert_eq!(total, job.place.payload_bytes);
        }
    }
}

#[test]
fn what_is_read_from_a_disk_is_asked_for_with_few_slices() {
    let slices_of = |kind, objects: usize| {
        let mut jobs: Vec<FarJob> =
            (0..objects).map(|_| job(Content::Read(0), 1, &[1 << 20])).collect();
        for job in &mut jobs {
            let segment = SegmentAddress { kind: Some(kind), ..(*job.place.segment).clone() };
            job.place.segment = Arc::new(segment);
        }
        SlicePlan::new(&jobs, &Arc::default()).slices.len()
    };
    let (memory, disk) = (SegmentKind::Memory, SegmentKind::Disk);
    assert_eq!([8, 64].map(|objects| slices_of(memory, objects)), [8, 64]);
    assert_eq!([1, 8, 64].map(|objects| slices_of(disk, objects)), [4, 4, 8]);
}

#[test]
fn a_large_batch_is_cut_into_slices_of_the_limit() {
    let jobs: Vec<FarJob> = (0..16).map(|_| job(Content::Read(0), 1, &[1 << 20])).collect();
    let plan = SlicePlan::new(&jobs, &Arc::default());
    assert_eq!(plan.slices.len(), 16);
}

#[test]
fn small_objects_share_a_slice() {
    let jobs: Vec<FarJob> = (0..128).map(|_| job(Content::Write, 1, &[4096])).collect();
    let plan = SlicePlan::new(&jobs, &Arc::default());
    assert_eq!(plan.slices.len(), 4);
}
