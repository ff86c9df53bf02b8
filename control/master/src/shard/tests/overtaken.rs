//! Facts about the pins of upserts that a later one has overtaken.

use super::*;

const SOFT_MS: u64 = 50_000;
const SOFT: SoftPin = SoftPin::Enable { ttl_ms: Some(SOFT_MS) };
const HARD_PINNED: PutConfig<'static> = config(true, SoftPin::Preserve);

const fn config(hard_pin: bool, soft_pin: SoftPin) -> PutConfig<'static> {
    PutConfig {
        replica_num: 1,
        hard_pin,
        soft_pin,
        preferred_segments: &[],
        excluded: &[],
        prefer_alloc_in_same_node: false,
        host_id: "",
        host_name: "",
        parts: false,
    }
}

/// An upsert of "a" that does not end; its generation.
fn begin(stage: &mut Stage, config: &PutConfig<'_>) -> u64 {
    assert_eq!(stage.start_with("a", PAYLOAD_BYTES, config, true), 0);
    stage.generation("a")
}

/// Two overlapping upserts of "a" of which the later one has ended. The generation of the first.
fn overtaken(stage: &mut Stage, first: &PutConfig<'_>, later: &PutConfig<'_>) -> u64 {
    let generation = begin(stage, first);
    stage.start_in_group("a", PAYLOAD_BYTES, later, true, "", 8);
    assert_eq!(stage.end_as(8, "a", 2), 0);
    generation
}

fn end_late(stage: &mut Stage, generation: u64) {
    let ended = stage.end_of(WRITER, "a", generation, 1);
    assert_eq!(ended, code(Status::ObjectAlreadyExists));
}

fn soft_pins(stage: &Stage) -> u64 {
    stage.shard.gauges().soft_pinned_keys
}

fn press(stage: &mut Stage) {
    for key in ["b", "c", "d", "e", "f"] {
        assert_eq!(stage.put(key), 0);
    }
}

#[test]
fn the_hard_pin_of_an_upsert_stays_though_a_later_one_was_published_before() {
    let mut stage = Stage::new(&[4]);
    let first = overtaken(&mut stage, &HARD_PINNED, &PutConfig::default());
    press(&mut stage);
    assert!(stage.holds("a"), "its writer may still end it");
    end_late(&mut stage, first);
    stage.pass(RELEASE_MS);
    stage.tick();
    press(&mut stage);
    assert!(stage.holds("a"));
    assert_eq!(stage.remove("a", false), 0);
}

#[test]
fn the_hard_pin_of_an_overtaken_upsert_goes_with_its_writer() {
    let mut stage = Stage::new(&[4]);
    overtaken(&mut stage, &HARD_PINNED, &PutConfig::default());
    stage.pass(RELEASE_MS);
    stage.tick();
    press(&mut stage);
    assert!(!stage.holds("a"), "nothing is pinned for ever");
}

#[test]
fn the_hard_pin_of_an_overtaken_upsert_goes_when_it_is_revoked() {
    let mut stage = Stage::new(&[4]);
    let first = overtaken(&mut stage, &HARD_PINNED, &PutConfig::default());
    assert_eq!(stage.revoke_of(WRITER, "a", first, false), 0);
    press(&mut stage);
    assert!(!stage.holds("a"));
}

#[test]
fn the_hard_pin_of_an_overtaken_upsert_is_not_that_of_a_later_object() {
    let mut stage = Stage::new(&[4]);
    let first = overtaken(&mut stage, &HARD_PINNED, &PutConfig::default());
    assert_eq!(stage.remove("a", true), 0);
    assert_eq!(stage.put("a"), 0);
    stage.end_of(WRITER, "a", first, 1);
    press(&mut stage);
    assert!(!stage.holds("a"));
}

#[test]
fn the_soft_pin_of_an_upsert_stays_though_a_later_one_was_published_before() {
    let mut stage = Stage::new(&[4]);
    let soft = config(false, SOFT);
    let first = overtaken(&mut stage, &soft, &PutConfig::default());
    assert_eq!(soft_pins(&stage), 0, "it has not ended");
    press(&mut stage);
    assert!(stage.holds("a"), "its writer may still end it");
    end_late(&mut stage, first);
    assert_eq!(soft_pins(&stage), 1);
    press(&mut stage);
    assert!(stage.holds("a"));
    stage.pass(SOFT_MS);
    stage.tick();
    assert_eq!(soft_pins(&stage), 0);
    press(&mut stage);
    assert!(!stage.holds("a"), "a soft pin ends");
}

#[test]
fn the_soft_pin_of_an_overtaken_upsert_goes_when_its_writer_gives_up() {
    for revoked in [true, false] {
        let mut stage = Stage::new(&[4]);
        let first = overtaken(&mut stage, &config(false, SOFT), &PutConfig::default());
        if revoked {
            assert_eq!(stage.revoke_of(WRITER, "a", first, false), 0);
        } else {
            stage.pass(RELEASE_MS);
            stage.tick();
        }
        assert_eq!(soft_pins(&stage), 0);
        press(&mut stage);
        assert!(!stage.holds("a"));
    }
}

#[test]
fn the_soft_pin_of_an_overtaken_upsert_is_not_that_of_a_later_object() {
    let mut stage = Stage::new(&[4]);
    let first = overtaken(&mut stage, &config(false, SOFT), &PutConfig::default());
    assert_eq!(stage.remove("a", true), 0);
    assert_eq!(stage.put("a"), 0);
    stage.end_of(WRITER, "a", first, 1);
    assert_eq!(soft_pins(&stage), 0);
    press(&mut stage);
    assert!(!stage.holds("a"));
}

#[test]
fn an_overtaken_upsert_takes_the_soft_pin_away_that_a_later_one_preserved() {
    let mut stage = Stage::new(&[4]);
    stage.put_with("a", &config(false, SOFT));
    let first = overtaken(&mut stage, &config(false, SoftPin::Disable), &PutConfig::default());
    assert_eq!(soft_pins(&stage), 1, "it has not ended");
    end_late(&mut stage, first);
    assert_eq!(soft_pins(&stage), 0);
}

#[test]
fn the_upsert_that_began_last_decides_on_the_soft_pin() {
    for (wanted, pins) in [(SoftPin::Disable, 0), (SOFT, 1), (SoftPin::Preserve, 1)] {
        // The later one was published, or is overtaken by a third one and ends before or after.
        let mut stage = Stage::new(&[4]);
        let first = overtaken(&mut stage, &config(true, SOFT), &config(false, wanted));
        end_late(&mut stage, first);
        assert_eq!(soft_pins(&stage), pins, "{wanted:?}");
        for swapped in [false, true] {
            let mut stage = Stage::new(&[4]);
            let first = begin(&mut stage, &config(true, SOFT));
            let second = overtaken(&mut stage, &config(false, wanted), &PutConfig::default());
            let order = if swapped { [second, first] } else { [first, second] };
            for generation in order {
                end_late(&mut stage, generation);
            }
            assert_eq!(soft_pins(&stage), pins, "{wanted:?} {swapped}");
            press(&mut stage);
            assert!(stage.holds("a"), "the hard pin is the first one's in any case");
        }
    }
}

#[test]
fn a_soft_pin_goes_with_the_bytes_though_an_upsert_is_unfinished() {
    let mut stage = Stage::new(&[1, 1]);
    stage.put_with("a", &config(false, SOFT));
    begin(&mut stage, &PutConfig::default());
    let index = stage.peek("a")[0].segment;
    stage.shard.apply(stage.now_ms, &SegmentEvent::Unmounted { index });
    stage.tick();
    assert!(!stage.holds("a"));
    assert_eq!(soft_pins(&stage), 0, "no pin is kept for bytes that are gone");
}

#[test]
fn members_of_a_group_keep_it_while_an_overtaken_upsert_may_pin_it() {
    let mut stage = Stage::new(&[4]);
    let soft = config(false, SOFT);
    stage.put_in_group("b", "g");
    stage.start_in_group("a", PAYLOAD_BYTES, &soft, true, "g", WRITER);
    let first = stage.generation("a");
    stage.start_in_group("a", PAYLOAD_BYTES, &PutConfig::default(), true, "g", 8);
    assert_eq!(stage.end_as(8, "a", 2), 0);
    for key in ["c", "d", "e"] {
        assert_eq!(stage.put(key), 0);
    }
    assert!(stage.holds("a") && stage.holds("b"));
    end_late(&mut stage, first);
    assert_eq!(soft_pins(&stage), 1);
}
