//! What is served against the schema in the tree, member by member.

use super::*;
use serde_json::Value;

fn schema() -> Value {
    include_str!("../../snapshot.schema.json").parse().unwrap()
}

/// Where `value` departs from `schema`; a member that the schema does not have is one, too.
fn departures(schema: &Value, value: &Value, at: &str) -> Vec<String> {
    if let Some(name) = schema["$ref"].as_str() {
        let name = name.rsplit('/').next().unwrap();
        return departures(&self::schema()["$defs"][name], value, at);
    }
    let kinds = match &schema["type"] {
        Value::Array(kinds) => kinds.clone(),
        kind => vec![kind.clone()],
    };
    let is_kind = |kind: &Value| match kind.as_str().unwrap() {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        other => panic!("the schema uses {other}, which this test does not know"),
    };
    if !kinds.iter().any(is_kind) {
        return vec![format!("{at}: {value} is no {kinds:?}")];
    }
    let mut found = Vec::new();
    if schema["const"].is_number() && schema["const"] != *value {
        found.push(format!("{at}: {value} is not {}", schema["const"]));
    }
    for (number, item) in value.as_array().into_iter().flatten().enumerate() {
        found.extend(departures(&schema["items"], item, &format!("{at}[{number}]")));
    }
    for (name, member) in value.as_object().into_iter().flatten() {
        let at = format!("{at}.{name}");
        match (&schema["properties"][name], &schema["additionalProperties"]) {
            (Value::Null, Value::Null) => found.push(format!("{at}: not in the schema")),
            (Value::Null, rule) => found.extend(departures(rule, member, &at)),
            (rule, _) => found.extend(departures(rule, member, &at)),
        }
    }
    for name in schema["required"].as_array().into_iter().flatten() {
        if value.is_object() && value[name.as_str().unwrap()].is_null() {
            let rule = &schema["properties"][name.as_str().unwrap()]["type"];
            let may_be_null = rule.as_array().is_some_and(|all| all.contains(&"null".into()));
            if !may_be_null || !value.as_object().unwrap().contains_key(name.as_str().unwrap()) {
                found.push(format!("{at}: lacks {name}"));
            }
        }
    }
    found
}

/// One of everything.
fn full() -> Snapshot {
    let suspect = Suspect {
        kind: SuspectKind::Disk,
        name: "sda".to_owned(),
        cause: SuspectCause::Disk,
        evidence: "slow".to_owned(),
        since_ms: 1,
        now_ns: 2,
        usual_ns: 3,
    };
    let nic = NicSeries {
        hardware: BTreeMap::from([("np_cnp_sent".to_owned(), 1)]),
        probed: Some([1, 2, 3, 4]),
        ..NicSeries::default()
    };
    Snapshot {
        schema: Snapshot::SCHEMA,
        nics: vec![nic, NicSeries::default()],
        flows: vec![FlowSeries::default()],
        tcp: vec![TcpSeries::default()],
        links: vec![LinkSeries::default()],
        suspects: vec![suspect.clone()],
        past_suspects: vec![PastSuspect { suspect, until_ms: 4 }],
        drops: vec![DropSeries::default()],
        blocks: vec![BlockSeries::default()],
        disks: vec![DiskSeries::default()],
        urings: vec![UringSeries::default()],
        tasks: vec![TaskSeries::default()],
        batches: vec![BatchSeries::default()],
        slow: vec![SlowBatchEntry::default()],
        processes: vec![ProcessSeries::default()],
        programs: vec![ProgramSeries::default()],
        probes: vec![ProbeSeries::default()],
        lost: BTreeMap::from([("slow_batches".to_owned(), 1)]),
        sources: crate::explain::sources(&BTreeMap::new(), &BTreeMap::new(), 0, 0, None),
        ..Snapshot::default()
    }
}

#[test]
fn a_snapshot_with_one_of_everything_is_as_its_schema_says() {
    let value = serde_json::to_value(full()).unwrap();
    assert_eq!(departures(&schema(), &value, ""), Vec::<String>::new());
    assert_eq!(schema()["properties"]["schema"]["const"], Snapshot::SCHEMA);
}

#[test]
fn a_snapshot_of_this_host_is_as_its_schema_says() {
    let options = crate::AgentOptions { state: None, ebpf: false, ..Default::default() };
    let value = serde_json::to_value(crate::Collector::new(options).collect()).unwrap();
    assert_eq!(departures(&schema(), &value, ""), Vec::<String>::new());
}

#[test]
fn what_is_not_in_the_schema_or_of_another_kind_is_found() {
    let mut value = serde_json::to_value(full()).unwrap();
    value["nics"][0]["device"] = 7.into();
    value["more"] = 1.into();
    value["links"][0].as_object_mut().unwrap().remove("peer");
    let found = departures(&schema(), &value, "");
    assert_eq!(found.len(), 3, "{found:?}");
}
