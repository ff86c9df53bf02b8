//! Devices from the file of `--nic_priority_matrix`. Invariant: a file that names no device is
//! refused, not taken for "all devices".

use std::path::Path;

use perigee_topology::Matrix;

use crate::error::BenchError;

/// Devices of the file, separated by commas.
pub(super) fn devices(path: &str) -> Result<String, BenchError> {
    let refuse = |detail: String| BenchError::Report { file: path.to_owned(), detail };
    let matrix = Matrix::from_file(Path::new(path)).map_err(|error| refuse(error.to_string()))?;
    let devices = matrix.devices();
    if devices.is_empty() {
        let detail = "No device in it; write {\"cpu:0\": [[\"mlx5_0\"], []]}";
        return Err(refuse(detail.to_owned()));
    }
    Ok(devices.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<String, BenchError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("matrix.json");
        std::fs::write(&path, text).unwrap();
        devices(&path.to_string_lossy())
    }

    #[test]
    fn devices_of_every_location_are_taken_once() {
        let text = r#"{"cpu:0": [["mlx5_0"], ["mlx5_1"]], "cpu:1": [["mlx5_1"], ["mlx5_0"]]}"#;
        assert_eq!(of(text).unwrap(), "mlx5_0,mlx5_1");
    }

    #[test]
    fn files_without_devices_are_refused() {
        for text in ["", "[]", "{}", r#"{"cpu:0": [[], []]}"#] {
            assert_eq!(of(text).unwrap_err().exit_code(), 2, "{text}");
        }
        assert!(devices("/no/such/file").is_err());
    }
}
