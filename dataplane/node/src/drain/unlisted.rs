//! Segments that a drain is to empty and the master does not list, beside those that it lists: a
//! name may be misspelt.

use perigee_flags::nearest;
use std::fmt;

/// How many of the listed segments a message names.
const NAMES_SHOWN: usize = 12;

/// What is not listed, and what is.
#[derive(Debug, PartialEq, Eq)]
pub struct Unlisted {
    names: Vec<String>,
    /// Those first that a name may mean; none if the list is not known or has all the names.
    listed: Option<Vec<String>>,
}

impl Unlisted {
    /// The master does not know these segments, or not what lies there.
    pub(crate) fn of(asked: &[String]) -> Self {
        Self { names: asked.to_vec(), listed: None }
    }

    /// The same, where the master lists segments of these names and identities.
    pub(crate) fn beside(asked: &[String], listed: &[(String, String)]) -> Self {
        let is_listed =
            |asked: &&String| listed.iter().any(|(name, id)| name == *asked || id == *asked);
        let missing: Vec<String> = asked.iter().filter(|name| !is_listed(name)).cloned().collect();
        if missing.is_empty() {
            return Self::of(asked);
        }
        let names = || listed.iter().map(|(name, _)| name.as_str());
        let near = missing.iter().filter_map(|missing| nearest(missing, names()));
        let mut ordered: Vec<String> = Vec::new();
        for name in near.chain(names()) {
            if !ordered.iter().any(|it| it == name) {
                ordered.push(name.to_owned());
            }
        }
        Self { names: missing, listed: Some(ordered) }
    }
}

impl fmt::Display for Unlisted {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.names.join(", "))?;
        let Some(listed) = &self.listed else { return Ok(()) };
        let shown = &listed[..listed.len().min(NAMES_SHOWN)];
        match listed.len() - shown.len() {
            _ if shown.is_empty() => write!(formatter, ", nor any other segment"),
            0 => write!(formatter, ", only {}", shown.join(", ")),
            more => write!(formatter, ", only {} and {more} more", shown.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(names: &[&str]) -> Vec<(String, String)> {
        let numbered = names.iter().enumerate();
        numbered.map(|(number, name)| ((*name).to_owned(), format!("7-{number}"))).collect()
    }

    fn text(asked: &[&str], names: &[&str]) -> String {
        let asked: Vec<String> = asked.iter().map(|it| (*it).to_owned()).collect();
        Unlisted::beside(&asked, &listed(names)).to_string()
    }

    #[test]
    fn the_name_that_is_meant_comes_first() {
        assert_eq!(
            text(&["host-b:l"], &["host-a:1", "host-b:1"]),
            "host-b:l, only host-b:1, host-a:1"
        );
        assert_eq!(text(&["x"], &[]), "x, nor any other segment");
    }

    #[test]
    fn names_and_identities_that_are_listed_are_not_missed() {
        assert_eq!(text(&["a:1", "b:1", "7-1"], &["a:1", "c:1"]), "b:1, only a:1, c:1");
        assert_eq!(text(&["a:1"], &["a:1", "c:1"]), "a:1", "its owner is not seen yet");
    }

    #[test]
    fn a_long_list_is_cut_and_has_each_name_once() {
        let names: Vec<String> = (0..40).map(|number| format!("host-{number:02}:1")).collect();
        let twice: Vec<&str> = names.iter().chain(&names).map(String::as_str).collect();
        let said = text(&["elsewhere"], &twice);
        assert!(said.ends_with("host-11:1 and 28 more"), "{said}");
    }
}
