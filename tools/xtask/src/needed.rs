//! Which libraries a built program or Python module asks the loader for.
//! Invariant: only the C library and the compiler's own runtime may be needed.

use std::path::Path;
use std::process::Command;

use crate::repository::RepositoryError;

/// Names, without version suffix, that every glibc system has.
const ALLOWED: [&str; 4] = ["libc.so", "libm.so", "libgcc_s.so", "ld-linux"];

/// NEEDED entries of the dynamic section of `file`.
pub(crate) fn libraries(file: &Path) -> Result<Vec<String>, RepositoryError> {
    let output = Command::new("readelf")
        .arg("-d")
        .arg(file)
        .env("LC_ALL", "C")
        .output()
        .map_err(|source| RepositoryError::Start {
            program: "readelf (package binutils)".into(),
            source,
        })?;
    let text = String::from_utf8_lossy(&output.stdout);
    // readelf reports a file it cannot read on stderr, some versions with exit status 0.
    if !output.status.success() || !text.contains("Dynamic section") {
        return Err(RepositoryError::Output {
            program: format!("readelf -d {}", file.display()),
            detail: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        });
    }
    Ok(needed_names(&text))
}

fn needed_names(dynamic_section: &str) -> Vec<String> {
    dynamic_section
        .lines()
        .filter(|line| line.contains("(NEEDED)"))
        .filter_map(|line| Some(line.split_once('[')?.1.split_once(']')?.0.to_owned()))
        .collect()
}

/// Those libraries that must not be needed.
pub(crate) fn strangers(libraries: &[String]) -> Vec<&str> {
    libraries
        .iter()
        .map(String::as_str)
        .filter(|name| !ALLOWED.iter().any(|allowed| name.starts_with(allowed)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECTION: &str = "\
Dynamic section at offset 0x1 contains 3 entries:
 0x0000000000000001 (NEEDED)             Shared library: [libgcc_s.so.1]
 0x0000000000000001 (NEEDED)             Shared library: [libibverbs.so.1]
 0x000000000000000e (SONAME)             Library soname: [libself.so]
 0x0000000000000001 (NEEDED)             Shared library: [ld-linux-x86-64.so.2]";

    #[test]
    fn only_needed_entries_are_read() {
        assert_eq!(
            needed_names(SECTION),
            ["libgcc_s.so.1", "libibverbs.so.1", "ld-linux-x86-64.so.2"]
        );
    }

    #[test]
    fn a_library_of_the_host_is_a_stranger() {
        assert_eq!(strangers(&needed_names(SECTION)), ["libibverbs.so.1"]);
    }

    #[test]
    fn this_test_program_needs_only_allowed_libraries() {
        let own = std::env::current_exe().unwrap();
        let found = libraries(&own).unwrap();
        assert!(
            found.iter().any(|name| name.starts_with("libc.so")),
            "{found:?}"
        );
        assert!(strangers(&found).is_empty(), "{found:?}");
    }

    #[test]
    fn a_text_file_is_an_error() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(libraries(file.path()).is_err());
    }
}
