//! What the curves learn from made-up keys.

use super::*;

const NEW: fn() -> ObjectKind = || ObjectKind::new(0, 1, false);

#[test]
fn at_the_start_a_read_counts_as_three_times_younger() {
    let curves = Curves::new();
    let (new, read) = (NEW(), ObjectKind::READ);
    for age in [4, 50, 1_000, 100_000] {
        assert!(curves.worth(new, age) > curves.worth(new, age * 2));
        assert!(curves.worth(new, age) < curves.worth(read, age * 2));
        assert!(curves.worth(new, age) > curves.worth(read, age * 5));
    }
}

#[test]
fn what_comes_back_often_is_worth_more_than_what_does_not() {
    let mut curves = Curves::new();
    let (long, short) = (ObjectKind::new(0, 64, false), ObjectKind::new(0, 4, false));
    for call in 0..2_000 {
        curves.note_end(long, 5_000);
        match call % 2 {
            0 => curves.note_return(short, 1_000, call),
            _ => curves.note_end(short, 5_000),
        }
    }
    curves.learn(std::iter::empty());
    assert!(curves.worth(short, 500) > 5.0 * curves.worth(long, 500));
    // What has not come back by then will not.
    assert!(curves.worth(short, 500) > 5.0 * curves.worth(short, 4_000));
}

#[test]
fn what_still_waits_counts_too() {
    let mut curves = Curves::new();
    let before = curves.worth(NEW(), 100);
    curves.learn((0..1_000).map(|_| (NEW(), 1_000)));
    assert!(curves.worth(NEW(), 100) < before / 5.0);
}

#[test]
fn a_head_is_worth_no_less_than_what_is_behind_it() {
    let mut curves = Curves::new();
    let behind = ObjectKind::new(0, 8, true);
    for call in 0..2_000 {
        curves.note_return(behind, 100, call);
        curves.note_end(ObjectKind::READ, 1_000);
    }
    curves.learn(std::iter::empty());
    for age in [1, 10, 100, 1_000] {
        let heads = [ObjectKind::READ, ObjectKind::returned(1), ObjectKind::returned(2)];
        let worth = heads.map(|kind| curves.worth(kind, age));
        assert!(curves.worth(behind, age) <= worth[0] && worth.is_sorted());
    }
}

#[test]
fn the_best_rate_looks_past_a_time_in_which_nothing_comes() {
    let mut chances = [0.0; BINS];
    chances[bin(1_000)] = 0.5;
    let rates = best_rates(&chances);
    assert!(rates[0] > 0.0 && rates[bin(900)] > 2.0 * rates[0]);
    assert!(rates[bin(900)] > rates[bin(2_000)]);
    assert!(rates[bin(2_000)] < 1e-9);
}
