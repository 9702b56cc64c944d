//! Tests of the searches in the body of a request.

use serde_json::json;

use source::{field_text, has_number, has_text, has_value};

// The module is private, so it is compiled into the tests.
#[path = "../../src/provider/json.rs"]
mod source;

#[test]
fn searches_find_values_at_any_depth() {
    let body = json!({"a": [{"b": "the text"}, 0.7], "c": "{\"y\":1,\"x\":2}"});
    assert!(has_text(&body, "text"));
    assert!(!has_text(&body, "b"));
    assert!(has_number(&body, 0.7));
    assert!(!has_number(&body, 0.699_999_988_079_071));
    assert!(has_value(&body, &json!({"y": 1, "x": 2})));
    assert!(!has_value(&body, &json!({"x": 2, "y": 1})));
    assert!(has_value(&body, &json!({"b": "the text"})));
}

#[test]
fn field_text_returns_the_sent_bytes() {
    let body = br#"{"a": [1,  2], "b":"\u0041"}"#;
    assert_eq!(field_text(body, "a"), Some("[1,  2]"));
    assert_eq!(field_text(body, "b"), Some(r#""\u0041""#));
    assert_eq!(field_text(body, "c"), None);
}
