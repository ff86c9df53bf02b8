//! Where the baseline of links lies if nothing else is said.

use std::path::PathBuf;

/// The file in the state folder: the host's for root, else the user's.
#[must_use]
pub fn usual_file() -> PathBuf {
    file_of(nix::unistd::geteuid().is_root(), |name| std::env::var(name).ok())
}

fn file_of(is_root: bool, variable: impl Fn(&str) -> Option<String>) -> PathBuf {
    let given = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let folder = match is_root {
        true => Some(PathBuf::from("/var/lib")),
        false => given("XDG_STATE_HOME").or_else(|| Some(given("HOME")?.join(".local/state"))),
    };
    folder.unwrap_or_else(|| PathBuf::from(".")).join("perigee/check.json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_lies_in_the_state_folder_of_the_host_or_the_user() {
        let of = |is_root, pairs: &[(&str, &str)]| {
            let find = |name: &str| pairs.iter().find(|(other, _)| *other == name);
            file_of(is_root, |name| find(name).map(|(_, value)| (*value).to_owned()))
        };
        let home = ("HOME", "/home/u");
        assert_eq!(of(true, &[home]), PathBuf::from("/var/lib/perigee/check.json"));
        assert_eq!(of(false, &[home]), PathBuf::from("/home/u/.local/state/perigee/check.json"));
        let state = ("XDG_STATE_HOME", "/s");
        assert_eq!(of(false, &[home, state]), PathBuf::from("/s/perigee/check.json"));
        assert_eq!(of(false, &[]), PathBuf::from("./perigee/check.json"));
    }
}
