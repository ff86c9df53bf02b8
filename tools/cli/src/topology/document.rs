//! The explanation for programs. Invariant: `matrix` inside it is the same document that is printed
//! without `--explain`.

use super::TopologyView;
use perigee_topology::gid::RankedGid;
use perigee_topology::{Explanation, RankedDevice};
use serde_json::{Map, Value, json};

/// One JSON document.
pub(super) fn text(view: &TopologyView) -> String {
    let explanation = view.topology.explain(&view.selection);
    let matrix: Map<String, Value> = view
        .matrix
        .rows()
        .map(|(location, rails)| (location.to_owned(), json!([rails.preferred, rails.others])))
        .collect();
    let document = json!({
        "matrix": matrix,
        "locations": locations(&explanation),
        "devices": devices(&explanation),
    });
    format!("{document:#}\n")
}

fn locations(explanation: &Explanation) -> Value {
    let choice = |choice: &RankedDevice| {
        json!({
            "device": choice.device,
            "preferred": choice.is_preferred,
            "reason": choice.reason,
        })
    };
    let notes = explanation.locations.iter().map(|note| {
        let choices: Vec<Value> = note.choices.iter().map(choice).collect();
        (note.location.clone(), Value::Array(choices))
    });
    Value::Object(notes.collect())
}

fn devices(explanation: &Explanation) -> Value {
    let gid = |ranked: &RankedGid| {
        json!({
            "port": ranked.entry.port,
            "index": ranked.entry.index,
            "gid": ranked.entry.gid.to_string(),
            "type": ranked.entry.kind.to_string(),
            "interface": ranked.entry.netdev,
            "reason": ranked.reason,
        })
    };
    let notes = explanation.devices.iter().map(|note| {
        let gids: Vec<Value> = note.gids.iter().map(gid).collect();
        (note.device.clone(), json!({ "left_out": note.left_out, "gids": gids }))
    });
    Value::Object(notes.collect())
}
