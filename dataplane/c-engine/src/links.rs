//! What an engine can reach its peers over, for people and programs. Pure.
//! Invariant: a NIC is listed once; one that is only in the matrix is listed as such.

use crate::entry::NicLoad;
use crate::limits::NIC_NAME_BYTES;
use perigee_engine::{Route, RouteReport, TransferEngine};
use serde_json::{Value, json};
use std::ffi::c_char;
use std::fmt::Write;

/// The links of an engine as JSON: `local_nics` and `topology`.
pub(crate) fn json(engine: &TransferEngine) -> String {
    let topology: Value = serde_json::from_str(&engine.topology_json()).unwrap_or_default();
    document(&engine.rails(), topology).to_string()
}

/// The same as lines.
pub(crate) fn lines(engine: &TransferEngine) -> String {
    let topology: Value = serde_json::from_str(&engine.topology_json()).unwrap_or_default();
    describe(&document(&engine.rails(), topology))
}

/// Loads of the NICs that rails go over.
pub(crate) fn loads(engine: &TransferEngine) -> Vec<NicLoad> {
    let rails = engine.rails();
    rails.iter().filter(|rail| rail.route == Route::Rdma).map(load).collect()
}

fn load(rail: &RouteReport) -> NicLoad {
    let mut device_name: [c_char; NIC_NAME_BYTES] = [0; NIC_NAME_BYTES];
    // The last one stays 0.
    let room = device_name.iter_mut().take(NIC_NAME_BYTES - 1);
    for (place, byte) in room.zip(rail.name.bytes()) {
        *place = c_char::from_ne_bytes([byte]);
    }
    NicLoad {
        device_name,
        inflight_bytes: rail.in_flight,
        ewma_bandwidth_bps: rail.bytes_per_second as f64,
    }
}

fn document(rails: &[RouteReport], topology: Value) -> Value {
    let mut nics: Vec<Value> = rails.iter().map(nic).collect();
    for name in devices(&topology) {
        if !rails.iter().any(|rail| rail.name == name) {
            nics.push(json!({"device": name, "source": "topology"}));
        }
    }
    json!({"local_nics": nics, "topology": topology})
}

fn nic(rail: &RouteReport) -> Value {
    json!({
        "device": rail.name,
        "source": format!("{}_transport", rail.route.transport()),
        "state": rail.state,
        "bytes_read": rail.bytes_read,
        "bytes_written": rail.bytes_written,
        "operations": rail.operations,
        "errors": rail.errors,
        "bytes_per_second": rail.bytes_per_second,
    })
}

/// Every device of a matrix, once.
fn devices(topology: &Value) -> Vec<String> {
    let rows = topology.as_object().into_iter().flat_map(|rows| rows.values());
    let lists = rows.filter_map(Value::as_array).flatten().filter_map(Value::as_array);
    let mut names: Vec<String> =
        lists.flatten().filter_map(Value::as_str).map(str::to_owned).collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn describe(document: &Value) -> String {
    let mut text = String::from("Local NICs:\n");
    let nics = document["local_nics"].as_array().map_or(&[][..], Vec::as_slice);
    if nics.is_empty() {
        text += "  none has carried bytes yet\n";
    }
    for nic in nics {
        let shown = |name: &str| nic[name].as_str().unwrap_or_default().to_owned();
        let state = match shown("source").as_str() {
            "topology" => "topology only".to_owned(),
            _ => format!(
                "{}, {} bytes read, {} written, {} errors",
                shown("state"),
                nic["bytes_read"],
                nic["bytes_written"],
                nic["errors"]
            ),
        };
        let _ = writeln!(text, "  {} ({}): {state}", shown("device"), shown("source"));
    }
    text += "Topology:\n";
    for (location, row) in document["topology"].as_object().into_iter().flatten() {
        let _ = writeln!(text, "  {location}: preferred {}, others {}", row[0], row[1]);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rail(name: &str, route: Route) -> RouteReport {
        RouteReport {
            name: name.to_owned(),
            route,
            bytes_read: 1,
            bytes_written: 2,
            bytes_served: 3,
            operations: 4,
            errors: 5,
            refused: 6,
            in_flight: 7,
            bytes_per_second: 8,
            state: "up".to_owned(),
        }
    }

    #[test]
    fn a_nic_is_listed_once_with_its_source() {
        let topology = json!({"cpu:0": [["mlx5_0"], ["mlx5_1"]], "cpu:1": [["mlx5_1"], []]});
        let rails = [rail("mlx5_0", Route::Rdma), rail("eth0", Route::Tcp)];
        let document = document(&rails, topology);
        let nics = document["local_nics"].as_array().unwrap();
        let listed: Vec<_> = nics.iter().map(|nic| (&nic["device"], &nic["source"])).collect();
        let expected = json!([
            ["mlx5_0", "rdma_transport"],
            ["eth0", "tcp_transport"],
            ["mlx5_1", "topology"]
        ]);
        assert_eq!(json!(listed), expected);
        let text = describe(&document);
        for part in ["Local NICs", "mlx5_1 (topology): topology only", "cpu:0: preferred"] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }

    #[test]
    fn names_of_loads_end() {
        let load = load(&rail(&"x".repeat(100), Route::Rdma));
        assert_eq!(load.device_name[NIC_NAME_BYTES - 1], 0);
        assert_ne!(load.device_name[NIC_NAME_BYTES - 2], 0);
        assert_eq!((load.inflight_bytes, load.ewma_bandwidth_bps), (7, 8.0));
    }
}
