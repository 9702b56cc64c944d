//! Checks of metrics against the definitions in OpenTelemetry's conventions.

use std::collections::BTreeMap;

use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;
use opentelemetry_proto::tonic::metrics::v1::{Histogram, Metric};
use serde_json::Value;

use super::Checker;
use crate::support::attributes::Attributes;
use crate::support::conventions::Conventions;

/// Attributes that neuron adds to its metrics, each with its operation.
const OWN: [(&str, &str); 2] =
    [("invoke_agent", "gen_ai.agent.name"), ("execute_tool", "gen_ai.tool.name")];

impl Checker {
    pub(super) fn metric(&self, metric: &Metric) -> Vec<String> {
        let Some(definition) = self.conventions.metric(&metric.name) else {
            let is_ours = Conventions::owns(&metric.name);
            return is_ours.then(|| "there is no such metric".to_owned()).into_iter().collect();
        };
        let mut problems = Vec::new();
        let text = |name: &str| definition.get(name).and_then(Value::as_str);
        let (instrument, due) = (instrument(metric), text("instrument").unwrap_or_default());
        if instrument != due {
            problems.push(format!("it is a {instrument} where a {due} is due"));
        }
        if text("unit") != Some(metric.unit.as_str()) {
            let due = text("unit").unwrap_or_default();
            problems.push(format!("its unit is `{}` where `{due}` is due", metric.unit));
        }
        if text("value_type").is_some_and(|due| !has_type(metric, due)) {
            let due = text("value_type").unwrap_or_default();
            problems.push(format!("its values are not {due}"));
        }
        if let Some(Data::Histogram(histogram)) = &metric.data {
            problems.extend(self.buckets(&metric.name, histogram));
        }
        let never: Vec<&str> = definition
            .get("not_operations")
            .and_then(Value::as_array)
            .map(|operations| operations.iter().filter_map(Value::as_str).collect())
            .unwrap_or_default();
        let points = points(metric);
        if points.is_empty() {
            problems.push("it has no points".to_owned());
        }
        for point in points {
            let attributes = Attributes::new(point);
            let operation = attributes.text("gen_ai.operation.name").unwrap_or_default();
            let mut levels: BTreeMap<&str, &str> =
                self.conventions.metric_attributes(&metric.name).into_iter().collect();
            // The conventions allow additional attributes on metrics. `OWN` lists all that neuron adds.
            let own = OWN.iter().filter(|(of, _)| *of == operation);
            levels.extend(own.map(|(_, attribute)| (*attribute, "recommended")));
            problems.extend(self.attributes(&attributes, &levels));
            if never.contains(&operation) {
                problems.push(format!("the operation `{operation}` has a metric of its own"));
            }
        }
        problems
    }

    fn buckets(&self, name: &str, histogram: &Histogram) -> Option<String> {
        let due = self.conventions.buckets(name)?;
        let wrong = histogram.data_points.iter().find(|point| point.explicit_bounds != due)?;
        Some(format!("its buckets are {:?} where {due:?} are due", wrong.explicit_bounds))
    }
}

fn instrument(metric: &Metric) -> &'static str {
    match &metric.data {
        Some(Data::Histogram(_) | Data::ExponentialHistogram(_)) => "histogram",
        Some(Data::Sum(sum)) if sum.is_monotonic => "counter",
        Some(Data::Sum(_)) => "updowncounter",
        Some(Data::Gauge(_)) => "gauge",
        Some(Data::Summary(_)) => "summary",
        None => "nothing",
    }
}

/// Returns `true` if the values of a metric have the type `due`. A histogram exports even integers as doubles, which
/// must then have no fraction.
fn has_type(metric: &Metric, due: &str) -> bool {
    match &metric.data {
        Some(Data::Sum(sum)) => sum.data_points.iter().all(|point| match point.value {
            Some(Number::AsInt(_)) => due == "int",
            Some(Number::AsDouble(_)) => due == "double",
            None => false,
        }),
        Some(Data::Histogram(histogram)) if due == "int" => {
            let whole = |value: Option<f64>| value.is_none_or(|value| value.fract() == 0.0);
            histogram
                .data_points
                .iter()
                .all(|point| whole(point.sum) && whole(point.min) && whole(point.max))
        }
        _ => true,
    }
}

fn points(metric: &Metric) -> Vec<&[KeyValue]> {
    match &metric.data {
        Some(Data::Histogram(histogram)) => {
            histogram.data_points.iter().map(|point| point.attributes.as_slice()).collect()
        }
        Some(Data::Sum(sum)) => {
            sum.data_points.iter().map(|point| point.attributes.as_slice()).collect()
        }
        Some(Data::Gauge(gauge)) => {
            gauge.data_points.iter().map(|point| point.attributes.as_slice()).collect()
        }
        _ => Vec::new(),
    }
}
