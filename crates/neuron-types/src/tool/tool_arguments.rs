//! Deserialisation of tool arguments, with errors that the model can correct.

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{ToolError, read_json_ref};

/// Deserialises a tool's arguments.
///
/// # Errors
///
/// [`ToolError::InvalidInput`] with the JSON path of the invalid value and the expected type.
pub(crate) fn read<A: DeserializeOwned>(tool: &str, input: &Value) -> Result<A, ToolError> {
    read_json_ref(input)
        .map_err(|mismatch| ToolError::InvalidInput(format!("arguments of `{tool}`: {mismatch}")))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Search {
        #[expect(dead_code, reason = "only read")]
        query: String,
        #[expect(dead_code, reason = "only read")]
        count: Option<u8>,
        #[serde(default)]
        #[expect(dead_code, reason = "only read")]
        filters: Vec<Filter>,
    }

    #[derive(Debug, Deserialize)]
    struct Filter {
        #[expect(dead_code, reason = "only read")]
        field: Field,
        #[serde(default)]
        #[expect(dead_code, reason = "only read")]
        bounds: BTreeMap<String, (i8, i8)>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Field {
        Title,
        Author,
    }

    #[track_caller]
    fn check(input: Value, expected: &str) {
        let error = read::<Search>("search", &input).unwrap_err();
        assert_eq!(error.to_string(), format!("invalid input: arguments of `search`: {expected}"));
        assert!(matches!(error, ToolError::InvalidInput(_)));
    }

    #[test]
    fn error_names_place_and_expected_type() {
        let filter =
            |filter: Value| json!({ "query": "q", "filters": [{ "field": "title" }, filter] });
        read::<Search>("search", &filter(json!({ "field": "author" }))).unwrap();
        check(json!({}), "missing field `query`");
        check(json!("q"), "invalid type: string \"q\", expected struct Search");
        check(json!({ "query": 1 }), "`$.query`: invalid type: integer `1`, expected a string");
        check(
            json!({ "query": "q", "count": 256 }),
            "`$.count`: invalid value: integer `256`, expected u8",
        );
        check(
            json!({ "query": "q", "limit": 2 }),
            "`$.limit`: unknown field `limit`, expected one of `query`, `count`, `filters`",
        );
        check(filter(json!({})), "`$.filters[1]`: missing field `field`");
        check(
            filter(json!({ "field": "isbn" })),
            "`$.filters[1].field`: unknown variant `isbn`, expected `title` or `author`",
        );
        check(
            filter(json!({ "field": "title", "bounds": { "a": [1, 2], "b": [1, "x"] } })),
            "`$.filters[1].bounds.b[1]`: invalid type: string \"x\", expected i8",
        );
        check(
            filter(json!({ "field": "title", "bounds": { "a.b \"c\"": 1 } })),
            r#"`$.filters[1].bounds["a.b \"c\""]`: invalid type: integer `1`, expected a tuple of size 2"#,
        );
        let error = read::<Vec<u8>>("t", &json!([1, -1])).unwrap_err();
        assert_eq!(
            error.to_string(),
            "invalid input: arguments of `t`: `$[1]`: invalid value: integer `-1`, expected u8"
        );
    }

    /// Checks that a long field name from the model is shortened in the error text, which contains the path of the
    /// invalid value.
    #[test]
    fn long_name_is_shortened_in_the_error() {
        let huge = "ä".repeat(100_000);
        let filter = json!({ "field": "title", "bounds": { &huge: [1, "x"] } });
        for input in
            [json!({ "query": "q", &huge: 1 }), json!({ "query": "q", "filters": [filter] })]
        {
            let text = read::<Search>("search", &input).unwrap_err().to_string();
            assert!(text.chars().count() < 1100, "{} characters", text.chars().count());
            assert!(text.contains("expected"), "{text}");
        }
    }

    #[test]
    fn long_value_is_shortened_and_expected_type_is_kept() {
        let error =
            read::<Search>("search", &json!({ "query": "q", "count": "ä".repeat(100_000) }));
        let text = error.unwrap_err().to_string();
        assert!(text.chars().count() < 600, "{text}");
        assert!(text.contains("`$.count`: invalid type: string \"ää"), "{text}");
        assert!(text.ends_with("ä\", expected u8"), "{text}");
    }
}
