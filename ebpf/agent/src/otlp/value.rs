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

/// The program of a host that something is from.
pub(super) fn resource(host: &str, program: &str, pid: Option<u32>) -> Resource {
    let mut attributes = vec![text("service.name", program), text("host.name", host)];
    attributes.extend(pid.map(|pid| number("process.pid", pid.into())));
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
