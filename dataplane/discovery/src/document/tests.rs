//! Real documents, limits, and documents made at random.

use super::*;
use proptest::prelude::*;

/// What a Mooncake 0.3.13 engine answered in P2P mode.
const REAL_P2P: &str = r#"{"buffers":[{"addr":140373959634960,"length":2147483648,"name":"127.0.0.1:15384"},{"addr":94609638205904,"length":65536,"name":"127.0.0.1:15384"}],"name":"127.0.0.1:15384","protocol":"tcp","rdma_server_name":"","tcp_data_host":"127.0.0.1","tcp_data_port":16233,"tcp_proto_version":2,"timestamp":"2026-11-21 12:06:54.945639"}
"#;
/// The shape of an RDMA segment.
const RDMA: &str = r#"{"name":"h:1","protocol":"rdma","timestamp":"t","devices":[{"name":"mlx5_0","lid":3,"gid":"fe:80"}],"buffers":[{"name":"cpu:0","addr":4096,"length":8192,"rkey":[4294967295],"lkey":[7]}],"priority_matrix":{"cpu:0":[["mlx5_0"],[]]},"nvlink_handle":"x"}"#;

fn read(json: &str) -> Result<SegmentDocument, DocumentError> {
    SegmentDocument::decode(json.as_bytes())
}

#[test]
fn real_tcp_document_is_read_and_written_with_the_same_fields() {
    let document = read(REAL_P2P).unwrap();
    assert!(document.is_upstream());
    assert_eq!((document.tcp_data_port, document.tcp_proto_version), (16_233, 2));
    let written: Value = serde_json::from_str(&document.encode()).unwrap();
    let original: Value = serde_json::from_str(REAL_P2P).unwrap();
    assert_eq!(written, original);
}

#[test]
fn rdma_document_keeps_keys_matrix_and_unknown_fields() {
    let document = read(RDMA).unwrap();
    assert_eq!(document.buffers[0].rkey, [u32::MAX]);
    assert_eq!(document.unknown["nvlink_handle"], "x");
    assert_eq!(read(&document.encode()).unwrap(), document);
}

#[test]
fn lists_that_are_null_are_empty() {
    let document = read(r#"{"name":"a","protocol":"tcp","buffers":null}"#).unwrap();
    assert_eq!(document.buffers, []);
}

#[test]
fn buffer_is_found_only_for_ranges_inside_it() {
    let document = read(RDMA).unwrap();
    assert!(document.buffer_holding(4096, 8192).is_some());
    assert!(document.buffer_holding(12_287, 1).is_some());
    for (address, bytes) in [(4095, 2), (4096, 8193), (12_288, 1), (u64::MAX, 1), (4097, u64::MAX)]
    {
        assert!(document.buffer_holding(address, bytes).is_none(), "{address} {bytes}");
    }
}

#[test]
fn documents_beyond_the_limits_are_refused() {
    let long = "n".repeat(NAME_BYTES_MAX + 1);
    let devices = vec![r#"{"name":"d"}"#; DEVICES_MAX + 1].join(",");
    for json in [
        format!(r#"{{"name":"{long}","protocol":"tcp"}}"#),
        r#"{"name":"","protocol":"tcp"}"#.to_owned(),
        r#"{"name":"a"}"#.to_owned(),
        format!(r#"{{"name":"a","protocol":"rdma","devices":[{devices}]}}"#),
        r#"{"name":"a","protocol":"tcp","buffers":[{"addr":18446744073709551615,"length":1}]}"#
            .to_owned(),
        r#"{"name":"a","protocol":"tcp","buffers":[{"addr":-1,"length":1}]}"#.to_owned(),
        r#"{"name":"a","protocol":"tcp","tcp_data_port":65536}"#.to_owned(),
        r#"{"name":"a","protocol":"tcp","perigee":{"version":1,"epoch":""}}"#.to_owned(),
        "[".repeat(100_000),
    ] {
        assert!(read(&json).is_err(), "{}", &json[..json.len().min(80)]);
    }
}

#[test]
fn epochs_differ() {
    let (one, two) = (new_epoch().unwrap(), new_epoch().unwrap());
    assert_eq!(one.len(), 32);
    assert_ne!(one, two);
}

prop_compose! {
    fn any_buffer()(
        name in "[a-z:0-9*]{0,9}",
        addr in 0..u64::MAX / 2,
        length in 0..u64::MAX / 2,
        rkey in prop::collection::vec(any::<u32>(), 0..3),
    ) -> BufferEntry {
        BufferEntry { name, addr, length, lkey: rkey.clone(), rkey }
    }
}

prop_compose! {
    fn any_document()(
        name in "\\PC{1,40}",
        tcp_data_port in any::<u16>(),
        buffers in prop::collection::vec(any_buffer(), 0..5),
        gid in prop::option::of("[0-9a-f:]{0,39}"),
        endpoint in prop::option::of("\\PC{0,30}"),
    ) -> SegmentDocument {
        let mut document = SegmentDocument::new(&name, "tcp");
        document.tcp_data_port = tcp_data_port;
        document.buffers = buffers;
        document.devices.extend(gid.map(|gid| DeviceEntry { name: "d".into(), lid: 1, gid }));
        document.perigee = endpoint.map(|data_endpoint| Extra { data_endpoint, ..Extra::new("e") });
        document
    }
}

proptest! {
    #[test]
    fn documents_survive_the_way(document in any_document()) {
        prop_assert_eq!(read(&document.encode()), Ok(document));
    }

    #[test]
    fn any_bytes_are_judged_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(document) = SegmentDocument::decode(&bytes) {
            prop_assert!(read(&document.encode()).is_ok());
        }
    }
}
