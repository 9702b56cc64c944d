//! `SecretRedactor`.

use std::collections::HashMap;
use std::io;

use neuron_tool::ToolRegistry;
use neuron_tool::builtin::SecretRedactor;
use neuron_types::{ContentItem, ToolContext, ToolError, ToolOutput};
use proptest::prelude::*;
use serde_json::json;

use crate::support::{Result, registry, tool};

fn redacted(redactor: SecretRedactor, ends: impl Fn() -> Result + Send + Sync + 'static) -> Result {
    let mut registry: ToolRegistry = registry([tool("t", move |_| ends())]);
    registry.add_middleware(redactor);
    let environment = HashMap::from([
        ("DATABASE_URL".to_owned(), "postgres://me:pw@host".to_owned()),
        ("HOME".to_owned(), "/home/me".to_owned()),
    ]);
    let ctx = ToolContext { environment, ..ToolContext::default() };
    futures_util::FutureExt::now_or_never(registry.execute("t", json!({}), &ctx)).unwrap()
}

fn redactor() -> SecretRedactor {
    SecretRedactor::new()
        .with_secret("hunter2")
        .with_secret("hunter2-and-more")
        .with_secret("line 1\n\"line 2\"")
        .with_secret("")
        .with_environment_variable("DATABASE_URL")
        .with_environment_variable("NOT_SET")
}

#[test]
fn texts_and_structured_content_are_redacted() {
    let output = redacted(redactor(), || {
        let structured = json!({
            "hunter2": ["a hunter2", 7, null],
            "key": "sk-0123456789012345678901234567890123456789"
        });
        Ok(ToolOutput {
            content: vec![
                ContentItem::Text("hunter2-and-more hunter2, postgres://me:pw@host".into()),
                ContentItem::Text(json!({ "a": "line 1\n\"line 2\"" }).to_string()),
                ContentItem::Text("line 1\n\"line 2\" in /home/me".into()),
            ],
            structured_content: Some(structured),
            is_error: true,
        })
    });
    let text = |text: &str| ContentItem::Text(text.into());
    assert_eq!(
        output.unwrap(),
        ToolOutput {
            content: vec![
                text("[redacted] [redacted], [redacted]"),
                text(r#"{"a":"[redacted]"}"#),
                text("[redacted] in /home/me"),
            ],
            structured_content: Some(json!({
                "[redacted]": ["a [redacted]", 7, null],
                "key": "[redacted]"
            })),
            is_error: true,
        }
    );
}

#[test]
fn errors_are_redacted_and_others_keep_their_type() {
    for (error, expected) in [
        (ToolError::NotFound as fn(String) -> ToolError, "tool not found: no [redacted]"),
        (ToolError::InvalidInput, "invalid input: no [redacted]"),
        (ToolError::PermissionDenied, "permission denied: no [redacted]"),
        (ToolError::ModelRetry, "no [redacted]"),
        (|text| ToolError::ExecutionFailed(text.into()), "execution failed: no [redacted]"),
    ] {
        let result = redacted(redactor(), move || Err(error("no hunter2".into())));
        assert_eq!(result.unwrap_err().to_string(), expected);
    }

    let clean = || Err(ToolError::ExecutionFailed(io::Error::other("disk full").into()));
    let Err(ToolError::ExecutionFailed(source)) = redacted(redactor(), clean) else {
        panic!("execution failed")
    };
    assert!(source.is::<io::Error>());

    /// An error that tells the secret in its source and to developers only.
    #[derive(Debug, thiserror::Error)]
    #[error("cannot connect")]
    struct Outer(#[source] Inner);
    #[derive(Debug, thiserror::Error)]
    #[error("to {0}")]
    struct Inner(&'static str);
    let deep = || Err(ToolError::ExecutionFailed(Outer(Inner("hunter2")).into()));
    let Err(ToolError::ExecutionFailed(source)) = redacted(redactor(), deep) else {
        panic!("execution failed")
    };
    assert_eq!(source.to_string(), "cannot connect");
    assert!(source.source().is_none() && !format!("{source:?}").contains("hunter2"));
}

#[test]
fn the_redactor_does_not_show_what_it_hides() {
    let text = format!("{:?}", redactor());
    assert!(text.contains("DATABASE_URL") && !text.contains("hunter2"), "{text}");
}

proptest! {
    #[test]
    fn no_secret_is_left_and_nothing_else_is_changed(
        secret in "[a-zä\"\n]{3,8}",
        around in prop::collection::vec("[A-Z0-9 ]{0,6}", 1..5),
    ) {
        let (text, expected) = (around.join(&secret), around.join("[redacted]"));
        let redactor = SecretRedactor::new().with_secret(secret.clone());
        let output = redacted(redactor, move || Ok(ToolOutput::text(text.clone()))).unwrap();
        prop_assert_eq!(output.content[0].to_string(), expected);
    }
}
