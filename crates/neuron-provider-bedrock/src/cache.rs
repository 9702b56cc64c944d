//! Cache points.
//!
//! <https://docs.aws.amazon.com/bedrock/latest/userguide/prompt-caching.html>

use neuron_model::{CacheControl, CacheTtl};
use serde::Serialize;
use serde_json::Value;

use crate::model::{Family, Model};

/// Maximum number of cache points in a request.
const MAX_POINTS: usize = 4;

/// A cache point, which caches everything before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct CachePoint {
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl: Option<&'static str>,
}

/// The cache points that a request may still have. A cache point does not change the response, so a point that the
/// model does not support is left out.
#[derive(Debug)]
pub(crate) struct CachePoints {
    left: usize,
    /// Set while points with a lifetime of an hour are accepted. A longer lifetime must not follow a shorter one.
    may_be_long: bool,
    /// Set if only points with a lifetime of an hour are accepted, because such a point follows.
    must_be_long: bool,
    /// Set if points between tools are accepted.
    in_tools: bool,
    /// Set if a point of the caller's own has a short lifetime.
    has_short: bool,
}

impl CachePoints {
    /// Returns the points that a request may have beside `own`, the points in the API's own JSON.
    pub(crate) fn new<'a>(model: Model<'_>, own: impl Iterator<Item = &'a Value>) -> Self {
        // The only older model with prompt caching for everybody is Claude 3.5 Haiku.
        let is_claude = model.is_claude_since((3, 7));
        let is_supported = is_claude || matches!(model.family, Family::Nova | Family::Nova2);
        let own = own.map(|point| point.get("ttl").is_some_and(|ttl| ttl == "1h"));
        let are_long: Vec<bool> = own.collect();
        Self {
            left: if is_supported { MAX_POINTS.saturating_sub(are_long.len()) } else { 0 },
            may_be_long: model.is_claude_since((4, 5)),
            must_be_long: are_long.contains(&true),
            in_tools: is_claude,
            has_short: are_long.contains(&false),
        }
    }

    /// Returns the point after a tool. The tools come before all other points.
    pub(crate) fn after_tool(&mut self, control: Option<CacheControl>) -> Option<CachePoint> {
        self.next(control.filter(|_| self.in_tools))
    }

    /// Returns the last point of the conversation. All other points come before it.
    pub(crate) fn last(&mut self, control: Option<CacheControl>) -> Option<CachePoint> {
        self.must_be_long = false;
        self.may_be_long &= !self.has_short;
        self.next(control)
    }

    /// Returns the next point, or `None` if there is no breakpoint or no point is left.
    pub(crate) fn next(&mut self, control: Option<CacheControl>) -> Option<CachePoint> {
        let control = control?;
        let is_long = self.may_be_long && control.ttl == Some(CacheTtl::OneHour);
        if self.must_be_long && !is_long {
            return None;
        }
        self.left = self.left.checked_sub(1)?;
        self.may_be_long = is_long;
        // Five minutes are the default. Older models do not have the field.
        Some(CachePoint { r#type: "default", ttl: is_long.then_some("1h") })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const HOUR: Option<CacheControl> = Some(CacheControl { ttl: Some(CacheTtl::OneHour) });
    const DEFAULT: Option<CacheControl> = Some(CacheControl { ttl: None });

    fn points(model: &str) -> CachePoints {
        CachePoints::new(Model::new(model, ""), std::iter::empty())
    }

    #[test]
    fn points_of_the_caller_count_and_decide_about_lifetimes() {
        let model = Model::new("anthropic.claude-sonnet-4-6", "");
        let (hour, short) = (json!({"ttl": "1h"}), json!({"type": "default"}));
        for (own, expected) in [
            (vec![&short, &short, &short], [Some(Some("1h")), None, None]),
            (vec![&short], [Some(Some("1h")), Some(None), Some(None)]),
            (vec![&hour], [Some(Some("1h")), None, Some(Some("1h"))]),
            (vec![&hour, &short], [Some(Some("1h")), None, Some(None)]),
        ] {
            let mut points = CachePoints::new(model, own.into_iter());
            let sent = [points.next(HOUR), points.next(DEFAULT), points.last(HOUR)];
            assert_eq!(sent.map(|point| point.map(|point| point.ttl)), expected);
        }
    }

    #[test]
    fn four_points_are_sent_and_a_longer_one_never_follows_a_shorter_one() {
        let mut points = points("anthropic.claude-sonnet-4-6");
        let sent = [HOUR, None, HOUR, DEFAULT, HOUR, DEFAULT].map(|control| points.next(control));
        let ttls = sent.map(|point| point.map(|point| point.ttl));
        assert_eq!(ttls, [Some(Some("1h")), None, Some(Some("1h")), Some(None), Some(None), None]);
    }

    #[test]
    fn points_that_a_model_does_not_support_are_left_out() {
        for (model, in_tools, elsewhere) in [
            ("anthropic.claude-sonnet-4-20250514-v1:0", Some(None), Some(None)),
            ("anthropic.claude-opus-5-5", Some(Some("1h")), Some(Some("1h"))),
            ("anthropic.claude-3-opus-20240229-v1:0", None, None),
            ("amazon.nova-pro-v1:0", None, Some(None)),
            ("global.amazon.nova-2-lite-v1:0", None, Some(None)),
            ("meta.llama3-1-8b-instruct-v1:0", None, None),
            ("unknown", None, None),
        ] {
            let ttl = |point: Option<CachePoint>| point.map(|point| point.ttl);
            assert_eq!(ttl(points(model).after_tool(HOUR)), in_tools, "{model}");
            assert_eq!(ttl(points(model).next(HOUR)), elsewhere, "{model}");
        }
    }
}
