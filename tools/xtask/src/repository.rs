//! The checkout under inspection: its root and the files that belong to it.
//! Invariant: only files that git tracks or would track are listed, never build output.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Why the repository could not be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RepositoryError {
    #[error("Cannot start {program}: {source}")]
    Start { program: String, source: std::io::Error },
    #[error("{program} failed: {output}")]
    Failed { program: String, output: String },
    #[error("Cannot read {path}: {source}")]
    Read { path: String, source: std::io::Error },
    #[error("Cannot write {path}: {source}")]
    Write { path: String, source: std::io::Error },
    #[error("Unexpected output of {program}: {detail}")]
    Output { program: String, detail: String },
    #[error("No {what}; {remedy}")]
    Missing { what: String, remedy: String },
}

/// A checkout with its root directory.
pub(crate) struct Repository {
    root: PathBuf,
}

impl Repository {
    /// The checkout this tool was built from.
    pub(crate) fn here() -> Result<Self, RepositoryError> {
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
        let root = manifest.ancestors().nth(2).unwrap_or(manifest);
        if root.join("Cargo.toml").is_file() {
            return Ok(Self { root: root.to_path_buf() });
        }
        Err(RepositoryError::Missing {
            what: format!("Cargo.toml in {}", root.display()),
            remedy: "run this through `cargo xtask` inside the checkout".into(),
        })
    }

    #[cfg(test)]
    pub(crate) fn at(root: &Path) -> Self {
        Self { root: root.to_path_buf() }
    }

    /// Absolute path of a file named relative to the root.
    pub(crate) fn path(&self, relative: &str) -> PathBuf {
        self.root.join(relative)
    }

    /// Tracked and not ignored files that exist, relative to the root, sorted.
    pub(crate) fn files(&self) -> Result<Vec<String>, RepositoryError> {
        let listing =
            self.run("git", &["ls-files", "--cached", "--others", "--exclude-standard", "-z"])?;
        let mut files: Vec<String> = listing
            .split('\0')
            .filter(|name| !name.is_empty() && self.path(name).is_file())
            .map(str::to_owned)
            .collect();
        files.sort();
        files.dedup();
        Ok(files)
    }

    /// Text of a file, or nothing if it is not UTF-8.
    pub(crate) fn text(&self, relative: &str) -> Result<Option<String>, RepositoryError> {
        match std::fs::read(self.path(relative)) {
            Ok(bytes) => Ok(String::from_utf8(bytes).ok()),
            Err(source) => Err(RepositoryError::Read { path: relative.into(), source }),
        }
    }

    /// Standard output of a program run in the root.
    pub(crate) fn run(&self, program: &str, arguments: &[&str]) -> Result<String, RepositoryError> {
        let output = Command::new(program)
            .args(arguments)
            .current_dir(&self.root)
            .output()
            .map_err(|source| RepositoryError::Start { program: program.into(), source })?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr);
            return Err(RepositoryError::Failed {
                program: program.into(),
                output: text.trim().into(),
            });
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}
