//! Golden outputs and the committed schema. Invariant: the files in `golden/` change only by hand.

use serde_json::Value;

use super::*;

fn golden(name: &str, found: &str) {
    let path = format!("{}/src/report/golden/{name}", env!("CARGO_MANIFEST_DIR"));
    let wanted = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(found, wanted, "{path}\n{found}");
}

#[test]
fn formats_are_the_golden_ones() {
    let unit = BandwidthUnit::default();
    golden("nic.txt", &samples::nic().print(Format::Text, unit));
    golden("nic.csv", &samples::nic().print(Format::Csv, unit));
    golden("nic.json", &samples::nic().print(Format::Json, unit));
    golden("master.txt", &samples::master().print(Format::Text, unit));
    golden("engine.txt", &samples::engine().print(Format::Text, unit));
}

#[test]
fn the_text_form_fits_80_columns() {
    for report in [samples::nic(), samples::master(), samples::engine()] {
        for line in report.print(Format::Text, BandwidthUnit::default()).lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }
}

#[test]
fn figures_alone_are_a_report() {
    let mut report = samples::nic();
    report.rows.clear();
    let text = report.print(Format::Text, BandwidthUnit::default());
    assert!(text.contains(&report.figures[0].name), "{text}");
}

#[test]
fn bandwidths_follow_the_unit() {
    let text = samples::nic().print(Format::Text, "Gb".parse().unwrap());
    assert!(text.contains("BW average[Gb/sec]"), "{text}");
    assert!(text.contains("write 1 MiB: 180.0 Gb/s"), "{text}");
}

#[test]
fn json_reads_back_to_the_same_report() {
    for report in [samples::nic(), samples::master(), samples::engine()] {
        let back: Report = serde_json::from_str(&report.json()).unwrap();
        assert_eq!(back, report);
    }
}

fn schema() -> Value {
    include_str!("../../schema/report.json").parse().unwrap()
}

/// Where `value` departs from `schema`; knows the words that the committed schema uses.
fn departures(schema: &Value, value: &Value, at: &str) -> Vec<String> {
    let mut found = Vec::new();
    let rules = schema.as_object().unwrap();
    for (word, rule) in rules {
        match word.as_str() {
            "$schema" | "title" | "description" | "$defs" => {}
            "$ref" => {
                let name = rule.as_str().unwrap().rsplit('/').next().unwrap();
                found.extend(departures(&self::schema()["$defs"][name], value, at));
            }
            "type" => {
                let kinds = rule.as_array().cloned().unwrap_or_else(|| vec![rule.clone()]);
                if !kinds.iter().any(|kind| is_kind(value, kind.as_str().unwrap())) {
                    found.push(format!("{at}: {value} is not {rule}"));
                }
            }
            "const" if value != rule => found.push(format!("{at}: {value} is not {rule}")),
            "enum" if !rule.as_array().unwrap().contains(value) => {
                found.push(format!("{at}: {value} is none of {rule}"));
            }
            "const" | "enum" => {}
            "minimum" => {
                if value.as_f64().is_some_and(|number| number < rule.as_f64().unwrap()) {
                    found.push(format!("{at}: {value} is below {rule}"));
                }
            }
            "required" => {
                for name in rule.as_array().unwrap() {
                    if value.is_object() && value.get(name.as_str().unwrap()).is_none() {
                        found.push(format!("{at}: {name} is missing"));
                    }
                }
            }
            "items" => {
                for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                    found.extend(departures(rule, item, &format!("{at}[{index}]")));
                }
            }
            "properties" | "additionalProperties" => {}
            other => panic!("the schema uses {other}, which this test does not know"),
        }
    }
    for (name, item) in value.as_object().into_iter().flatten() {
        let at = format!("{at}.{name}");
        match (
            rules.get("properties").and_then(|all| all.get(name)),
            rules.get("additionalProperties"),
        ) {
            (Some(rule), _) => found.extend(departures(rule, item, &at)),
            (None, Some(Value::Bool(false))) => found.push(format!("{at}: not in the schema")),
            (None, Some(rule)) => found.extend(departures(rule, item, &at)),
            (None, None) => {}
        }
    }
    found
}

fn is_kind(value: &Value, kind: &str) -> bool {
    match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        other => panic!("unknown type {other}"),
    }
}

#[test]
fn reports_follow_the_committed_schema() {
    for report in [samples::nic(), samples::master(), samples::engine()] {
        let value: Value = report.json().parse().unwrap();
        assert_eq!(departures(&schema(), &value, "report"), Vec::<String>::new());
    }
}

#[test]
fn the_schema_refuses_what_is_no_report() {
    let good: Value = samples::nic().json().parse().unwrap();
    let spoil = |change: &dyn Fn(&mut Value)| {
        let mut value = good.clone();
        change(&mut value);
        departures(&schema(), &value, "report").len()
    };
    assert_eq!(spoil(&|value| value["format"] = "perigee-bench-0".into()), 1);
    assert_eq!(spoil(&|value| value["rows"][0]["bytes"] = "1 MiB".into()), 1);
    assert_eq!(spoil(&|value| value["rows"][0]["rate"]["unit"] = "furlongs".into()), 1);
    assert_eq!(spoil(&|value| value["rows"][0]["iterations"] = (-1).into()), 1);
    assert_eq!(spoil(&|value| value["surprise"] = 1.into()), 1);
    assert_eq!(
        spoil(&|value| {
            value.as_object_mut().unwrap().remove("machine");
        }),
        1
    );
}

#[test]
fn the_schema_names_every_field_of_a_report() {
    let value: Value = samples::nic().json().parse().unwrap();
    let named = |object: &Value, rules: &Value| {
        let fields: Vec<&String> = object.as_object().unwrap().keys().collect();
        let rules = rules["properties"].as_object().unwrap();
        assert_eq!(fields, rules.keys().collect::<Vec<_>>());
    };
    let schema = schema();
    named(&value, &schema);
    named(&value["machine"], &schema["$defs"]["machine"]);
    named(&value["machine"]["nics"][0], &schema["$defs"]["nic"]);
    named(&value["rows"][2], &schema["$defs"]["row"]);
    named(&value["rows"][2]["rate"], &schema["$defs"]["rate"]);
    named(&value["rows"][2]["latency"], &schema["$defs"]["latency"]);
    named(&value["figures"][0], &schema["$defs"]["figure"]);
    let value: Value = samples::engine().json().parse().unwrap();
    let baseline = &value["rows"][0]["baselines"][0];
    named(baseline, &schema["$defs"]["baseline"]);
    named(&baseline["ratio"], &schema["$defs"]["spread"]);
}
