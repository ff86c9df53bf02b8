//! Every flag of Mooncake's programs is known, with the same type and default.
//! Invariant: the help text is what a user can check, so it is what is compared.

use std::collections::BTreeSet;

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

/// Names of Mooncake's flags that the page of Mooncake's settings has for a program.
fn on_the_page(personality: &str) -> BTreeSet<String> {
    let ended = Program::run("perigee", &["doctor", "--mooncake-env=all", "--format=json"]);
    assert_eq!(ended.code, Some(0), "{}", ended.output);
    let document: serde_json::Value = serde_json::from_str(&ended.output).expect("JSON");
    let rows = document["settings"].as_array().expect("rows");
    let of_program = rows.iter().filter(|row| row["taken_by"] == personality);
    of_program.map(|row| row["name"].as_str().expect("a name").to_owned()).collect()
}

#[test]
fn the_page_of_mooncakes_settings_has_its_flags_and_no_others() {
    let lists = [
        (MASTER, include_str!("lists/mooncake_master_flags.txt")),
        (NODE, include_str!("lists/mooncake_client_flags.txt")),
    ];
    for (personality, list) in lists {
        let of_mooncake: BTreeSet<_> =
            entries::<3>(list).iter().map(|[name, ..]| (*name).to_owned()).collect();
        assert_eq!(on_the_page(personality), of_mooncake, "{personality}: mark ours with .own()");
    }
}
