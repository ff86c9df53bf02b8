//! What a built program or Python module asks the loader for.
//! Invariant: only the C library and the compiler's own runtime may be needed, and no glibc newer
//! than [`GLIBC_MAX`].

use std::fmt;
use std::path::Path;
use std::process::Command;

use crate::repository::RepositoryError;

/// Names, without version suffix, that every glibc system has; before 2.34 threads and dlopen had
/// libraries of their own.
const ALLOWED: [&str; 6] =
    ["libc.so", "libm.so", "libpthread.so", "libdl.so", "libgcc_s.so", "ld-linux"];

/// The glibc of Debian 11; Ubuntu 20.04 has the same. The Makefile builds for it.
pub(crate) const GLIBC_MAX: GlibcVersion = GlibcVersion(2, 31);

/// A version of glibc: major and minor number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct GlibcVersion(u32, u32);

impl fmt::Display for GlibcVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.0, self.1)
    }
}

/// NEEDED entries of the dynamic section of `file`.
pub(crate) fn libraries(file: &Path) -> Result<Vec<String>, RepositoryError> {
    Ok(needed_names(&readelf("-d", file, "Dynamic section")?))
}

/// The newest glibc that a symbol of `file` asks for.
pub(crate) fn glibc(file: &Path) -> Result<Option<GlibcVersion>, RepositoryError> {
    let sections = readelf("-V", file, "Version needs section")?;
    Ok(newest_glibc(&sections))
}

/// What readelf says of `file`. It must hold `section`: some versions of readelf end with 0 also
/// for a file that they cannot read.
fn readelf(option: &str, file: &Path, section: &str) -> Result<String, RepositoryError> {
    let output = Command::new("readelf")
        .args([option, "-W"])
        .arg(file)
        .env("LC_ALL", "C")
        .output()
        .map_err(|source| RepositoryError::Start {
            program: "readelf (package binutils)".into(),
            source,
        })?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() || !text.contains(section) {
        return Err(RepositoryError::Output {
            program: format!("readelf {option} {}", file.display()),
            detail: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        });
    }
    Ok(text)
}

fn newest_glibc(version_needs: &str) -> Option<GlibcVersion> {
    version_needs
        .split_whitespace()
        .filter_map(|word| word.strip_prefix("GLIBC_"))
        .filter_map(|version| {
            let mut numbers = version.split('.').map(str::parse);
            Some(GlibcVersion(numbers.next()?.ok()?, numbers.next()?.ok()?))
        })
        .max()
}

fn needed_names(dynamic_section: &str) -> Vec<String> {
    dynamic_section
        .lines()
        .filter(|line| line.contains("(NEEDED)"))
        .filter_map(|line| Some(line.split_once('[')?.1.split_once(']')?.0.to_owned()))
        .collect()
}

/// Those libraries that must not be needed.
pub(crate) fn not_allowed(libraries: &[String]) -> Vec<&str> {
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
    fn a_library_of_the_host_is_not_allowed() {
        assert_eq!(not_allowed(&needed_names(SECTION)), ["libibverbs.so.1"]);
    }

    const VERSION_NEEDS: &str = "\
Version needs section '.gnu.version_r' contains 2 entries:
  000000: Version: 1  File: libc.so.6  Cnt: 4
  0x0010:   Name: GLIBC_2.9  Flags: none  Version: 6
  0x0020:   Name: GLIBC_2.31  Flags: none  Version: 5
  0x0030:   Name: GLIBC_2.2.5  Flags: none  Version: 3
  0x0040:   Name: GLIBC_PRIVATE  Flags: none  Version: 7
  0x0050: Version: 1  File: libgcc_s.so.1  Cnt: 1
  0x0060:   Name: GCC_4.2.0  Flags: none  Version: 4";

    #[test]
    fn the_newest_glibc_is_found_by_number_and_not_by_letter() {
        let found = newest_glibc(VERSION_NEEDS);
        assert_eq!(found, Some(GlibcVersion(2, 31)));
        assert!(found <= Some(GLIBC_MAX));
        let newer = VERSION_NEEDS.replace("2.31", "2.34");
        assert!(newest_glibc(&newer) > Some(GLIBC_MAX));
        assert_eq!(newest_glibc("Name: GCC_4.2.0"), None);
    }

    #[test]
    fn this_test_program_asks_for_some_glibc() {
        let own = std::env::current_exe().unwrap();
        assert!(glibc(&own).unwrap() > Some(GlibcVersion(2, 2)));
    }

    #[test]
    fn this_test_program_needs_only_allowed_libraries() {
        let own = std::env::current_exe().unwrap();
        let found = libraries(&own).unwrap();
        assert!(found.iter().any(|name| name.starts_with("libc.so")), "{found:?}");
        assert!(not_allowed(&found).is_empty(), "{found:?}");
    }

    #[test]
    fn a_text_file_is_an_error() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(libraries(file.path()).is_err());
    }
}
