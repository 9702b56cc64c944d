//! Tests of `support::checker`, which compares metrics with OpenTelemetry's conventions. Each test metric is valid or
//! has one defect.

use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;
use opentelemetry_proto::tonic::metrics::v1::{
    Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint, Sum,
};

use super::{attribute, text};
use crate::support::checker::Checker;
use crate::support::conventions::Version;

fn common() -> Vec<KeyValue> {
    vec![
        attribute("gen_ai.operation.name", text("chat")),
        attribute("gen_ai.provider.name", text("anthropic")),
        attribute("gen_ai.request.model", text("claude")),
    ]
}

fn histogram(name: &str, unit: &str, bounds: &[f64], attributes: Vec<KeyValue>) -> Metric {
    let point = HistogramDataPoint {
        attributes,
        count: 1,
        sum: Some(2.0),
        min: Some(2.0),
        max: Some(2.0),
        explicit_bounds: bounds.to_vec(),
        ..HistogramDataPoint::default()
    };
    let data = Data::Histogram(Histogram { data_points: vec![point], ..Histogram::default() });
    Metric { name: name.to_owned(), unit: unit.to_owned(), data: Some(data), ..Metric::default() }
}

fn seconds() -> Vec<f64> {
    (0..14).map(|n| f64::from(1 << n) / 100.0).collect()
}

fn tokens() -> Metric {
    let bounds: Vec<f64> = (0..14).map(|n| 4_f64.powi(n)).collect();
    let mut attributes = common();
    attributes.push(attribute("gen_ai.token.type", text("input")));
    histogram("gen_ai.client.token.usage", "{token}", &bounds, attributes)
}

fn duration() -> Metric {
    histogram("gen_ai.client.operation.duration", "s", &seconds(), common())
}

fn counter() -> Metric {
    let mut attributes = common();
    attributes.push(attribute("gen_ai.token.modality", text("unknown")));
    let point =
        NumberDataPoint { attributes, value: Some(Number::AsInt(3)), ..NumberDataPoint::default() };
    let data = Data::Sum(Sum { data_points: vec![point], is_monotonic: true, ..Sum::default() });
    Metric {
        name: "gen_ai.client.inference.usage.input_tokens".to_owned(),
        unit: "{token}".to_owned(),
        data: Some(data),
        ..Metric::default()
    }
}

fn point(metric: &mut Metric) -> &mut HistogramDataPoint {
    match &mut metric.data {
        Some(Data::Histogram(histogram)) => &mut histogram.data_points[0],
        other => panic!("no histogram: {other:?}"),
    }
}

#[track_caller]
fn check_metric(
    version: Version,
    mut metric: Metric,
    spoil: impl FnOnce(&mut Metric),
    expected: &[&str],
) {
    spoil(&mut metric);
    let expected: Vec<String> =
        expected.iter().map(|problem| format!("metric `{}`: {problem}", metric.name)).collect();
    assert_eq!(Checker::new(version).metrics(&[metric]), expected);
}

#[test]
fn valid_metrics_pass() {
    let own = Metric { name: "http.requests".to_owned(), ..Metric::default() };
    let none = Vec::<String>::new();
    assert_eq!(Checker::new(Version::V1_41).metrics(&[tokens(), duration(), own.clone()]), none);
    let agent = histogram(
        "gen_ai.invoke_agent.tool_calls",
        "{tool_call}",
        &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0],
        vec![attribute("gen_ai.agent.name", text("planner"))],
    );
    assert_eq!(Checker::new(Version::Latest).metrics(&[counter(), agent, own]), none);
    // These attributes are neuron's own, in addition to the definition.
    check_metric(
        Version::V1_41,
        duration(),
        |metric| {
            point(metric).attributes[0] = attribute("gen_ai.operation.name", text("execute_tool"));
            point(metric).attributes.push(attribute("gen_ai.tool.name", text("add")));
        },
        &[],
    );
}

#[test]
fn metric_that_differs_from_definition_is_reported() {
    let v1_41 = Version::V1_41;
    check_metric(
        v1_41,
        tokens(),
        |metric| metric.name = "gen_ai.client.tokens".to_owned(),
        &["there is no such metric"],
    );
    check_metric(Version::Latest, tokens(), |_| {}, &["there is no such metric"]);
    check_metric(
        v1_41,
        duration(),
        |metric| metric.unit = "ms".to_owned(),
        &["its unit is `ms` where `s` is due"],
    );
    check_metric(
        v1_41,
        duration(),
        |metric| {
            let attributes = common();
            let point = NumberDataPoint { attributes, ..NumberDataPoint::default() };
            metric.data = Some(Data::Gauge(Gauge { data_points: vec![point] }));
        },
        &["it is a gauge where a histogram is due"],
    );
    check_metric(
        v1_41,
        duration(),
        |metric| metric.data = Some(Data::Histogram(Histogram::default())),
        &["it has no points"],
    );
    check_metric(
        v1_41,
        tokens(),
        |metric| point(metric).sum = Some(1.5),
        &["its values are not int"],
    );
    check_metric(
        v1_41,
        duration(),
        |metric| point(metric).explicit_bounds = vec![1.0],
        &[&format!("its buckets are [1.0] where {:?} are due", seconds())],
    );
    let spoilt = |spoil: fn(&mut Sum)| {
        move |metric: &mut Metric| match &mut metric.data {
            Some(Data::Sum(sum)) => spoil(sum),
            other => panic!("no sum: {other:?}"),
        }
    };
    check_metric(
        Version::Latest,
        counter(),
        spoilt(|sum| sum.is_monotonic = false),
        &["it is a updowncounter where a counter is due"],
    );
    check_metric(
        Version::Latest,
        counter(),
        spoilt(|sum| sum.data_points[0].value = Some(Number::AsDouble(3.0))),
        &["its values are not int"],
    );
}

#[test]
fn metric_attribute_outside_definition_is_reported() {
    let v1_41 = Version::V1_41;
    check_metric(
        v1_41,
        tokens(),
        |metric| point(metric).attributes.truncate(3),
        &["`gen_ai.token.type` is missing"],
    );
    check_metric(
        v1_41,
        tokens(),
        |metric| point(metric).attributes[3] = attribute("gen_ai.token.type", text("cache")),
        &["`gen_ai.token.type` has no value \"cache\""],
    );
    check_metric(
        v1_41,
        duration(),
        |metric| point(metric).attributes.push(attribute("gen_ai.conversation.id", text("1"))),
        &["`gen_ai.conversation.id` is not in the definition"],
    );
    check_metric(
        v1_41,
        duration(),
        |metric| point(metric).attributes.push(attribute("gen_ai.tool.name", text("add"))),
        &["`gen_ai.tool.name` is not in the definition"],
    );
    check_metric(
        v1_41,
        duration(),
        |metric| point(metric).attributes.push(attribute("server.address", text("::1"))),
        &["`server.port` is missing beside `server.address`"],
    );
    check_metric(
        v1_41,
        duration(),
        |metric| {
            point(metric).attributes[2] = attribute("gen_ai.request.model", Value::IntValue(4))
        },
        &["`gen_ai.request.model` is int where string is due"],
    );
    check_metric(
        Version::Latest,
        duration(),
        |_| {},
        &["the operation `chat` has a metric of its own"],
    );
}
