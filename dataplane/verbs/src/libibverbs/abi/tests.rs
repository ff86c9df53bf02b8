//! Every size, offset and constant against the headers that are installed on this host.

use std::mem::{offset_of, size_of};
use std::path::Path;
use std::process::Command;

use super::*;

/// One figure: how C computes it, and what it is here.
type Figure = (String, u64);

macro_rules! offsets {
    ($into:ident: $($name:ident { $($field:ident),* $(,)? })*) => {
        $($($into.push((
            format!("offsetof(struct {}, {})", stringify!($name), c_field(stringify!($field))),
            offset_of!($name, $field) as u64,
        ));)*)*
    };
}

macro_rules! constants {
    ($into:ident: $($name:ident),* $(,)?) => {
        $($into.push((stringify!($name).to_owned(), u64::try_from($name).unwrap()));)*
    };
}

/// Fields that C has inside of unions.
fn c_field(field: &str) -> &str {
    match field {
        "remote_addr" => "wr.rdma.remote_addr",
        field => field,
    }
}

fn sizes() -> Vec<Figure> {
    let size = |name: &str, bytes: usize| (format!("sizeof(struct {name})"), bytes as u64);
    vec![
        size("ibv_device_attr", size_of::<ibv_device_attr>()),
        size("ibv_context_ops", size_of::<ibv_context_ops>()),
        size("ibv_gid_entry", size_of::<ibv_gid_entry>()),
        size("ibv_qp_cap", size_of::<ibv_qp_cap>()),
        size("ibv_qp_init_attr", size_of::<ibv_qp_init_attr>()),
        size("ibv_global_route", size_of::<ibv_global_route>()),
        size("ibv_ah_attr", size_of::<ibv_ah_attr>()),
        size("ibv_qp_attr", size_of::<ibv_qp_attr>()),
        size("ibv_sge", size_of::<ibv_sge>()),
        size("ibv_send_wr", size_of::<ibv_send_wr>()),
        size("ibv_wc", size_of::<ibv_wc>()),
        size("ibv_async_event", size_of::<ibv_async_event>()),
        (
            "offsetof(struct ibv_send_wr, wr.rdma.rkey)".to_owned(),
            offset_of!(ibv_send_wr, rkey) as u64,
        ),
    ]
}

fn structures(figures: &mut Vec<Figure>) {
    offsets! { figures:
        ibv_device { node_type, transport_type, name }
        ibv_context { device, ops, cmd_fd, async_fd, num_comp_vectors }
        ibv_context_ops { poll_cq, req_notify_cq, post_send }
        ibv_pd { context, handle }
        ibv_mr { context, pd, addr, length, handle, lkey, rkey }
        ibv_comp_channel { context, fd, refcnt }
        ibv_cq { context, channel, cq_context, handle, cqe }
        ibv_qp { context, pd, send_cq, recv_cq, srq, handle, qp_num }
        ibv_device_attr {
            node_guid, max_mr_size, max_qp, max_qp_wr, device_cap_flags, max_sge, max_cqe, max_mr,
            max_qp_rd_atom, max_qp_init_rd_atom, max_pkeys, phys_port_cnt,
        }
        ibv_port_attr {
            state, max_mtu, active_mtu, gid_tbl_len, max_msg_sz, pkey_tbl_len, lid, active_width,
            active_speed, phys_state, link_layer, flags, port_cap_flags2,
        }
        ibv_gid_entry { gid, gid_index, port_num, gid_type, ndev_ifindex }
        ibv_qp_cap { max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline_data }
        ibv_qp_init_attr { qp_context, send_cq, recv_cq, srq, cap, qp_type, sq_sig_all }
        ibv_global_route { dgid, flow_label, sgid_index, hop_limit, traffic_class }
        ibv_ah_attr { grh, dlid, sl, src_path_bits, static_rate, is_global, port_num }
        ibv_qp_attr {
            qp_state, path_mtu, qkey, rq_psn, sq_psn, dest_qp_num, qp_access_flags, cap, ah_attr,
            alt_ah_attr, pkey_index, max_rd_atomic, max_dest_rd_atomic, min_rnr_timer, port_num,
            timeout, retry_cnt, rnr_retry, rate_limit,
        }
        ibv_sge { addr, length, lkey }
        ibv_send_wr { wr_id, next, sg_list, num_sge, opcode, send_flags, imm_data, remote_addr }
        ibv_wc { wr_id, status, opcode, vendor_err, byte_len, qp_num, src_qp, wc_flags, slid, sl }
        ibv_async_event { element, event_type }
    }
}

fn enumerations(figures: &mut Vec<Figure>) {
    constants! { figures:
        IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_WRITE, IBV_ACCESS_REMOTE_READ,
        IBV_ACCESS_RELAXED_ORDERING, IBV_PORT_ACTIVE,
        IBV_LINK_LAYER_INFINIBAND, IBV_LINK_LAYER_ETHERNET, IBV_GID_TYPE_IB, IBV_GID_TYPE_ROCE_V1,
        IBV_GID_TYPE_ROCE_V2, IBV_QPT_RC, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPS_ERR,
        IBV_QP_STATE, IBV_QP_ACCESS_FLAGS, IBV_QP_PKEY_INDEX, IBV_QP_PORT, IBV_QP_AV,
        IBV_QP_PATH_MTU, IBV_QP_TIMEOUT, IBV_QP_RETRY_CNT, IBV_QP_RNR_RETRY, IBV_QP_RQ_PSN,
        IBV_QP_MAX_QP_RD_ATOMIC, IBV_QP_MIN_RNR_TIMER, IBV_QP_SQ_PSN, IBV_QP_MAX_DEST_RD_ATOMIC,
        IBV_QP_DEST_QPN, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_SEND_SIGNALED, IBV_SEND_INLINE,
        IBV_WC_SUCCESS, IBV_WC_LOC_LEN_ERR, IBV_WC_LOC_QP_OP_ERR, IBV_WC_LOC_PROT_ERR,
        IBV_WC_WR_FLUSH_ERR, IBV_WC_LOC_ACCESS_ERR, IBV_WC_REM_INV_REQ_ERR, IBV_WC_REM_ACCESS_ERR,
        IBV_WC_REM_OP_ERR, IBV_WC_RETRY_EXC_ERR, IBV_WC_RNR_RETRY_EXC_ERR, IBV_WC_FATAL_ERR,
        IBV_EVENT_QP_FATAL, IBV_EVENT_QP_REQ_ERR, IBV_EVENT_QP_ACCESS_ERR, IBV_EVENT_DEVICE_FATAL,
        IBV_EVENT_PORT_ACTIVE, IBV_EVENT_PORT_ERR, IBV_EVENT_LID_CHANGE, IBV_EVENT_GID_CHANGE,
    }
}

#[test]
fn the_layout_is_that_of_the_installed_headers() {
    if !Path::new("/usr/include/infiniband/verbs.h").exists() {
        // Straight to the descriptor: the test runner would swallow a print.
        let line = b"SKIP: without libibverbs-dev layouts are checked against fixed numbers only\n";
        std::io::Write::write_all(&mut std::io::stderr(), line).unwrap();
        return;
    }
    let mut figures = sizes();
    structures(&mut figures);
    enumerations(&mut figures);
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("layout.c");
    let program = folder.path().join("layout");
    let prints: String = figures
        .iter()
        .map(|(c, _)| format!("  printf(\"%llu\\n\", (unsigned long long)({c}));\n"))
        .collect();
    let text = format!(
        "#include <infiniband/verbs.h>\n#include <stddef.h>\n#include <stdio.h>\n\
         int main(void) {{\n{prints}\
         \x20 printf(\"%d\\n\", sizeof(struct ibv_port_attr) <= {});\n}}\n",
        size_of::<ibv_port_attr>(),
    );
    std::fs::write(&source, text).unwrap();
    let mut compiler = Command::new("cc");
    compiler.arg(&source).arg("-o").arg(&program);
    assert!(compiler.status().unwrap().success());
    let output = Command::new(&program).output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    let values: Vec<u64> = printed.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(values.len(), figures.len() + 1);
    for ((c, ours), theirs) in figures.iter().zip(&values) {
        assert_eq!(ours, theirs, "{c}");
    }
    assert_eq!(values.last(), Some(&1), "ibv_port_attr is larger than its room");
}
