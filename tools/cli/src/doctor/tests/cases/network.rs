//! Misconfigured networks: rails, sockets, peers and segments that cannot be reached.

use super::super::sample;
use super::{Case, double, file, value};
use crate::doctor::segments::{ClusterSegments, UnreachableSegment};
use perigee_mesh::{FindingKind, LinkBaseline, LinkFinding};
use perigee_verdict::NicOfHost;

pub(in crate::doctor::tests) fn cases() -> Vec<Case> {
    vec![
        file("rail_mtu", "ens1f0np0", |sample| {
            sample.sys("class/net/ens1f0np0/mtu", "1500");
        }),
        double("rail_mtu", "peer_mtu", "ens0f0np0", |sample| {
            (0..2).for_each(|rail| sample.sys(&format!("class/net/ens{rail}f0np0/mtu"), "1500"));
        }),
        file("link_down", "mlx5_1", |sample| {
            sample.sys("class/infiniband/mlx5_1/ports/1/state", "1: DOWN");
        }),
        file("link_down", "eno1", |sample| {
            sample.sys("class/net/eno1/operstate", "down");
            sample.sys("class/net/eno1/flags", "0x1003");
        }),
        file("link_speed", "mlx5_0", |sample| {
            sample.sys("class/infiniband/mlx5_0/ports/1/rate", "25 Gb/sec (1X EDR)");
        }),
        file("congestion_control", "tcp_congestion_control", |sample| {
            sample.proc("sys/net/ipv4/tcp_congestion_control", "bbr");
        }),
        file("socket_buffers", "net.ipv4.tcp_rmem", |sample| {
            sample.proc("sys/net/ipv4/tcp_rmem", "4096\t87380\t262144");
        }),
        file("socket_buffers", "net.core.wmem_max", |sample| {
            sample.proc("sys/net/core/wmem_max", "65536");
        }),
        value("peer_mtu", "other.json", |host| {
            host.peers = vec![sample::peer(1500, "RoCE v2")];
        }),
        value("segment_reach", "10.0.0.9:12345", |host| {
            host.cluster = ClusterSegments::Seen(vec![UnreachableSegment {
                name: "10.0.0.9:12345".to_owned(),
                endpoint: "127.0.0.1:40000".to_owned(),
                reason: "Connection refused".to_owned(),
            }]);
        }),
        value("segment_reach", "10.0.0.1:50051", |host| {
            host.cluster = ClusterSegments::Silent {
                master: "10.0.0.1:50051".to_owned(),
                reason: "Connection refused".to_owned(),
            };
        }),
        value("link_baseline", "node3/rail1 -> node7/rail1", |host| {
            let mut baseline = LinkBaseline::default();
            let finding = LinkFinding {
                kind: FindingKind::Bandwidth,
                from: NicOfHost::new("node3", "rail1"),
                to: NicOfHost::new("node7", "rail1"),
                evidence: "0.31 of its baseline".to_owned(),
                ratio: Some(0.31),
            };
            baseline.learn(&[], &[finding], 1);
            host.links = Some(Ok(baseline));
        }),
        value("link_baseline", "baseline of links", |host| {
            host.links = Some(Err("check.json: not JSON".to_owned()));
        }),
        value("peer_gid", "other.json", |host| {
            host.peers = vec![sample::peer(9000, "RoCE v1")];
        }),
    ]
}
