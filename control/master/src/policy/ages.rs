//! Ages in touches, sorted into bins: four to each doubling.
//! Invariant: bins follow each other without a gap, and every age has one.

/// Number of bins; the last one has all that is older.
pub(super) const BINS: usize = 112;

/// The bin of an age.
pub(super) fn bin(age: u64) -> usize {
    if age < 4 {
        return age as usize;
    }
    let octave = age.ilog2();
    let quarter = (age >> (octave - 2)) & 3;
    ((octave as usize - 1) * 4 + quarter as usize).min(BINS - 1)
}

/// The youngest age of a bin.
pub(super) fn edge(bin: usize) -> u64 {
    match bin {
        0..4 => bin as u64,
        _ => (4 + bin as u64 % 4) << (bin / 4 - 1),
    }
}

/// How far into its bin an age is, from 0 to 1.
pub(super) fn part(bin: usize, age: u64) -> f32 {
    let (from, to) = (edge(bin), edge(bin + 1));
    (age.clamp(from, to) - from) as f32 / (to - from) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_age_is_in_the_bin_between_whose_edges_it_lies() {
        assert_eq!(edge(0), 0);
        for at in 0..BINS {
            assert_eq!((bin(edge(at)), bin(edge(at + 1) - 1)), (at, at));
        }
        assert_eq!(bin(u64::MAX), BINS - 1);
    }

    #[test]
    fn a_part_grows_within_its_bin() {
        assert_eq!((part(40, edge(40)), part(40, edge(41))), (0.0, 1.0));
        assert_eq!(part(40, u64::MAX), 1.0);
    }
}
