//! Names in the environment that are nearly those of variables. Invariant: a name that anything
//! here reads is never among them.

use crate::mooncake::mooncake_variables;
use crate::own::own_variables;

/// Most edits between a name and the one that was meant.
const EDITS_MAX: usize = 2;

/// First words of names.
const FAMILIES: [&str; 3] = ["MC", "MOONCAKE", "PERIGEE"];
/// A variable that nothing reads, and the one whose name it nearly has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MisspeltVariable {
    /// Its name.
    pub written: String,
    /// What was meant, most likely.
    pub meant: &'static str,
}

/// Which of these names are misspelt. Other programs have variables with the same first letters
/// (`MC_SID`), so only a name that is nearly right is one.
pub fn misspelt(names: impl IntoIterator<Item = String>) -> Vec<MisspeltVariable> {
    let mut found: Vec<_> = names.into_iter().filter_map(misspelt_one).collect();
    found.sort_by(|one, other| one.written.cmp(&other.written));
    found
}

fn misspelt_one(written: String) -> Option<MisspeltVariable> {
    let (family, _) = written.split_once('_')?;
    if !FAMILIES.contains(&family) {
        return None;
    }
    let edits = |name: &str| strsim::damerau_levenshtein(&written, name);
    let (edits, meant) = known().map(|name| (edits(name), name)).min()?;
    (1..=EDITS_MAX).contains(&edits).then_some(MisspeltVariable { written, meant })
}

fn known() -> impl Iterator<Item = &'static str> {
    mooncake_variables().map(|row| row.name).chain(own_variables())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(names: &[&str]) -> Vec<(String, &'static str)> {
        let found = misspelt(names.iter().map(|name| (*name).to_owned()));
        found.into_iter().map(|one| (one.written, one.meant)).collect()
    }

    #[test]
    fn a_slip_of_a_letter_names_what_was_meant() {
        let slips = ["MC_TCP_BIND_ADRESS", "PERIGEE_SHARED_MEMROY", "MC_TRANSFER_TIMEOUTS"];
        let expected = [
            ("MC_TCP_BIND_ADRESS", "MC_TCP_BIND_ADDRESS"),
            ("MC_TRANSFER_TIMEOUTS", "MC_TRANSFER_TIMEOUT"),
            ("PERIGEE_SHARED_MEMROY", "PERIGEE_SHARED_MEMORY"),
        ];
        assert_eq!(of(&slips), expected.map(|(written, meant)| (written.to_owned(), meant)));
    }

    #[test]
    fn what_others_read_or_the_cluster_sets_is_not_misspelt() {
        let others = [
            "MC_SID",
            "MC_HOST_backup",
            "MOONCAKE_MASTER_SERVICE_HOST",
            "MOONCAKE_MASTER_PORT_50051_TCP_ADDR",
            "PERIGEE_MASTER_RPC_PORT",
            "HOME",
        ];
        assert_eq!(of(&others), []);
    }

    #[test]
    fn what_is_documented_is_not_misspelt() {
        let known: Vec<_> = known().collect();
        let page = include_str!("../../../docs/src/settings/variables.md");
        let names: Vec<&str> =
            page.split('`').filter(|word| word.starts_with(['M', 'P'])).collect();
        assert!(names.len() > 50, "{names:?}");
        assert_eq!(of(&names), []);
        assert!(own_variables().all(|name| page.contains(name)), "each is on the page");
        assert_eq!(of(&known), []);
    }
}
