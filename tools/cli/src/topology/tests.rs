//! Facts about what is shown of a host.

use super::*;
use perigee_topology::fixture::{self, Tree};
use serde_json::Value;

fn shown(tree: &Tree, arguments: &[&str]) -> TopologyView {
    let mut words = vec![
        format!("--sysfs={}", tree.sys_path().display()),
        format!("--procfs={}", tree.proc_path().display()),
    ];
    words.extend(arguments.iter().map(|word| (*word).to_owned()));
    let environment = ProcessEnvironment::of(&[]);
    match TOPOLOGY.load(&words, &environment).unwrap() {
        ProgramStart::Run(settings) => view(&settings, &environment).unwrap(),
        ProgramStart::Print(text) => panic!("{text}"),
    }
}

#[test]
fn table_is_sound() {
    assert_eq!(TOPOLOGY.check(), Vec::<String>::new());
}

#[test]
fn people_see_every_kind_of_device_and_the_rails() {
    let folder = tempfile::tempdir().unwrap();
    let tree = fixture::eight_gpu_host(folder.path()).unwrap();
    let text = inventory::text(&shown(&tree, &[]));
    for part in [
        "  0     0-55,112-167    112\n",
        "  mlx5_7  active  400 Gb/s  0000:c3:00.0  1     ens7np0    3 10.77.0.8\n",
        "  cuda:0  NVIDIA  0000:1a:00.0  0\n",
        "  nvme3n1  3576 GiB  NVMe",
        "eno1       up     25 Gb/s   1500",
        "  cuda:2    mlx5_2 mlx5_3",
    ] {
        assert!(text.contains(part), "{part:?} is missing in\n{text}");
    }
    assert!(!text.contains("docker0"), "{text}");
    assert!(inventory::text(&shown(&tree, &["--all"])).contains("docker0"));
}

#[test]
fn an_empty_host_is_shown_as_empty() {
    let folder = tempfile::tempdir().unwrap();
    let tree = fixture::bare_host(folder.path()).unwrap();
    let view = shown(&tree, &[]);
    let text = inventory::text(&view) + &explanation::text(&view);
    for part in ["RDMA devices: none", "GPUs: none", "Disks: none", "over TCP"] {
        assert!(text.contains(part), "{part:?} is missing in\n{text}");
    }
}

#[test]
fn the_explanation_names_distance_filter_and_gid() {
    let folder = tempfile::tempdir().unwrap();
    let tree = fixture::two_socket_host(folder.path()).unwrap();
    let all = explanation::text(&shown(&tree, &[]));
    for part in [
        "cpu:0  mlx5_0  preferred  same NUMA node\n",
        "cpu:0  mlx5_1  other      another NUMA node (distance 20); others: same NUMA node\n",
        "used  RoCE v2 with IPv4: crosses routers\n",
        "RoCE v1 with link-local IPv6: stays in one broadcast domain",
    ] {
        assert!(all.contains(part), "{part:?} is missing in\n{all}");
    }
    assert_eq!(all.matches("  used  ").count(), 2, "{all}");
    let one = explanation::text(&shown(&tree, &["--device=mlx5_1"]));
    assert!(one.contains("mlx5_0: left out, not in the list of devices"), "{one}");
}

#[test]
fn programs_get_the_same_matrix_with_and_without_reasons() {
    let folder = tempfile::tempdir().unwrap();
    let tree = fixture::two_socket_host(folder.path()).unwrap();
    let view = shown(&tree, &[]);
    let alone: Value = view.matrix.to_json().parse().unwrap();
    let explained: Value = document::text(&view).parse().unwrap();
    assert_eq!(explained["matrix"], alone);
    assert_eq!(explained["locations"]["cpu:1"][0]["device"], "mlx5_1");
    assert_eq!(explained["devices"]["mlx5_0"]["gids"][0]["index"], 3);
    assert_eq!(explained["devices"]["mlx5_0"]["left_out"], Value::Null);
}
