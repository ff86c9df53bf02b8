//! Where the two libraries and their headers are.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

/// Names the folder with the libraries under test; without it, they are linked from the archives
/// that were built beside this test.
const FOLDER_VARIABLE: &str = "PERIGEE_C_LIBRARIES";

/// One of the two libraries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Library {
    /// As `-lNAME` has it.
    pub(crate) name: &'static str,
    /// Folder of its crate.
    pub(crate) package: &'static str,
    pub(crate) header: &'static str,
}

/// `libtransfer_engine.so`.
pub(crate) const ENGINE: Library = Library {
    name: "transfer_engine",
    package: "dataplane/c-engine",
    header: "transfer_engine_c.h",
};

/// `libmooncake_store.so`.
pub(crate) const STORE: Library =
    Library { name: "mooncake_store", package: "dataplane/c-store", header: "store_c.h" };

impl Library {
    pub(crate) fn file(self) -> PathBuf {
        FOLDER.join(format!("lib{}.so", self.name))
    }

    /// What it exports, and since when.
    pub(crate) fn map(self) -> PathBuf {
        source(self.package).join(format!("{}.map", self.name))
    }

    /// Folder of the header.
    pub(crate) fn include(self) -> PathBuf {
        source(self.package).join("include")
    }

    /// What the compiler has to know.
    pub(crate) fn flags(self) -> Vec<String> {
        let folder = FOLDER.display().to_string();
        vec![
            format!("-I{}", self.include().display()),
            format!("-I{}", source("tests/c_libraries/programs").display()),
            format!("-L{folder}"),
            format!("-l{}", self.name),
            format!("-Wl,-rpath,{folder}"),
        ]
    }
}

/// A file of the repository.
pub(crate) fn source(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).parent().expect("tests lie in the root").join(path)
}

static FOLDER: LazyLock<PathBuf> =
    LazyLock::new(|| std::env::var_os(FOLDER_VARIABLE).map_or_else(linked, PathBuf::from));

/// Links both libraries as `make build` does, unless another test has.
fn linked() -> PathBuf {
    let own = std::env::current_exe().expect("a test knows its own path");
    let beside = own.parent().expect("a test lies in a folder");
    let folder = beside.join("c-libraries");
    std::fs::create_dir_all(&folder).expect("a folder can be made");
    // Each test is a process of its own, which the runner ends if it waits too long.
    let turn = File::create(folder.join("turn")).expect("a file can be made");
    turn.lock().expect("a file can be locked");
    for library in [ENGINE, STORE] {
        let mut script = Command::new(source("tools/link-c.sh"));
        let linked = script.arg(library.name).arg(archive(library, beside)).arg(&folder).status();
        assert!(linked.expect("a script can be started").success(), "{}", library.name);
    }
    folder
}

/// What cargo has built of a library. One of other features lies beside it, and is older if its
/// sources were others.
fn archive(library: Library, beside: &Path) -> PathBuf {
    let start = format!("lib{}-", library.name);
    let files = std::fs::read_dir(beside).expect("a folder can be read");
    let files = files.map(|file| file.expect("a folder can be read").path());
    let archives = files.filter(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with(&start) && name.ends_with(".a")
    });
    let made = |path: &PathBuf| path.metadata().and_then(|it| it.modified()).ok();
    archives.max_by_key(made).expect("cargo has built the archive")
}
