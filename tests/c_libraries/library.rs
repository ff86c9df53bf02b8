//! Where the two libraries and their headers are.

use std::path::PathBuf;

/// Names the folder with the libraries under test; without it, the ones built beside this test.
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
        folder().join(format!("lib{}.so", self.name))
    }

    /// Folder of the header.
    pub(crate) fn include(self) -> PathBuf {
        source(self.package).join("include")
    }

    /// What the compiler has to know.
    pub(crate) fn flags(self) -> Vec<String> {
        let folder = folder().display().to_string();
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

fn folder() -> PathBuf {
    let own = std::env::current_exe().expect("a test knows its own path");
    let beside = own.parent().expect("a test lies in a folder");
    std::env::var_os(FOLDER_VARIABLE).map_or_else(|| beside.to_owned(), PathBuf::from)
}
