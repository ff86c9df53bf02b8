//! What the program shows of a host. Invariant: hosts are trees in a folder, so the machine the
//! tests run on does not matter.

use crate::process::output_of;
use perigee_topology::fixture::{self, Tree};
use serde_json::Value;
use std::process::Output;

fn show(tree: &Tree, arguments: &[&str]) -> Output {
    let sysfs = format!("--sysfs={}", tree.sys_path().display());
    let procfs = format!("--procfs={}", tree.proc_path().display());
    let mut words = vec!["topology", &sysfs, &procfs];
    words.extend(arguments);
    output_of("perigee", &words)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn a_gpu_host_is_shown_with_its_rails_and_reasons() {
    let folder = tempfile::tempdir().unwrap();
    let tree = fixture::eight_gpu_host(folder.path()).unwrap();
    let plain = show(&tree, &["--explain"]);
    assert!(plain.status.success(), "{plain:?}");
    let plain = text(&plain.stdout);
    for part in ["mlx5_7", "cuda:7", "nvme3n1", "same PCIe switch", "RoCE v2 with IPv4"] {
        assert!(plain.contains(part), "{part} is missing in\n{plain}");
    }
    let json: Value = serde_json::from_slice(&show(&tree, &["--format=json"]).stdout).unwrap();
    assert_eq!(json["cuda:7"][0], serde_json::json!(["mlx5_6", "mlx5_7"]));
    assert_eq!(json.as_object().unwrap().len(), 10);
}

#[test]
fn devices_are_chosen_by_list_and_by_rank() {
    let folder = tempfile::tempdir().unwrap();
    let tree = fixture::two_socket_host(folder.path()).unwrap();
    let json = |arguments: &[&str]| -> Value {
        let output = show(&tree, arguments);
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let listed = json(&["--format=json", "--device=mlx5_1"]);
    assert_eq!(listed["cpu:0"], serde_json::json!([[], ["mlx5_1"]]));
    let map = r#"--device={"0": "mlx5_0", "1": "mlx5_1"}"#;
    let ranked = json(&["--format=json", map, "--rank=0"]);
    assert_eq!(ranked["cpu:0"], serde_json::json!([["mlx5_0"], []]));
    let unknown = show(&tree, &["--device=mlx5_9"]);
    assert_eq!(unknown.status.code(), Some(2));
    let message = text(&unknown.stderr);
    assert!(message.contains("mlx5_9") && message.contains("mlx5_0, mlx5_1"), "{message}");
}

#[test]
fn under_mooncakes_name_a_matrix_is_printed_as_mooncake_does() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("matrix.json");
    std::fs::write(&path, r#"{"cpu:0": [[], []]}"#).unwrap();
    let flag = format!("--custom-topo-json={}", path.display());
    let output = output_of("transfer_engine_topology_dump", &[&flag]);
    let expected = format!(
        "Local topology [te/custom ({})]: {{\n\t\"cpu:0\" : \n\t[\n\t\t[],\n\t\t[]\n\t]\n}}\n\n",
        path.display()
    );
    assert_eq!(text(&output.stdout), expected);
    let found = output_of("transfer_engine_topology_dump", &[]);
    assert!(text(&found.stdout).starts_with("Local topology [te/discover]: {\n\t\"cpu:0\" : \n"));
    let refused = output_of("transfer_engine_topology_dump", &["--use-custom-topo"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("MC_CUSTOM_TOPO_JSON"));
}
