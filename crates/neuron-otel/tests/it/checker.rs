//! Tests of the checker in `support`, which must accept valid telemetry and report each defect.

mod metrics;
mod spans;

use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};

fn attribute(name: &str, value: Value) -> KeyValue {
    KeyValue {
        key: name.to_owned(),
        value: Some(AnyValue { value: Some(value) }),
        ..KeyValue::default()
    }
}

fn text(text: &str) -> Value {
    Value::StringValue(text.to_owned())
}
