//! Facts about whole hosts.

use std::fs;
use std::path::{Path, PathBuf};

use super::*;
use crate::fixture;
use crate::fixture::tree::{NicSpec, Tree};
use crate::gid;
use crate::matrix::{Matrix, Rails};
use crate::nic::{NicKind, OperState};
use crate::rdma::PortState;

fn discover(tree: &Tree) -> Topology {
    Topology::discover(&tree.roots())
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn selection(device_name: &str, pairs: &[(&str, &str)]) -> Selection {
    let environment = |name: &str| {
        let found = pairs.iter().find(|(key, _)| *key == name);
        found.map(|(_, value)| (*value).to_owned())
    };
    Selection::new(device_name, None, &environment).unwrap()
}

#[test]
fn on_the_gpu_host_a_gpu_prefers_the_nics_of_its_switch() {
    let folder = folder();
    let topology = discover(&fixture::eight_gpu_host(folder.path()).unwrap());
    assert_eq!((topology.rdma.len(), topology.gpus.len(), topology.disks.len()), (8, 8, 4));
    let matrix = topology.matrix(&Selection::all()).unwrap();
    assert_eq!(matrix.preferred("cuda:0"), ["mlx5_0", "mlx5_1"]);
    assert_eq!(matrix.preferred("cuda:5"), ["mlx5_4", "mlx5_5"]);
    let others = matrix.rails("cuda:7").others;
    assert_eq!(others, ["mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3", "mlx5_4", "mlx5_5"]);
    assert_eq!(matrix.preferred("cpu:1"), ["mlx5_4", "mlx5_5", "mlx5_6", "mlx5_7"]);
    assert_eq!(matrix.rows().count(), 10);
}

#[test]
fn gpus_are_numbered_in_bus_order_and_carry_their_uuid() {
    let folder = folder();
    let topology = discover(&fixture::eight_gpu_host(folder.path()).unwrap());
    let gpu = &topology.gpus[2];
    assert_eq!(gpu.place.readable(), "0000:3f:00.0, node 0");
    assert_eq!(gpu.uuid.as_deref(), Some("GPU-20000000"));
    let visible = selection("", &[("CUDA_VISIBLE_DEVICES", "6,GPU-0")]);
    let matrix = topology.matrix(&visible).unwrap();
    assert_eq!(matrix.preferred("cuda:0"), ["mlx5_6", "mlx5_7"]);
    assert_eq!(matrix.preferred("cuda:1"), ["mlx5_0", "mlx5_1"]);
    assert_eq!(matrix.rows().filter(|(name, _)| name.starts_with("cuda")).count(), 2);
}

#[test]
fn nics_have_speed_mtu_and_kind() {
    let folder = folder();
    let topology = discover(&fixture::eight_gpu_host(folder.path()).unwrap());
    let find = |name: &str| topology.nics.iter().find(|nic| nic.name == name).unwrap();
    let rail = find("ens3np0");
    assert_eq!((rail.speed_mbps, rail.mtu, rail.place.node), (Some(400_000), Some(9000), Some(0)));
    assert_eq!((rail.kind, rail.state), (NicKind::Physical, OperState::Up));
    assert_eq!(find("docker0").kind, NicKind::Virtual);
    assert_eq!(find("lo").kind, NicKind::Loopback);
    assert_eq!(topology.nics.len(), 12, "a file beside the interfaces is none");
    assert_eq!(topology.nics.iter().filter(|nic| nic.is_physical()).count(), 9);
}

#[test]
fn a_two_socket_host_has_one_near_nic_per_socket() {
    let folder = folder();
    let topology = discover(&fixture::two_socket_host(folder.path()).unwrap());
    let matrix = topology.matrix(&Selection::all()).unwrap();
    let json = matrix.to_compact_json();
    assert_eq!(json, r#"{"cpu:0":[["mlx5_0"],["mlx5_1"]],"cpu:1":[["mlx5_1"],["mlx5_0"]]}"#);
    assert_eq!(topology.nodes[1].cpus.len(), 32);
    let disk = |name: &str| topology.disks.iter().find(|disk| disk.name == name).unwrap();
    assert!(disk("sda").is_rotational && !disk("nvme1n1").is_rotational);
    assert_eq!((disk("nvme1n1").place.node, disk("sda").bytes), (Some(1), 8 << 40));
    let distance = topology.distance(&topology.rdma[0].place, &topology.rdma[1].place);
    assert_eq!(distance, Distance::CrossNode { node_distance: 20 });
}

#[test]
fn a_host_without_anything_gives_what_mooncake_gives_there() {
    let folder = folder();
    let topology = discover(&fixture::bare_host(folder.path()).unwrap());
    let matrix = topology.matrix(&Selection::all()).unwrap();
    assert_eq!(matrix.to_json(), "{\n\t\"cpu:0\" : \n\t[\n\t\t[],\n\t\t[]\n\t]\n}\n");
    let nowhere = Topology::discover(&Roots::new("/no/such/sys", "/no/such/proc"));
    assert_eq!(nowhere, topology);
}

#[test]
fn soft_roce_in_a_virtual_machine_is_near_its_only_node() {
    let folder = folder();
    let topology = discover(&fixture::virtual_machine(folder.path()).unwrap());
    let matrix = topology.matrix(&Selection::all()).unwrap();
    assert_eq!(matrix.to_compact_json(), r#"{"cpu:0":[["rxe0","rxe1"],[]]}"#);
    let device = &topology.rdma[1];
    assert_eq!(device.netdev.as_deref(), Some("rail1"));
    assert_eq!(device.uverbs.as_deref(), Some("uverbs1"));
    assert_eq!(device.rate_mbps(), Some(2_500));
    assert_eq!(topology.nodes[0].cpus, [0, 1]);
    assert_eq!(topology.disks[0].place.readable(), "0000:00:04.0, node unknown");
}

#[test]
fn the_best_gid_of_a_port_is_ipv4_in_roce_v2() {
    let folder = folder();
    let topology = discover(&fixture::two_socket_host(folder.path()).unwrap());
    let port = &topology.rdma[1].ports[0];
    assert_eq!(port.gids.len(), 4, "an empty entry is no address");
    let best = gid::choose(&port.gids, None).unwrap();
    assert_eq!((best.entry.index, best.entry.netdev.as_deref()), (3, Some("ens1f0np0")));
    assert_eq!(best.entry.gid.readable(), "10.77.0.2");
}

#[test]
fn unknown_names_are_an_error_that_lists_what_exists() {
    let folder = folder();
    let topology = discover(&fixture::virtual_machine(folder.path()).unwrap());
    let wrong = selection("rxe0,mlx5_9", &[]);
    let message = topology.matrix(&wrong).unwrap_err().to_string();
    assert_eq!(message, "No device mlx5_9; this host has rxe0, rxe1, eth0, rail0, rail1");
    let known = topology.matrix_of_known(&wrong);
    assert_eq!(known.preferred("cpu:0"), ["rxe0"]);
    let excluded = selection("", &[("MC_TE_FILTERS_EXCLUDE", "rxe0,nothing")]);
    assert_eq!(topology.matrix(&excluded).unwrap().preferred("*"), ["rxe1"]);
}

#[test]
fn a_device_without_a_link_is_left_out_unless_named() {
    let folder = folder();
    let tree = fixture::two_socket_host(folder.path()).unwrap();
    tree.sys("class/infiniband/mlx5_0/ports/1/state", "1: DOWN").unwrap();
    let topology = discover(&tree);
    assert_eq!(topology.rdma[0].ports[0].state, PortState::Inactive);
    let matrix = topology.matrix(&Selection::all()).unwrap();
    assert_eq!(matrix.rails("cpu:0"), Rails { preferred: vec![], others: vec!["mlx5_1".into()] });
    assert_eq!(matrix.preferred("cpu:0"), ["mlx5_1"]);
    let explanation = topology.explain(&Selection::all());
    let reason = explanation.devices[0].left_out.as_deref();
    assert_eq!(reason, Some("no active port: port 1 is 1: DOWN"));
    let named = topology.matrix(&selection("mlx5_0", &[])).unwrap();
    assert_eq!(named.preferred("cpu:0"), ["mlx5_0"]);
}

#[test]
fn the_explanation_agrees_with_the_matrix() {
    let folder = folder();
    let topology = discover(&fixture::eight_gpu_host(folder.path()).unwrap());
    let filter = selection("", &[("MC_TE_FILTERS_EXCLUDE", "mlx5_3")]);
    let matrix = topology.matrix(&filter).unwrap();
    let explanation = topology.explain(&filter);
    assert_eq!(explanation.devices[3].left_out.as_deref(), Some("in MC_TE_FILTERS_EXCLUDE"));
    for note in &explanation.locations {
        let names = |is_preferred: bool| -> Vec<String> {
            let of_kind = note.choices.iter().filter(|choice| choice.is_preferred == is_preferred);
            of_kind.map(|choice| choice.device.clone()).collect()
        };
        let rails = matrix.rails(&note.location);
        assert_eq!((names(true), names(false)), (rails.preferred, rails.others));
    }
    let first = &explanation.locations[2].choices[0];
    assert_eq!(first.reason, "same PCIe switch (2 shared bridges)");
    assert_eq!(explanation.devices[0].gids[0].entry.index, 3);
}

#[test]
fn without_a_nic_on_its_node_a_gpu_takes_the_nearest() {
    let folder = folder();
    let tree = fixture::two_socket_host(folder.path()).unwrap();
    tree.pci("pci0000:97/0000:97:05.0/0000:9f:00.0", 0x03_0200, 0x10de, 1).unwrap();
    tree.pci("pci0000:98/0000:98:05.0/0000:a0:00.0", 0x12_0000, 0x1002, 1).unwrap();
    tree.pci("pci0000:00/0000:00:02.0", 0x03_0000, 0x1a03, 0).unwrap();
    let matrix = discover(&tree).matrix(&Selection::all()).unwrap();
    assert_eq!(matrix.preferred("cuda:0"), ["mlx5_1"]);
    assert_eq!(matrix.preferred("hip:0"), ["mlx5_1"]);
    assert_eq!(matrix.rows().count(), 4, "a screen controller of the board is no GPU");
    tree.remove("class/infiniband/mlx5_1").unwrap();
    let matrix = discover(&tree).matrix(&Selection::all()).unwrap();
    assert_eq!(matrix.preferred("cuda:0"), ["mlx5_0"]);
}

#[test]
fn a_device_of_unknown_place_is_second_choice_on_a_host_with_nodes() {
    let folder = folder();
    let tree = fixture::two_socket_host(folder.path()).unwrap();
    tree.nic(NicSpec { name: "rail0", device: None, speed_mbps: -1, mtu: 1500 }).unwrap();
    tree.rdma(fixture::RdmaSpec {
        name: "rxe0",
        device: "virtual",
        netdev: "rail0",
        rate: "2.5 Gb/sec",
        gids: &[],
    })
    .unwrap();
    let matrix = discover(&tree).matrix(&Selection::all()).unwrap();
    assert_eq!(matrix.rails("cpu:0").preferred, ["mlx5_0"]);
    assert_eq!(matrix.rails("cpu:0").others, ["mlx5_1", "rxe0"]);
}

fn files(below: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(below).unwrap() {
        let path = entry.unwrap().path();
        let kind = fs::symlink_metadata(&path).unwrap();
        match kind.is_dir() {
            true => files(&path, found),
            false => found.push(path),
        }
    }
}

/// Each file in turn is missing, empty, garbage, too large, a folder, or a link to itself.
#[test]
fn one_broken_file_never_costs_more_than_its_own_device() {
    let folder = folder();
    let tree = fixture::two_socket_host(folder.path()).unwrap();
    let mut all = Vec::new();
    files(&tree.sys_path(), &mut all);
    let whole = discover(&tree);
    for (position, path) in all.iter().enumerate() {
        let link = fs::read_link(path).ok();
        let text = fs::read(path).unwrap_or_default();
        fs::remove_file(path).unwrap();
        match position % 6 {
            0 => {}
            1 => fs::write(path, "").unwrap(),
            2 => fs::write(path, b"\xff\xfe garbage -99999999999999999999 \0").unwrap(),
            3 => fs::write(path, vec![b'9'; 1 << 20]).unwrap(),
            4 => fs::create_dir(path).unwrap(),
            _ => std::os::unix::fs::symlink(path, path).unwrap(),
        }
        let topology = discover(&tree);
        assert!(topology.rdma.len() + 1 >= whole.rdma.len(), "{}", path.display());
        assert!(topology.nics.len() + 1 >= whole.nics.len(), "{}", path.display());
        let text_of_matrix = topology.matrix_of_known(&Selection::all()).to_json();
        assert!(Matrix::from_json(&text_of_matrix).is_ok());
        let _ = fs::remove_file(path).or_else(|_| fs::remove_dir(path));
        match link {
            Some(target) => std::os::unix::fs::symlink(target, path).unwrap(),
            None => fs::write(path, text).unwrap(),
        }
    }
    assert_eq!(discover(&tree), whole);
}
