//! C and C++ programs as users build them: with `cc` or `c++`, one of the libraries, and its
//! header.
//! Invariant: a program is built once plainly and, where the compiler can, once with
//! AddressSanitizer, and both play.

use crate::library::{Library, source};
use perigee_tests::deadline::comes_true;
use perigee_tests::limits::CALL_DEADLINE;
use perigee_tests::program::Program;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::time::Duration;

/// Longest life of a program: each of its waits ends earlier.
const PROGRAM_DEADLINE: Duration = Duration::from_secs(180);

const C: [&str; 2] = ["cc", "-std=c11"];
const CPP: [&str; 2] = ["c++", "-std=c++20"];
const WARNINGS: [&str; 4] = ["-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror"];
const SANITIZERS: [&str; 3] =
    ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"];

/// Whether programs can be built with sanitizers.
static SANITIZES: LazyLock<bool> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let file = folder.path().join("probe.c");
    std::fs::write(&file, "int main(void) { return 0; }\n").expect("a file can be written");
    let program = folder.path().join("probe");
    let built = Command::new("cc").args(SANITIZERS).arg(&file).arg("-o").arg(&program).output();
    let runs = || Command::new(&program).status().is_ok_and(|status| status.success());
    let works = built.is_ok_and(|built| built.status.success()) && runs();
    if !works {
        println!("the C compiler here has no AddressSanitizer: programs run without it");
    }
    works
});

/// Programs of one test.
pub(crate) struct Programs {
    folder: tempfile::TempDir,
    library: Library,
    sanitized: bool,
}

impl Programs {
    /// Plays `test` with plain programs, and with sanitized ones where that works.
    pub(crate) fn each_way(library: Library, mut test: impl FnMut(&Self)) {
        for sanitized in [false, true] {
            if !sanitized || *SANITIZES {
                let folder = tempfile::tempdir().expect("a folder can be made");
                test(&Self { folder, library, sanitized });
            }
        }
    }

    /// Plays `test` with plain programs only, because it is about what they say.
    pub(crate) fn plain(library: Library, test: impl FnOnce(&Self)) {
        let folder = tempfile::tempdir().expect("a folder can be made");
        test(&Self { folder, library, sanitized: false });
    }

    /// Builds `tests/c_libraries/programs/NAME.c`.
    #[track_caller]
    pub(crate) fn build(&self, name: &str) -> PathBuf {
        self.build_file(&source("tests/c_libraries/programs").join(format!("{name}.c")))
    }

    /// Builds `tests/c_libraries/programs/NAME.cpp`.
    #[track_caller]
    pub(crate) fn build_cpp(&self, name: &str) -> PathBuf {
        self.build_file(&source("tests/c_libraries/programs").join(format!("{name}.cpp")))
    }

    #[track_caller]
    pub(crate) fn build_text(&self, name: &str, text: &str) -> PathBuf {
        let file = self.folder.path().join(format!("{name}.c"));
        std::fs::write(&file, text).expect("a file can be written");
        self.build_file(&file)
    }

    #[track_caller]
    fn build_file(&self, file: &Path) -> PathBuf {
        let program = self.folder.path().join(file.file_stem().expect("a source has a name"));
        let is_cpp = file.extension().is_some_and(|ending| ending == "cpp");
        let [compiler, standard] = if is_cpp { CPP } else { C };
        let mut command = Command::new(compiler);
        command.arg(standard).args(WARNINGS);
        self.link(command.arg(file), &program);
        program
    }

    /// Builds `file` with sources of a third party, which have warnings of their own.
    #[track_caller]
    pub(crate) fn build_with(
        &self,
        file: &Path,
        includes: &[PathBuf],
        others: &[PathBuf],
    ) -> PathBuf {
        let program = self.folder.path().join("with_others");
        let mut command = Command::new(CPP[0]);
        command.arg(CPP[1]);
        for folder in includes {
            command.arg("-I").arg(folder);
        }
        self.link(command.arg(file).args(others), &program);
        program
    }

    #[track_caller]
    fn link(&self, command: &mut Command, program: &Path) {
        command.args(["-g", "-O1"]);
        if self.sanitized {
            command.args(SANITIZERS);
        }
        succeed(command.arg("-o").arg(program).args(self.library.flags()));
    }
}

/// Starts a program.
pub(crate) fn start(program: &Path, arguments: &[&str]) -> Program {
    Program::start_file(&program.display().to_string(), arguments)
}

/// Runs a program to its good end; what it printed.
#[track_caller]
pub(crate) fn run(program: &Path, arguments: &[&str]) -> String {
    let mut running = start(program, arguments);
    finish(&mut running)
}

/// Waits for the good end of a program; what it printed.
#[track_caller]
pub(crate) fn finish(running: &mut Program) -> String {
    let status = running.wait(PROGRAM_DEADLINE);
    let code = status.map(|status| status.code());
    let log = running.log();
    assert_eq!(code, Some(Some(0)), "a program failed:\n{log}");
    assert!(log.contains("done\n"), "it ended early:\n{log}");
    log
}

/// The rest of the line that a program prints after `word`.
#[track_caller]
pub(crate) fn line_after(running: &Program, word: &str) -> String {
    let mut found = None;
    comes_true(CALL_DEADLINE, || {
        let log = running.log();
        let whole = log.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        let mut lines = whole.filter_map(|line| line.strip_prefix(word));
        found = lines.next().map(|rest| rest.trim().to_owned());
        found.is_some()
    });
    found.unwrap_or_else(|| panic_with(&running.log(), word))
}

#[expect(clippy::panic, reason = "a test fails")]
fn panic_with(log: &str, word: &str) -> String {
    panic!("no line with {word:?} in:\n{log}")
}

/// Runs a tool that must succeed; what it printed.
#[track_caller]
pub(crate) fn succeed(command: &mut Command) -> String {
    let output = command.output().expect("the tool is installed: `make setup`");
    let shown = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{command:?}:\n{shown}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
