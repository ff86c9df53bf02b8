//! Rules for every text file: no marks of unfinished work, nothing that ties it to one machine.
//! Invariant: the words searched for are put together here, so this file never finds itself.

use super::violation::Violation;

/// Marks of unfinished work: an issue is the place for that.
const MARKS: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];
/// Folders that exist on one machine only.
const MACHINE_PATHS: [&str; 2] = [concat!("/ro", "ot"), concat!("/wo", "rk")];
/// Hosts of package registries: packages are named, never fetched by address.
const REGISTRY_HOSTS: [&str; 6] = [
    concat!("index.crates", ".io"),
    concat!("static.crates", ".io"),
    concat!("pypi", ".org"),
    concat!("pythonhosted", ".org"),
    concat!("registry.npmjs", ".org"),
    concat!("deb.debian", ".org"),
];
const LICENCE: &str = "LICENSE";

/// All broken rules of one file.
pub(super) fn check(file: &str, text: &str) -> Vec<Violation> {
    // Cargo writes the lock file and the licence is not our text.
    if file.ends_with("Cargo.lock") || file == LICENCE {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let mut found = |message: String| findings.push(Violation::new(file, index + 1, message));
        if let Some(mark) = MARKS.iter().find(|mark| has_word(line, mark)) {
            found(format!("{mark}: finish it or file an issue"));
        }
        if let Some(path) = MACHINE_PATHS.iter().find(|path| has_path(line, path)) {
            found(format!("{path} exists on one machine only"));
        }
        if let Some(host) = REGISTRY_HOSTS.iter().find(|host| line.contains(*host)) {
            found(format!("{host} is a registry host; name the package instead"));
        }
    }
    findings
}

/// Whether `word` stands alone, in capitals as given.
fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        !before.is_some_and(is_word) && !after.is_some_and(is_word)
    })
}

/// Whether a path that begins with the folder `path` stands in the line.
fn has_path(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + path.len()..].chars().next();
        let begins = !before.is_some_and(|c| is_word(c) || ".-~*}/)$".contains(c));
        begins && after == Some('/')
    })
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_found_as_whole_words_only() {
        let mark = MARKS[0];
        assert_eq!(check("a.py", &format!("# {mark}: later\n"))[0].line, 1);
        assert!(check("a.py", &format!("{mark}S = mktemp\n")).is_empty());
    }

    #[test]
    fn absolute_paths_of_this_machine_are_found() {
        let path = MACHINE_PATHS[1];
        assert_eq!(check("a.sh", &format!("cd {path}/main\n")).len(), 1);
        assert!(check("a.sh", &format!("cd net{path}/main\n")).is_empty());
        assert!(check("a.sh", &format!("route {path}ers\n")).is_empty());
    }

    #[test]
    fn registry_hosts_are_found_outside_the_lock_file() {
        let line = format!("url = \"https://{}/x\"\n", REGISTRY_HOSTS[0]);
        assert_eq!(check("a.toml", &line).len(), 1);
        assert!(check("Cargo.lock", &line).is_empty());
    }
}
