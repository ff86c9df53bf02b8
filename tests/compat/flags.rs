//! Every flag of Mooncake's programs is known, with the same type and default.
//! Invariant: the help text is what a user can check, so it is what is compared.

use perigee_tests::cluster::{MASTER, NODE};
use perigee_tests::program::Program;

use crate::list::entries;

/// Flags with another default than Mooncake's, and which: with its own one puts would be refused
/// because a disk is slow.
const OWN_DEFAULTS: [(&str, &str); 1] = [("offload_force_evict", "true")];

fn differences(personality: &str, list: &'static str) -> Vec<String> {
    let ended = Program::run(personality, &["--helpfull"]);
    assert_eq!(ended.code, Some(0), "{}", ended.output);
    let help = ended.output.split_whitespace().collect::<Vec<_>>().join(" ");
    let missing = |[name, kind, default]: &[&str; 3]| {
        let Some(at) = help.find(&format!(" -{name} (")) else {
            return Some(format!("{name} is missing"));
        };
        let own = OWN_DEFAULTS.iter().find(|(flag, _)| flag == name);
        let default = own.map_or(*default, |(_, default)| default);
        let described = &help[at..];
        let expected = format!(" type: {kind} default: {default}");
        let found = described.find(" type: ").map_or("", |start| &described[start..]);
        (!found.starts_with(&expected)).then(|| {
            format!(
                "{name} should have{expected}, not{}",
                found.chars().take(60).collect::<String>()
            )
        })
    };
    entries::<3>(list).iter().filter_map(missing).collect()
}

#[test]
fn the_master_has_every_flag_of_mooncake_with_its_default() {
    let found = differences(MASTER, include_str!("lists/mooncake_master_flags.txt"));
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn the_node_has_every_flag_of_mooncake_with_its_default() {
    let found = differences(NODE, include_str!("lists/mooncake_client_flags.txt"));
    assert!(found.is_empty(), "{}", found.join("\n"));
}
