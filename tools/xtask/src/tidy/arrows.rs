//! Which crate may depend on which: the manifests, read by `cargo metadata`, against the drawing of
//! ARCHITECTURE.md.
//! Invariant: every arrow points to a lower floor of the drawing, and control never reaches into
//! the data plane except for its executor and ports.

use serde_json::Value;

use super::floors::{Floors, Plane};
use super::violation::Violation;
use crate::repository::RepositoryError;

/// The page with the drawing.
pub(super) const DRAWING: &str = "ARCHITECTURE.md";
/// What the data plane may use of the control plane: how to talk to it, flags, metric names and
/// the node's own HTTP routes.
const CONTROL_FOR_DATA_PLANE: [&str; 4] =
    ["perigee-rpc", "perigee-flags", "perigee-http", "perigee-metrics"];
/// What the control plane may use of the data plane: the executor, listening ports on it, and the
/// page in which spans of requests are kept.
const DATA_PLANE_FOR_CONTROL: [&str; 3] = ["perigee-shard", "perigee-port", "perigee-activity"];
/// Programs and tests: nothing may depend on them.
const LEAVES: [&str; 4] = ["perigee-cli", "perigee-xtask", "perigee-tests", "perigee-simulation"];
/// A command of the program with a crate of its own: it may use everything, and only programs may
/// use it.
const BENCH: &str = "perigee-bench";
/// Third-party crates that stay behind one seam: crate, and folders that may name it.
const SEAMS: [(&str, &[&str]); 10] = [
    ("glommio", &["dataplane/shard"]),
    ("io-uring", &["dataplane/reactor", "bench"]),
    ("libloading", &["dataplane/verbs", "dataplane/device"]),
    ("pyo3", &["dataplane/python"]),
    ("redis", &["dataplane/discovery"]),
    ("rustls", &["dataplane/discovery", "ebpf/agent"]),
    (
        "tokio",
        &[
            "control/admin",
            "control/events",
            "control/http",
            "control/metadata",
            "control/service",
            "dataplane/client",
            "dataplane/discovery",
            "dataplane/node",
            "ebpf",
            "tests",
        ],
    ),
    (
        "axum",
        &[
            "control/admin",
            "control/http",
            "control/metadata",
            "control/service",
            "dataplane/node",
            "ebpf/agent",
        ],
    ),
    ("aya", &["ebpf"]),
    (
        "flatbuffers",
        &[
            "schemas",
            "control/rpc",
            "control/service",
            "dataplane/mover",
            "dataplane/rdma",
            "dataplane/engine",
            "tests",
        ],
    ),
];
/// Crates that decide and never act: no I/O, clock, threads or randomness of their own.
const PURE: [&str; 2] = ["perigee-master", "perigee-allocator"];
const PURE_MUST_NOT_USE: [&str; 8] =
    ["glommio", "io-uring", "libc", "nix", "tokio", "getrandom", "tracing", "perigee-shard"];

/// One crate of the workspace.
struct Package {
    name: String,
    /// Folder relative to the root.
    folder: String,
    dependencies: Vec<Dependency>,
}

struct Dependency {
    name: String,
    dev_only: bool,
}

impl Package {
    /// Whether its folder is one of the two planes that the drawing shows.
    fn is_in_a_plane(&self) -> bool {
        self.folder.starts_with("dataplane/") || self.folder.starts_with("control/")
    }
}

/// All arrows that point the wrong way, and crates that the drawing of `architecture` lacks or has
/// too many.
pub(super) fn check(metadata: &str, architecture: &str) -> Result<Vec<Violation>, RepositoryError> {
    let packages = read(metadata).ok_or_else(|| RepositoryError::Output {
        program: "cargo metadata".into(),
        detail: "packages with name, manifest_path and dependencies were expected".into(),
    })?;
    let Some(floors) = Floors::read(architecture) else {
        let message = "The first block is not the drawing of floors";
        return Ok(vec![Violation::new(DRAWING, 0, message)]);
    };
    let mut findings = undrawn(&packages, &floors);
    for package in &packages {
        let file = format!("{}/Cargo.toml", package.folder);
        for dependency in &package.dependencies {
            if let Some(message) = judge(package, dependency, &floors) {
                findings.push(Violation::new(&file, 0, message));
            }
        }
    }
    Ok(findings)
}

/// The drawing shows each crate of the two planes, and no other.
fn undrawn(packages: &[Package], floors: &Floors) -> Vec<Violation> {
    let drawn = packages.iter().filter(|package| package.is_in_a_plane());
    let missing = drawn
        .filter(|package| floors.of(&package.name).is_none())
        .map(|package| format!("The drawing lacks {}", package.name));
    let unknown = floors.names().filter(|name| {
        let is_it = |package: &Package| package.name.strip_prefix("perigee-") == Some(name);
        !packages.iter().any(is_it)
    });
    let unknown = unknown.map(|name| format!("The drawing has {name}, which is no crate"));
    let finding = |message| Violation::new(DRAWING, 0, message);
    missing.chain(unknown).map(finding).collect()
}

/// Every crate takes its lints from the workspace, or they do not hold there.
pub(super) fn check_manifest(file: &str, text: &str) -> Option<Violation> {
    let inherits = text.lines().skip_while(|line| line.trim() != "[lints]").nth(1);
    (inherits.map(str::trim) != Some("workspace = true"))
        .then(|| Violation::new(file, 0, "Add `[lints]` with `workspace = true`"))
}

fn judge(package: &Package, dependency: &Dependency, floors: &Floors) -> Option<String> {
    let (from, to) = (package.name.as_str(), dependency.name.as_str());
    if LEAVES.contains(&to) {
        return Some(format!("{from} must not depend on {to}, a program"));
    }
    if dependency.dev_only || LEAVES.contains(&from) {
        return None;
    }
    if to == BENCH {
        return Some(format!("{from} must not depend on {to}, which is for programs"));
    }
    if let Some((_, folders)) = SEAMS.iter().find(|(name, _)| *name == to) {
        let inside = folders.iter().any(|folder| package.folder.starts_with(folder));
        return (!inside).then(|| format!("{to} may be used in {} only", folders.join(", ")));
    }
    if PURE.contains(&from) && PURE_MUST_NOT_USE.contains(&to) {
        return Some(format!("{from} does no I/O of its own, so it must not use {to}"));
    }
    to.starts_with("perigee-").then(|| judge_own(package, to, floors)).flatten()
}

fn judge_own(package: &Package, to: &str, floors: &Floors) -> Option<String> {
    let from = package.name.as_str();
    if from == "perigee-schemas" {
        return Some(format!("{from} depends on nothing of ours, so not on {to}"));
    }
    if to == "perigee-schemas" {
        return None;
    }
    let own = floors.of(from)?;
    let Some(target) = floors.of(to) else {
        return Some(format!("{from} must not depend on {to}, which is in no plane"));
    };
    let allowed = match own.plane {
        Plane::Data => CONTROL_FOR_DATA_PLANE.as_slice(),
        Plane::Control => DATA_PLANE_FOR_CONTROL.as_slice(),
    };
    if own.plane != target.plane && !allowed.contains(&to) {
        return Some(format!("{from} must not reach into the other plane ({to})"));
    }
    (target.floor >= own.floor)
        .then(|| format!("{from} must not depend on {to}: it is not on a lower floor"))
}

fn read(metadata: &str) -> Option<Vec<Package>> {
    let value: Value = serde_json::from_str(metadata).ok()?;
    let root = value["workspace_root"].as_str()?;
    value["packages"].as_array()?.iter().map(|package| read_package(package, root)).collect()
}

fn read_package(package: &Value, root: &str) -> Option<Package> {
    let manifest = package["manifest_path"].as_str()?.strip_prefix(root)?.trim_start_matches('/');
    let dependencies = package["dependencies"].as_array()?.iter().map(|dependency| {
        Some(Dependency {
            name: dependency["name"].as_str()?.to_owned(),
            dev_only: dependency["kind"].as_str() == Some("dev"),
        })
    });
    Some(Package {
        name: package["name"].as_str()?.to_owned(),
        folder: manifest.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned(),
        dependencies: dependencies.collect::<Option<_>>()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "```
 floor   dataplane                                        control

   4     store           puts                             service     daemon
   3     transfer        objects                          rpc         calls
         node            lends
   2     port            listening                        master      state machine
   1     shard           executor
   0     memory          segments                         http        server
```
";

    fn verdict(folder: &str, name: &str, to: &str, kind: Option<&str>) -> usize {
        let metadata = serde_json::json!({
            "workspace_root": "/r",
            "packages": [{
                "name": name,
                "manifest_path": format!("/r/{folder}/Cargo.toml"),
                "dependencies": [{ "name": to, "kind": kind }],
            }],
        });
        let wrong_way = |finding: &Violation| finding.file != DRAWING;
        let findings = check(&metadata.to_string(), PAGE).unwrap();
        findings.into_iter().filter(wrong_way).count()
    }

    #[test]
    fn arrows_go_to_lower_floors_only() {
        assert_eq!(
            verdict("dataplane/transfer", "perigee-transfer", "perigee-node", None),
            1,
            "the same floor"
        );
        assert_eq!(verdict("dataplane/store", "perigee-store", "perigee-transfer", None), 0);
        assert_eq!(verdict("dataplane/transfer", "perigee-transfer", "perigee-store", None), 1);
        assert_eq!(verdict("dataplane/store", "perigee-store", "perigee-rpc", None), 0);
        assert_eq!(verdict("dataplane/store", "perigee-store", "perigee-master", None), 1);
    }

    #[test]
    fn control_uses_only_the_executor_of_the_data_plane() {
        assert_eq!(verdict("control/service", "perigee-service", "perigee-shard", None), 0);
        assert_eq!(verdict("control/service", "perigee-service", "perigee-memory", None), 1);
    }

    #[test]
    fn schemas_depend_on_nothing_of_ours() {
        assert_eq!(verdict("schemas", "perigee-schemas", "perigee-memory", None), 1);
        assert_eq!(verdict("schemas", "perigee-schemas", "flatbuffers", None), 0);
    }

    #[test]
    fn glommio_stays_behind_its_seam() {
        assert_eq!(verdict("dataplane/shard", "perigee-shard", "glommio", None), 0);
        assert_eq!(verdict("control/service", "perigee-service", "glommio", None), 1);
    }

    #[test]
    fn the_state_machine_uses_nothing_that_acts() {
        assert_eq!(verdict("control/master", "perigee-master", "getrandom", None), 1);
        assert_eq!(verdict("control/master", "perigee-master", "getrandom", Some("dev")), 0);
    }

    #[test]
    fn no_crate_depends_on_a_program() {
        assert_eq!(verdict("dataplane/node", "perigee-node", "perigee-cli", Some("dev")), 1);
    }

    #[test]
    fn only_programs_use_the_bench() {
        assert_eq!(verdict("tools/cli", "perigee-cli", "perigee-bench", None), 0);
        assert_eq!(verdict("dataplane/node", "perigee-node", "perigee-bench", None), 1);
        assert_eq!(verdict("bench", "perigee-bench", "perigee-store", None), 0);
    }

    #[test]
    fn unexpected_metadata_is_an_error() {
        assert!(check("{}", PAGE).is_err());
    }

    #[test]
    fn a_crate_beside_the_drawing_is_found_and_one_of_the_drawing_without_a_manifest() {
        let metadata = serde_json::json!({
            "workspace_root": "/r",
            "packages": [{
                "name": "perigee-mover",
                "manifest_path": "/r/dataplane/mover/Cargo.toml",
                "dependencies": [],
            }],
        });
        let findings = check(&metadata.to_string(), PAGE).unwrap();
        let says = |text: &str| findings.iter().any(|finding| finding.message.contains(text));
        assert!(says("The drawing lacks perigee-mover"));
        assert!(says("The drawing has shard, which is no crate"));
        assert_eq!(check(&metadata.to_string(), "no drawing").unwrap().len(), 1);
    }

    #[test]
    fn a_crate_without_the_workspace_lints_is_found() {
        let good = "[package]\n\n[lints]\nworkspace = true\n\n[dependencies]\n";
        assert!(check_manifest("a/Cargo.toml", good).is_none());
        assert!(check_manifest("a/Cargo.toml", "[package]\n").is_some());
    }
}
