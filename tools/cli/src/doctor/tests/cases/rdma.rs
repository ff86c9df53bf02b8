//! Misconfigured RDMA: modules, device files, GIDs.

use super::{Case, file};

pub(in crate::doctor::tests) fn cases() -> Vec<Case> {
    vec![
        file("rdma_modules", "mlx5_ib", |sample| {
            sample.remove("bus/pci/devices/0000:98:00.0/infiniband/mlx5_1");
            sample.remove("class/infiniband/mlx5_1");
        }),
        file("rdma_modules", "ib_uverbs", |sample| {
            sample.remove("class/infiniband_verbs");
        }),
        file("rdma_files", "uverbs0", |sample| {
            sample.remove_device_file("infiniband/uverbs0");
        }),
        file("rdma_files", "uverbs1", |sample| {
            sample.device_mode("infiniband/uverbs1", 0o600);
            // As a user that is not the owner of the file.
            sample.user(54_321);
            sample.capabilities("000000c000005000");
        }),
        file("gid", "mlx5_1 port 1", |sample| {
            sample.remove("class/infiniband/mlx5_1/ports/1/gids");
        }),
        file("gid", "mlx5_0 port 1", |sample| {
            sample.remove("class/infiniband/mlx5_0/ports/1/gids/2");
            sample.remove("class/infiniband/mlx5_0/ports/1/gids/3");
        }),
        file("gid", "mlx5_1 port 1", |sample| {
            for index in [1, 3] {
                sample.remove(&format!("class/infiniband/mlx5_1/ports/1/gids/{index}"));
            }
        }),
    ]
}
