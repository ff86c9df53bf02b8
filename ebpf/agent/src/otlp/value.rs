//! Attributes as the protocol has them.

use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;

pub(super) fn text(key: &str, text: &str) -> KeyValue {
    attribute(key, Value::StringValue(text.to_owned()))
}

pub(super) fn number(key: &str, number: u64) -> KeyValue {
    attribute(key, Value::IntValue(i64::try_from(number).unwrap_or(i64::MAX)))
}

fn attribute(key: &str, value: Value) -> KeyValue {
    let value = Some(AnyValue { value: Some(value) });
    KeyValue { key: key.to_owned(), value, ..KeyValue::default() }
}

/// A process that something is from. What is known of it goes before what was given for all.
pub(super) fn of_process(
    host: &str,
    program: &str,
    pid: u32,
    given: &[(String, String)],
) -> Resource {
    let mut attributes = vec![
        text("service.name", program),
        text("service.instance.id", &format!("{host}:{pid}")),
        text("host.name", host),
        number("process.pid", pid.into()),
    ];
    let is_new = |key: &str| attributes.iter().all(|attribute| attribute.key != key);
    let more: Vec<KeyValue> =
        given.iter().filter(|(key, _)| is_new(key)).map(|(key, value)| text(key, value)).collect();
    attributes.extend(more);
    Resource { attributes, ..Resource::default() }
}

/// The agent itself. What was given goes before what it would say; its instance is its host,
/// because that is what its numbers are about.
pub(super) fn of_agent(host: &str, service: Option<&str>, given: &[(String, String)]) -> Resource {
    let mut attributes: Vec<KeyValue> = Vec::new();
    let given = given.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    let usual = [
        ("service.name", "perigee-agent"),
        ("service.instance.id", host),
        ("service.version", env!("CARGO_PKG_VERSION")),
        ("host.name", host),
    ];
    let own = service.map(|service| ("service.name", service));
    for (key, value) in own.into_iter().chain(given).chain(usual) {
        if attributes.iter().all(|attribute| attribute.key != key) {
            attributes.push(text(key, value));
        }
    }
    Resource { attributes, ..Resource::default() }
}

/// Who measured.
pub(super) fn scope() -> InstrumentationScope {
    InstrumentationScope {
        name: "perigee".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..InstrumentationScope::default()
    }
}
