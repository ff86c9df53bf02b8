//! The matrix of this process: its devices, its variables, its host. Invariant: a matrix the user
//! wrote always wins over what is found, and is filtered in the same way.

use std::path::Path;

use crate::document;
use crate::error::TopologyError;
use crate::host::Topology;
use crate::matrix::Matrix;
use crate::roots::Roots;
use crate::selection::Selection;

/// Names a file with a matrix to use instead of what is found.
pub const CUSTOM_MATRIX_VARIABLE: &str = "MC_CUSTOM_TOPO_JSON";

impl Matrix {
    /// Reads a matrix from a file.
    ///
    /// # Errors
    /// The file cannot be read or holds something else.
    pub fn from_file(path: &Path) -> Result<Self, TopologyError> {
        Self::from_json(&document::read_file(path)?)
    }

    /// The matrix for a `device_name` argument: of the file that `MC_CUSTOM_TOPO_JSON` names, or
    /// of the host, with the filters of the environment applied.
    ///
    /// # Errors
    /// A document is malformed, or a device was named that this host does not have.
    pub fn local(
        roots: &Roots,
        device_name: &str,
        rank: Option<u32>,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, TopologyError> {
        let selection = Selection::new(device_name, rank, environment)?;
        match Self::custom(environment)? {
            Some(matrix) => Ok(matrix.restricted_to(&selection)),
            None => Topology::discover(roots).matrix(&selection),
        }
    }

    /// The same; names that this host does not have are ignored, as Mooncake does.
    ///
    /// # Errors
    /// A document is malformed.
    pub fn local_of_known(
        roots: &Roots,
        device_name: &str,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, TopologyError> {
        let selection = Selection::new(device_name, None, environment)?;
        Ok(match Self::custom(environment)? {
            Some(matrix) => matrix.restricted_to(&selection),
            None => Topology::discover(roots).matrix_of_known(&selection),
        })
    }

    /// The matrix that the environment holds, or the file that it names, if it does.
    fn custom(environment: &dyn Fn(&str) -> Option<String>) -> Result<Option<Self>, TopologyError> {
        let given = environment(CUSTOM_MATRIX_VARIABLE).filter(|given| !given.is_empty());
        let read = |given: String| match given.trim_start().starts_with('{') {
            true => Self::from_json(&given),
            false => Self::from_file(Path::new(&given)),
        };
        given.map(read).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn a_matrix_in_a_file_wins_over_the_host_and_is_filtered() {
        let folder = tempfile::tempdir().unwrap();
        let tree = fixture::virtual_machine(folder.path()).unwrap();
        let path = folder.path().join("matrix.json");
        std::fs::write(&path, r#"{"cpu:0": [["a", "b"], []]}"#).unwrap();
        let text = path.to_str().map(str::to_owned);
        let custom = |name: &str| (name == CUSTOM_MATRIX_VARIABLE).then(|| text.clone()).flatten();
        let matrix = Matrix::local(&tree.roots(), "b", None, &custom).unwrap();
        assert_eq!(matrix.preferred("cpu:0"), ["b"]);
        let text = r#"{"cpu:0": [["b"], ["a"]]}"#;
        let given = |name: &str| (name == CUSTOM_MATRIX_VARIABLE).then(|| text.to_owned());
        let matrix = Matrix::local(&tree.roots(), "", None, &given).unwrap();
        assert_eq!(matrix.preferred("cpu:0"), ["b"]);
        let empty = |name: &str| (name == CUSTOM_MATRIX_VARIABLE).then(String::new);
        let found = Matrix::local(&tree.roots(), "", None, &empty).unwrap();
        assert_eq!(found.preferred("cpu:0"), ["rxe0", "rxe1"]);
        let missing = |name: &str| (name == CUSTOM_MATRIX_VARIABLE).then(|| "/no/file".to_owned());
        let known = Matrix::local_of_known(&tree.roots(), "no-such,b", &custom).unwrap();
        assert_eq!(known.preferred("cpu:0"), ["b"]);
        assert!(Matrix::local_of_known(&tree.roots(), "", &missing).is_err());
        let error = Matrix::local(&tree.roots(), "", None, &missing).unwrap_err();
        assert!(error.to_string().contains("/no/file"), "{error}");
    }
}
