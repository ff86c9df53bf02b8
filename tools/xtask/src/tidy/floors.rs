//! The drawing of ARCHITECTURE.md: on which floor each crate of the data plane and the control
//! plane stands.
//! Invariant: the drawing is the only list of floors; arrows are judged by what a reader sees
//! there.

use std::collections::BTreeMap;

/// Where the names of each plane begin and end in a line.
const COLUMNS: [(Plane, (usize, usize)); 2] = [(Plane::Data, (6, 25)), (Plane::Control, (55, 67))];
/// Where the number of a floor ends.
const NUMBER_END: usize = 6;

/// The column that a crate stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Plane {
    Data,
    Control,
}

/// Where a crate stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CrateFloor {
    pub(super) floor: u32,
    pub(super) plane: Plane,
}

/// Standing of each crate, by its name without `perigee-`.
#[derive(Debug)]
pub(super) struct Floors(BTreeMap<String, CrateFloor>);

impl Floors {
    /// Reads the drawing; `None` when the page has none.
    pub(super) fn read(page: &str) -> Option<Self> {
        let drawing = page.split("```").nth(1)?;
        let mut lines = drawing.lines().filter(|line| !line.trim().is_empty());
        lines.next().filter(|head| head.trim().starts_with("floor"))?;
        let mut floors = BTreeMap::new();
        let mut floor = None;
        for line in lines {
            floor = cell(line, (0, NUMBER_END)).parse().ok().or(floor);
            for (plane, column) in COLUMNS {
                let name = cell(line, column);
                if !name.is_empty() {
                    let floor = floor?;
                    floors.insert(name.to_owned(), CrateFloor { floor, plane });
                }
            }
        }
        Some(Self(floors))
    }

    /// Where a crate stands, named as in its manifest.
    pub(super) fn of(&self, package: &str) -> Option<CrateFloor> {
        let name = package.strip_prefix("perigee-")?;
        self.0.get(name).copied()
    }

    /// Names in the drawing.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

fn cell(line: &str, (begin, end): (usize, usize)) -> &str {
    let end = end.min(line.len());
    line.get(begin..end).map_or("", str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# Page\n\n```\n floor   dataplane: moves bytes                           control: decides\n\n   1     shard           an executor                      master      the state machine\n         port            listening\n   0     reactor         io_uring                         http        server\n```\n";

    #[test]
    fn names_of_both_columns_stand_on_the_floor_above_them_or_beside_them() {
        let floors = Floors::read(PAGE).unwrap();
        let found: Vec<_> = floors.names().collect();
        assert_eq!(found, ["http", "master", "port", "reactor", "shard"]);
        let standing = |floor, plane| Some(CrateFloor { floor, plane });
        assert_eq!(floors.of("perigee-port"), standing(1, Plane::Data));
        assert_eq!(floors.of("perigee-master"), standing(1, Plane::Control));
        assert_eq!(floors.of("perigee-http"), standing(0, Plane::Control));
        assert_eq!(floors.of("perigee-engine"), None);
    }

    #[test]
    fn a_page_without_a_drawing_has_no_floors() {
        assert!(Floors::read("# Page\n").is_none());
        assert!(Floors::read("```\nmake demo\n```\n").is_none());
    }
}
