//! Facts about segments that are mounted with their objects.

use super::*;

fn adopted(key: &'static str, offset: u64) -> RebuiltReplica<'static> {
    RebuiltReplica {
        key: key.as_bytes(),
        offset,
        payload_bytes: PAYLOAD_BYTES,
        checksum: 5,
        generation: 77,
        client: WRITER,
    }
}

fn adopt(stage: &mut Stage, index: u32, replicas: &[RebuiltReplica<'_>]) -> Result<usize, Status> {
    let spec = Arc::new(spec(index, 4 * EXTENT_BYTES));
    let result = stage.shard.mount_adopting(stage.now_ms, index, &spec, replicas);
    stage.shard.check();
    result
}

#[test]
fn adopted_objects_are_readable_and_their_space_is_taken() {
    let mut stage = Stage::new(&[]);
    let replicas = [adopted("a", EXTENT_BYTES), adopted("b", 3 * EXTENT_BYTES)];
    assert_eq!(adopt(&mut stage, 0, &replicas), Ok(2));
    assert_eq!(stage.get("a"), 0);
    let location = stage.replicas.locations[0];
    assert_eq!((location.offset, location.generation), (EXTENT_BYTES, 77));
    assert_eq!(stage.replicas.checksum, [5]);
    for (key, offset) in [("c", 0), ("d", 2 * EXTENT_BYTES)] {
        assert_eq!(stage.start(key), 0);
        assert_eq!(stage.placements.locations[0].offset, offset);
    }
}

#[test]
fn overlapping_descriptors_are_refused_and_nothing_is_mounted() {
    let mut stage = Stage::new(&[]);
    let replicas = [adopted("a", 0), adopted("b", EXTENT_BYTES - 16)];
    assert_eq!(adopt(&mut stage, 0, &replicas), Err(Status::InvalidParams));
    assert!(!stage.holds("a"));
    assert_eq!(adopt(&mut stage, 0, &[adopted("a", 4 * EXTENT_BYTES)]), Err(Status::InvalidParams));
    assert_eq!(adopt(&mut stage, 0, &replicas[..1]), Ok(1));
}

#[test]
fn a_second_copy_of_the_same_object_is_another_replica() {
    let mut stage = Stage::new(&[]);
    assert_eq!(adopt(&mut stage, 0, &[adopted("a", 0)]), Ok(1));
    assert_eq!(adopt(&mut stage, 1, &[adopted("a", 0)]), Ok(1));
    assert_eq!(stage.peek("a").len(), 2);
    let other = RebuiltReplica { checksum: 6, ..adopted("a", 0) };
    assert_eq!(adopt(&mut stage, 2, &[other]), Ok(0));
    assert_eq!(stage.peek("a").len(), 2);
}

#[test]
fn keys_of_other_shards_are_skipped() {
    let index = 1 - crate::key::shard_of(b"a", 2);
    let mut stage = Stage::with(ShardSettings { index, count: 2, ..settings() }, &[]);
    assert_eq!(adopt(&mut stage, 0, &[adopted("a", 0)]), Ok(0));
}
